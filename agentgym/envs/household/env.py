"""Household environment: generated houses with ALFWorld's rules and words."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar, cast

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task, TextEnv
from agentgym.core.seeding import share
from agentgym.envs.household.advise import Memory, advise
from agentgym.envs.household.catalog import TASK_TYPES
from agentgym.envs.household.explain import explain
from agentgym.envs.household.game import Game, build_game
from agentgym.envs.household.houses import HouseSize, draw_task, goal_of, make_problem
from agentgym.envs.household.play import Play, Saved
from agentgym.envs.household.rooms import ROOMS
from agentgym.envs.household.solve import solve
from agentgym.envs.household.text import NEW, NOTHING_HAPPENS, Dialect
from agentgym.envs.household.wordings import WORDINGS, draw_dialect, draw_wording
from agentgym.errors import BadConfig, UnknownName, no_such

_FIVE = TASK_TYPES[:5]
_TWO = ("kitchen", "bedroom")
RECENT = 32
"""Number of generated games cached per process."""
_recent: dict[tuple[str, Dialect], tuple[Task, Game]] = {}


class HouseEnv(TextEnv):
    """Base class for generated and genuine houses; each task is one game, and the rules are the same."""

    horizon = 50
    hardest = 200
    feedback = "genuine"
    declared = Declarations(random_bound=0.1)
    play: Play
    memory: Memory
    search: str = "likely"
    """Search order of the expert: `likely` places first, or as `listed` in the room, which is easier to imitate."""
    base: int
    """64-bit number of the task, part of every state key."""

    def setup(self) -> None:
        """Check `search` and create the cache of recent games, which the attempts of a group share.

        Raises:
            BadConfig: `search` is neither 'likely' nor 'listed'.
        """
        if self.search not in ("likely", "listed"):
            raise BadConfig(f"search is {self.search!r}; expected 'likely' or 'listed'")
        self._games: OrderedDict[str, tuple[Task, Game]] = OrderedDict()

    def make_game(self, task: Task) -> Game:
        """Return the game of a task."""
        raise NotImplementedError

    def _game(self, task: Task) -> Game:
        known = self._games.get(task.id)
        if known is not None and (known[0] is task or known[0] == task):
            return known[1]
        game = self.make_game(task)
        self._games[task.id] = (task, game)
        if len(self._games) > 2:
            self._games.popitem(last=False)
        return game

    def begin(self, task: Task) -> str:
        self.play, self.memory = Play(self._game(task)), Memory()
        self.base = self.play.game.token(f"task {task.id}")
        return self.play.game.dialect.reword(self.play.game.intro)

    def act(self, action: str) -> str | Outcome:
        text = self.play.act(action)
        self.memory.notice(self.play, action, text is not None)
        won = self.play.won()
        if text is None:
            outcome = self.invalid(NOTHING_HAPPENS, explain(self.play, action))
            outcome.success = True if won else None
            return outcome
        text = self.play.game.dialect.reword(text)
        return self.win(text) if won else text

    def malformed(self, error: str) -> Outcome:
        return self.invalid(NOTHING_HAPPENS, error)

    def admissible(self) -> list[str]:
        return self.play.admissible().copy()

    def state(self) -> object:
        play = self.play
        return play.location, play.carried, play.opened, play.done, play.contents, play.at, sorted(play.moved)

    def state_key(self) -> str:
        return f"{self.base ^ self.play.key:016x}"

    def save(self) -> tuple[Game, Saved, tuple[int, int, int, int]]:
        memory = self.memory
        return self.play.game, self.play.save(), (memory.located, memory.probed, memory.viewed, memory.handled)

    def load(self, payload: object) -> None:
        game, state, memory = cast("tuple[Game, Saved, tuple[int, int, int, int]]", payload)
        self.play, self.memory = Play(game), Memory(*memory)
        self.play.load(state)
        self.base = game.token(f"task {self.task.id}")

    def oracle(self) -> Iterator[str]:
        yield from solve(self.play)

    def expert(self) -> Iterator[str]:
        while True:
            yield advise(self.play, self.memory, listed=self.search == "listed")


class Household(HouseEnv):
    """Find, heat, cool, clean and place objects in a generated house, with ALFWorld's rules and words.

    The split `valid_unseen` has separate room layouts; `valid_seen` has the layouts of `train` with different contents.
    """

    splits: Mapping[str, float] = MappingProxyType({"train": 0.8, "valid_seen": 0.1, "valid_unseen": 0.1})
    task_settings: ClassVar[tuple[str, ...]] = (
        *("receptacles", "objects", "types", "together"),
        *("targets", "layouts", "rooms", "search", "wordings"),
    )
    settings: ClassVar[tuple[str, ...]] = task_settings
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "tiny": {"receptacles": (5, 6), "objects": (5, 7), "types": _FIVE, "rooms": _TWO, "together": 0.0, "horizon": 16},
        "easy": {"receptacles": (6, 10), "objects": (6, 12), "together": 0.0, "horizon": 24},
        "full": {"receptacles": (30, 40), "objects": (30, 50), "together": 0.3, "targets": (1, 4), "horizon": 50},
    }
    horizon = 30
    receptacles: tuple[int, int] = (10, 14)
    """Minimum and maximum number of receptacles at difficulty 0; each level adds four."""
    objects: tuple[int, int] = (10, 18)
    """Minimum and maximum number of objects at difficulty 0; each level adds six.

    A house has at most three objects of a class that the task does not name, and so fewer objects if its room lacks
    classes; it has more if `targets` requires more.
    """
    types: tuple[str, ...] = TASK_TYPES
    """Task types to draw, by ALFWorld's names."""
    together: float = 0.15
    """Probability that a receptacle shares its location with the previous one."""
    targets: tuple[int, int] = (1, 2)
    """Minimum and maximum number of objects of the goal's class; `pick_two_obj_and_place` has at least two."""
    rooms: tuple[str, ...] = tuple(ROOMS)
    """Kinds of rooms to draw from, by default all: kitchen, living room, bedroom, bathroom."""
    layouts: int = 2000
    """Number of room layouts per difficulty, over all splits and all four kinds of rooms, rounded up to a multiple of four.

    The contents of each layout are unlimited.
    """
    wordings: tuple[str, ...] = ("new",)
    """Wordings to draw from, one per task.

    `new` (ALFWorld 0.4) and `old` (0.2) are those of genuine files, and `variants` mixes their parts. `paraphrased`,
    `invented` and `held_out` change the words of answers: use the last for tests only. In `invented`, they are random
    words and pseudo-words, so a policy learns to read names and lists in words that it does not know.
    """

    def setup(self) -> None:
        """Validate the options and create the cache of games.

        Raises:
            BadConfig: an option is out of range.
            UnknownName: a task type or a room is unknown.
        """
        super().setup()
        for name, least in (("receptacles", 4), ("objects", 2), ("targets", 1)):
            value = getattr(self, name)
            try:
                low, high = value
                fits = least <= low <= high
            except (TypeError, ValueError):
                fits = False
            if not fits:
                raise BadConfig(f"{name} of Household is {value!r}; expected (FEWEST, MOST) with FEWEST at least {least}")
        if not self.types:
            raise BadConfig("types of Household is empty; expected at least one of ALFWorld's task types")
        for kind in self.types:
            if kind not in TASK_TYPES:
                raise UnknownName(no_such("task type", kind, TASK_TYPES))
        for name in self.rooms:
            if name not in ROOMS:
                raise UnknownName(no_such("room", name, ROOMS))
        for kind in self.types:
            if not any(kind in ROOMS[name].types for name in self.rooms):
                raise BadConfig(f"no room of {tuple(self.rooms)} has tasks of type {kind}; drop the type or add a room")
        if not self.wordings:
            raise BadConfig(f"wordings of Household is empty; expected at least one of {WORDINGS}")
        for name in self.wordings:
            if name not in WORDINGS:
                raise UnknownName(no_such("wording", name, WORDINGS))
        if self.layouts < 4:
            raise BadConfig(f"layouts of Household is {self.layouts!r}; expected at least 4, one for each kind of room")
        if not 0 <= self.together < 1:
            raise BadConfig(f"together of Household is {self.together!r}; expected a chance from 0 to below 1")

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        (few, many), (low, high) = self.receptacles, self.objects
        more, extra = 4 * difficulty, 6 * difficulty
        plan = HouseSize(
            (few + more, many + more),
            (low + extra, high + extra),
            tuple(self.types),
            self.together,
            self.targets,
            self.layouts,
            tuple(self.rooms),
        )
        return draw_task(rng, plan)

    def split_key(self, task: Task) -> object:
        """Return the layout if it is held out; else the whole task, since `train` and `valid_seen` share layouts."""
        layout = tuple(task.data["layout"])
        return layout if self._held_out(layout) else (task.instruction, sorted(task.data.items()))

    def split_of(self, task: Task) -> str:
        """Return the split, a pure function of hashes: first by held-out layouts, then by held-out contents."""
        if self._held_out(tuple(task.data["layout"])):
            return "valid_unseen"
        rest = 1 - self.splits["valid_unseen"]
        return "valid_seen" if share("content", repr(self.split_key(task))) < self.splits["valid_seen"] / rest else "train"

    def _held_out(self, layout: tuple[str, ...]) -> bool:
        return share("layout", repr(layout)) < self.splits["valid_unseen"]

    def wordings_of(self, tasks: Sequence[Task]) -> tuple[str, ...]:
        return tuple(sorted({draw_wording(tuple(self.wordings), task.id) for task in tasks}))

    def make_game(self, task: Task) -> Game:
        return generated_game(task, draw_dialect(tuple(self.wordings), task.id))


def generated_game(task: Task, dialect: Dialect = NEW) -> Game:
    """Return the game of a generated task, cached for recent tasks so that the attempts of a group share it."""
    known = _recent.get((task.id, dialect))
    if known is not None and (known[0] is task or known[0] == task):
        return known[1]
    goal = goal_of(task)
    lower = replace(goal, object=goal.object.lower(), receptacle=goal.receptacle.lower(), lamp=goal.lamp.lower())
    game = build_game(make_problem(task).lower(), lower, f"Your task is to: {task.instruction}.", dialect, task.id)
    for oldest in list(_recent)[: max(len(_recent) - RECENT + 1, 0)]:  # a copy: environments may run in threads
        _recent.pop(oldest, None)
    _recent[task.id, dialect] = task, game
    return game
