"""The environment: a BabyAI level as text, with seven commands."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, cast

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.envs.babyai import bot, levels, rules, view
from agentgym.envs.babyai.parts import Cell, Instruction, Level
from agentgym.envs.babyai.rules import COMMANDS, TOGGLE

SEEDS = 2**31
"""Number of seeds to draw layouts from."""


class BabyAI(TextEnv):
    """Follow an instruction in rooms, seeing only part of the squares ahead.

    Levels come from the `minigrid` package (BabyAI, arXiv 1810.08272). `level` names one of them; by default the difficulty
    chooses. Reward: 1 when minigrid's verifier accepts the instruction as completed. Toggling a box destroys it; if the
    instruction needed the box, the episode ends.

    Ceiling: the shortcut policy `word overlap` goes forward when the mission says "go", and turns if something is in the
    way. That occasionally reaches the goal at difficulty 0, where a level is one room of 8 by 8 squares.
    """

    task_settings: ClassVar[tuple[str, ...]] = ("level", "package_limit")
    settings: ClassVar[tuple[str, ...]] = task_settings
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"published": {"package_limit": True}}
    level: str = ""
    """Name of a level of minigrid, such as `BossLevel`; empty: the levels of the difficulty."""
    package_limit: bool = False
    """Use minigrid's own step limit, computed from the rooms and the mission of each layout; `horizon` overrides it.

    The preset `published` sets this option, for comparable success rates.
    """
    horizon = 0  # the level's, unless set by the user
    declared = Declarations(random_bound=0.3, expert_bound=0.9, ceilings={"word overlap": 0.4})

    def requires(self) -> None:
        super().requires()
        levels.check_installed()

    def check_options(self) -> None:
        self._own_limit = bool(self.package_limit) and "horizon" not in self.__dict__
        if "horizon" not in self.__dict__:
            self.horizon = levels.horizon(self.level, self.difficulty if self.difficulty in range(10**6) else 0)
        super().check_options()
        levels.names(self.level, self.difficulty)  # raises for an invalid level

    def setup(self) -> None:
        self._onlooker: tuple[object, bot.ObservingBot] | None = None
        self._plan: tuple[object, list[int], list[int]] = (None, [], [])

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a level and a layout that turning in place does not solve."""
        names = levels.names(self.level, difficulty)
        while True:
            name, seed = str(names[int(rng.integers(len(names)))]), int(rng.integers(SEEDS))
            level = levels.layout(name, seed)
            mission = str(level.mission)
            data: dict[str, object] = {"level": name, "seed": seed, "mission": mission, "rooms": level.pprint_grid()}
            if not any(level.step(rules.LEFT)[2] for _ in range(4)):
                return Task(mission, data)

    def split_key(self, task: Task) -> object:
        return task.data["mission"], task.data["rooms"]

    def limit_of(self, task: Task) -> int:
        """Return minigrid's limit for the layout if `package_limit` is set and `horizon` is not; else return `horizon`.

        Commands without effect count toward either limit.
        """
        return levels.package_limit(task.data["level"], task.data["seed"]) if self._own_limit else self.horizon

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return a sentence on the turn limit; empty if minigrid's own limit, computed from each layout, applies."""
        if options.get("horizon") is not None or not (options.get("package_limit") or options.get("preset") == "published"):
            return "does not limit episodes as the package does (preset='published' without horizon)"
        return ""

    # The episode

    def begin(self, task: Task) -> str:
        self.game = levels.layout(task.data["level"], task.data["seed"])
        self.log: list[int] = []
        return (
            f"Mission: {task.data['mission']}.\n"
            f"Reply with {', '.join(COMMANDS[:-1])}, or done, which does nothing. Toggle opens and closes the door in front "
            "of you (to unlock a door, carry a key of the same color) and opens a box, which then disappears.\n"
            f"On the map you are ^, facing up: {view.LEGEND}.\n\n{view.described(self.game)}"
        )

    def act(self, action: str) -> str | Outcome:
        command = " ".join(action.split()).lower()
        if command not in COMMANDS:
            return self.invalid(f"{command[:40]!r} is not a command. Reply with {', '.join(COMMANDS[:-1])} or done.")
        hindrance = rules.hindrance(self.game, command)
        if hindrance:
            return self.invalid(f"{hindrance}\n\n{view.described(self.game)}")
        return self._moved(COMMANDS.index(command))

    def _moved(self, action: int) -> str | Outcome:
        game = self.game
        box = game.grid.get(*game.front_pos) if action == TOGGLE else None
        _, reward, over, _, _ = game.step(action)
        self.log.append(action)
        if box is not None and box.type == "box":
            game.update_objs_poss()
        text = view.described(game)
        if over:
            return self.win(f"Done.\n\n{text}") if reward > 0 else self.lose(f"That was the wrong object.\n\n{text}")
        if box is not None and box.type == "box" and not rules.possible(game):
            return self.lose(f"The box is gone, and the mission needed it.\n\n{text}")
        return text

    def admissible(self) -> list[str]:
        return rules.possible_commands(self.game)

    def state(self) -> tuple[object, ...]:
        game = self.game
        meanings = [desc for instr in rules.clauses(game.instrs) for desc in rules.descs(instr)]
        grid = game.grid

        def mark(cell: Cell) -> tuple[object, ...]:
            """Return an object's appearance, its contents, and the parts of the mission that refer to it."""
            meant = tuple(n for n, desc in enumerate(meanings) if any(cell is matching for matching in desc.obj_set))
            return (*cell.encode(), mark(cell.contains) if cell.contains else None, meant)

        things = [
            (n % grid.width, n // grid.width, mark(cell))
            for n, cell in enumerate(grid.grid)
            if cell is not None and cell.type != "wall"
        ]
        places = [sorted(map(_ints, desc.obj_poss)) for desc in meanings]
        carried = mark(game.carrying) if game.carrying else None
        return _ints(game.agent_pos), int(game.agent_dir), carried, things, places, _progress(game.instrs, mark)

    def save(self) -> tuple[Level, list[int]]:
        return levels.copied(self.game), list(self.log)

    def load(self, payload: object) -> None:
        game, log = cast("tuple[Level, list[int]]", payload)
        self.forget()
        self.game, self.log = levels.copied(game), list(log)

    # Policies

    def oracle(self) -> Iterator[str]:
        episode = (self.task.data["level"], self.task.data["seed"])
        known, base, moves = self._plan
        done = len(self.log) - len(base)
        if known != episode or done < 0 or self.log != [*base, *moves[:done]] or done >= len(moves):
            self._plan, moves, done = (episode, list(self.log), bot.solution(self.game)), [], 0
            moves = self._plan[2]
        yield from (COMMANDS[action] for action in moves[done:])

    def expert(self) -> Iterator[str]:
        """Yield the actions of minigrid's bot, which knows only what this episode has shown."""
        while True:
            yield COMMANDS[self._watched().advice]

    def _watched(self) -> bot.ObservingBot:
        key = (self.task.data["level"], self.task.data["seed"])
        known = self._onlooker
        if known is None or known[0] != key or known[1].done != self.log[: len(known[1].done)]:
            known = (key, bot.ObservingBot(levels.layout(*key)))
        for action in self.log[len(known[1].done) :]:
            known[1].watch(action)
        self._onlooker = known
        return known[1]


def _ints(place: Sequence[int]) -> tuple[int, int]:
    return int(place[0]), int(place[1])


def _progress(instr: Instruction, mark: Callable[[Cell], object]) -> tuple[object, ...]:
    """Return the verifier's progress: the status of each part, and `mark` of the object that it believes is carried."""
    if hasattr(instr, "instr_a"):
        return instr.a_done, instr.b_done, _progress(instr.instr_a, mark), _progress(instr.instr_b, mark)
    carried: Cell | None = vars(instr).get("preCarrying")
    return (mark(carried) if carried is not None else None,)
