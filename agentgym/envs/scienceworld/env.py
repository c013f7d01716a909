"""The environment: a ScienceWorld task, with the simulator's texts as observations."""

import functools
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.envs.scienceworld import simulator
from agentgym.envs.scienceworld import tasks as published
from agentgym.envs.scienceworld.answers import HELP, LONGEST, NO_ACTION
from agentgym.envs.scienceworld.expert import Advisor
from agentgym.envs.scienceworld.simulator import STEP, Simulator, refused
from agentgym.envs.scienceworld.solve import Key, plan
from agentgym.errors import BadConfig, Fault, UnknownName, no_such

LOOKS = 10
"""Default turn limit as a multiple of the move limit."""


class ScienceWorld(TextEnv):
    """Do an elementary-school science task in a house with a kitchen, a workshop and a greenhouse.

    Tasks, variations, splits and simulator come from the `scienceworld` package (arXiv 2203.07540). `tasks_of` names some of
    its thirty tasks; `simplifications` are the package's. Reward: 1 at score 100, else 0. `shaping={"score": 0.9}` also
    pays the score, as the published reward does.
    """

    splits = {"train": 0.5, "dev": 0.25, "test": 0.25}  # noqa: RUF012  # as published
    horizon = 100
    blocking = True
    snapshot_kind = "replay"
    task_settings: ClassVar[tuple[str, ...]] = ("tasks_of", "simplifications", "moves")
    settings: ClassVar[tuple[str, ...]] = task_settings
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {"published": {"moves": published.LIMIT}}
    tasks_of: str | Sequence[str] = ()
    """Names of ScienceWorld's tasks (`boil`, `find-animal`, …) to draw from; empty: all thirty."""
    simplifications: str = ""
    """ScienceWorld's simplifications, comma-separated (`easy`, `openDoors`, …); empty: none."""
    moves: int = 0
    """Maximum number of moves (ScienceWorld's `envStepLimit`), after which an episode fails; 0: no limit on moves.

    Looking is free, `wait1` takes 2 moves, `wait` 11. A limit on moves also limits turns, to ten times as many unless
    `horizon` is set. Some of ScienceWorld's own solutions need more than its limit of 100 moves. The preset `published` has
    100 moves, for comparable scores.
    """
    # the expert over all thirty; it solves 0.96 of them, and none of mendelian-genetics-unknown-plant
    declared = Declarations(random_bound=0.02, expert_bound=0.8)

    def requires(self) -> None:
        super().requires()
        simulator.check_installed()

    def check_options(self) -> None:
        self.tasks_of = (self.tasks_of,) if isinstance(self.tasks_of, str) else tuple(self.tasks_of)
        super().check_options()
        for name in self.tasks_of:
            if name not in published.VARIATIONS:
                raise UnknownName(no_such("task of ScienceWorld", name, published.VARIATIONS))
        if self.difficulty:
            raise BadConfig(
                f"difficulty of ScienceWorld is {self.difficulty}; its tasks have none but 0: see simplifications"
            )
        if isinstance(self.moves, bool) or not isinstance(self.moves, int) or self.moves < 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"moves of ScienceWorld is {self.moves!r}; expected an integer from 0")
        known = ("easy", "teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors", "noElectricalAction")
        for name in filter(None, self.simplifications.split(",")):
            if name not in known:
                raise UnknownName(no_such("simplification of ScienceWorld", name, known))

    # Tasks

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tasks to take variations from."""
        return tuple(self.tasks_of) or tuple(published.VARIATIONS)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return a variation; consecutive numbers go through all tasks before the next variation of each task."""
        split, names = self._split_for(number, split), self.names
        name = names[number % len(names)]
        choices = published.variations(name, split)
        return _task(name, choices[number // len(names) % len(choices)])

    def find(self, task_id: str) -> Task:
        name, _, number = task_id.rpartition("/")
        if name not in published.VARIATIONS:
            raise UnknownName(
                no_such("task of ScienceWorld", name or task_id, published.VARIATIONS, "An id is NAME/VARIATION.")
            )
        if not number.isdecimal() or int(number) >= published.VARIATIONS[name]:
            raise UnknownName(f"no variation {number!r} of {name}: it has 0 to {published.VARIATIONS[name] - 1}")
        return _task(name, int(number))

    def split_of(self, task: Task) -> str:
        return published.split_of(task.data["name"], task.data["variation"])

    def split_key(self, task: Task) -> object:
        return task.id

    def size(self, split: str | None = None) -> int:
        return sum(len(published.variations(name, split or self.split)) for name in self.names)

    def limit_of(self, task: Task) -> int:
        """Return `horizon` if it was set, else a limit that leaves room for the simulator's own solution.

        If moves are limited, the turn limit is ten times the move limit, since looking takes a turn but no move.
        """
        if "horizon" in self.__dict__:
            return self.horizon
        return LOOKS * self.moves or published.TURNS.get(task.data["name"], self.horizon)

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return a sentence on the limits; empty if only ScienceWorld's limit of 100 moves ends episodes.

        `simplifications` are not checked.
        """
        options = {**cls.presets.get(str(options.get("preset")), {}), **options}
        moves, horizon = options.get("moves", cls.moves), options.get("horizon")
        if moves == 0:
            return "counts turns and not the package's moves, which preset='published' counts"
        if moves != published.LIMIT:
            return f"ends after more than {moves} moves and not after the package's {published.LIMIT} (preset='published')"
        if isinstance(horizon, int) and horizon < LOOKS * published.LIMIT:
            return (
                f"ends after {horizon} turns too, and looking around takes none of the package's moves (leave horizon out)"
            )
        return ""

    # The episode

    def begin(self, task: Task) -> str:
        self.log: list[str] = []
        self.score = 0
        self._plan: tuple[list[str], tuple[str, ...]] = ([], ())
        self._advisor = Advisor(task.data["name"])
        with simulator.lent(self) as machine:
            machine.set_up(self._key(), [])
            description = str(machine.ask(STEP, "freeActionTaskDesc")).strip()
            look = str(machine.ask(STEP, "freeActionLook")).strip()
        self.last = f"{description}\n\n{look}"
        self.exchanges: list[tuple[str, str]] = [("", self.last)]
        return self.last

    def _key(self) -> Key:
        return self.task.data["name"], self.task.data["variation"], self.simplifications

    def act(self, action: str) -> str | Outcome:
        outcome = self._done(action)
        text = outcome.text if isinstance(outcome, Outcome) else outcome
        self.exchanges = [*self.exchanges, (" ".join(action.split()).lower()[:LONGEST], text)]
        return outcome

    def _done(self, action: str) -> str | Outcome:
        command = " ".join(action.split()).lower()
        if not command or len(command) > LONGEST or not command.isascii() or not command.isprintable():
            return self.invalid(f"{command[:40]!r}{NO_ACTION}")
        if command == "help":
            return HELP
        with simulator.lent(self) as machine:
            self._repeat(machine)
            text = str(machine.ask(STEP, "step", command)).strip()
            self.score = round(100 * float(machine.ask(STEP, "getScore")))
            over = bool(machine.ask(STEP, "getCompleted"))
            over = over or (self.moves > 0 and int(machine.ask(STEP, "getNumMoves")) > self.moves)
            if refused(text, self.last):
                return self.invalid(f"{text} Reply with help for a list of actions.")
            machine.played[1].append(command)
        self.log, self.last = [*self.log, command], text
        if self.score >= 100:
            return self.win(text)
        return self.lose(text) if over or self.score < 0 else text

    def _repeat(self, machine: Simulator) -> None:
        """Replay the episode's actions on a machine.

        Raises:
            Fault: the replay ends with a different text.
        """
        text = machine.set_up(self._key(), self.log)
        if text is not None and text != self.last:
            raise Fault("the simulator took another course when its actions were repeated")

    def state(self) -> tuple[str, ...]:
        """Return the actions so far: the simulator does not expose its full state, and every action takes game time."""
        return tuple(self.log)

    def measures(self) -> dict[str, float]:
        """Return `score`: ScienceWorld's score divided by 100, from 0 to 1; a negative score counts as 0."""
        return {"score": min(max(self.score, 0), 100) / 100}

    def save(self) -> tuple[list[str], int, str, list[tuple[str, str]]]:
        return list(self.log), self.score, self.last, list(self.exchanges)

    def load(self, payload: object) -> None:
        log, score, last, exchanges = cast("tuple[list[str], int, str, list[tuple[str, str]]]", payload)
        self.forget()
        self.log, self.score, self.last, self.exchanges = list(log), score, last, list(exchanges)
        self._plan = ([], ())
        self._advisor = Advisor(self.task.data["name"])

    def close(self) -> None:
        simulator.give_back(self)
        super().close()

    # Policies

    def oracle(self) -> Iterator[str]:
        """Yield the simulator's own solution; after a deviation, yield a way to resume it, or nothing if none is found."""
        base, way = self._plan
        done = len(self.log) - len(base)
        if done < 0 or done >= len(way) or self.log != [*base, *way[:done]]:
            self._plan = (list(self.log), plan(self._key(), self.log))
            way, done = self._plan[1], 0
        yield from way[done:]

    def expert(self) -> Iterator[str]:
        """Yield the expert's actions, based on the observed texts; yield nothing for tasks without a strategy."""
        while (action := self._advisor.after(self.exchanges)) is not None:
            yield action


@functools.lru_cache(maxsize=1)
def _titles() -> dict[str, str]:
    listed: list[dict[str, Any]] = importlib.import_module("scienceworld.constants").TASKS
    return {task["task_name"]: f"{task['topic']}: {task['task']}" for task in listed}


def _task(name: str, variation: int) -> Task:
    data = {"name": name, "variation": variation}
    return Task(_titles()[name], data, f"{name}/{variation}", published.split_of(name, variation))
