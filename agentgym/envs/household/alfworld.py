"""Genuine ALFWorld games, read from a `game.tw-pddl` file or from a data folder with the published splits."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, cast

import numpy as np

from agentgym.core.env import Task
from agentgym.core.json_value import JSON
from agentgym.envs.household.catalog import TASK_TYPES
from agentgym.envs.household.env import HouseEnv
from agentgym.envs.household.game import Game, build_game
from agentgym.envs.household.goals import read_goal
from agentgym.envs.household.grammar import read_grammar
from agentgym.envs.household.index import FILE, read_index
from agentgym.envs.household.problem import read_problem
from agentgym.envs.household.text import Dialect
from agentgym.envs.household.wordings import wording_of
from agentgym.errors import BadConfig, BadData, UnknownName, no_such

_GAMES = "games fetched by `alfworld-download`, or written by agentgym.envs.household.export"


def read_game(path: str | Path) -> Game:
    """Read one game file; BadData gives the file, the line and what was expected."""
    return parse_game(Path(path).read_bytes(), str(path))


def parse_game(content: bytes, where: str) -> Game:
    """Build a game from a game file's content.

    Raises:
        BadData: the content is not a game in JSON; the message begins with `where`.
    """
    dialect, sentence, text = _parts(content, where)
    problem = read_problem(text, where)
    return build_game(problem, read_goal(problem.goal, where), sentence, dialect, where)


def _parts(content: bytes, where: str) -> tuple[Dialect, str, str]:
    """Return the dialect, the goal's sentence and the PDDL problem in a game file's content.

    Raises:
        BadData: the content is not a game in JSON; the message begins with `where`.
    """
    try:
        raw: JSON = json.loads(content)
    except json.JSONDecodeError as error:
        expected = "expected one JSON object; is the file cut off?"
        raise BadData(f"{where}, line {error.lineno} column {error.colno}: {error.msg}; {expected}") from None
    except UnicodeDecodeError as error:
        raise BadData(f"{where}, byte {error.start}: not UTF-8 text; expected one JSON object") from None
    if not isinstance(raw, dict):
        raise BadData(f"{where}: a JSON {type(raw).__name__}; expected one object with pddl_domain, grammar, pddl_problem")
    texts = {name: text for name, text in raw.items() if isinstance(text, str)}
    for name in ("pddl_domain", "grammar", "pddl_problem"):
        if name not in texts:
            raise BadData(f"{where}: no text under {name!r}; expected pddl_domain, grammar and pddl_problem")
    return *read_grammar(texts["pddl_domain"], texts["grammar"], where), texts["pddl_problem"]


class ALFWorld(HouseEnv):
    """Play genuine ALFWorld games (arXiv:2010.03768) with rules in plain Python; `data` is a game file or data folder.

    A data folder contains the splits that are used, out of `train`, `valid_seen`, `valid_unseen` and, in some releases,
    `valid_train`; folders and files may be links. A single file is in split `train`.
    """

    splits: Mapping[str, float] = MappingProxyType(
        dict.fromkeys(("train", "valid_seen", "valid_unseen", "valid_train"), 0.0)
    )
    task_settings: ClassVar[tuple[str, ...]] = ("types",)
    caller_settings: ClassVar[tuple[str, ...]] = ("data",)
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    data: str | Path = ""
    """Path of a game file or data folder; `~` and `$NAME` are expanded.

    By default, the first existing path of `$AGENTGYM_DATA/alfworld`, `$ALFWORLD_DATA` and `~/.cache/alfworld`, the
    folder that `alfworld-download` fills.
    """
    types: tuple[str, ...] = TASK_TYPES
    """Task types to use, by name or by published number (1 to 6); default: all six."""

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return how the turn limit differs from ALFWorld's 50 commands, valid or not; "" if it does not differ."""
        horizon = options.get("horizon")
        return "" if horizon in (None, 50) else f"ends after {horizon} turns and not after ALFWorld's 50 steps (horizon=50)"

    def setup(self) -> None:
        """Find the data and list the games of the split."""
        super().setup()
        self.types = tuple(_type_name(kind) for kind in self.types)
        self._lists: dict[str, list[Task]] = {}
        self.root = self._find_data()
        there = [split for split in self.splits if (self.root / split).is_dir()]
        if "split" in vars(self) or not there or self.split in there:
            self._tasks_of(self.split)
        if not (self.root / "valid_train").is_dir():
            self.splits = {split: share for split, share in self.splits.items() if split != "valid_train"}

    def _find_data(self) -> Path:
        """Return the game file, or the folder that contains the splits.

        Raises:
            BadConfig: no data was found.
        """
        if self.data:
            places = [Path(os.path.expandvars(self.data)).expanduser()]
        else:
            home, genuine = os.environ.get("AGENTGYM_DATA"), os.environ.get("ALFWORLD_DATA")
            places = [Path(home) / "alfworld"] if home else []
            places += [Path(os.path.expandvars(genuine)).expanduser()] if genuine else []
            places.append(Path("~/.cache/alfworld").expanduser())
        there = (place for place in places if place.is_file() or (place.is_dir() and any(place.iterdir())))
        path = next(there, None)  # importing the genuine package creates an empty folder in the cache
        if path is None:
            looked = ", ".join(map(str, places))
            raise BadConfig(
                f"data of ALFWorld: {looked} does not exist; expected a {FILE} file or a data folder, with {_GAMES}. "
                "Name it with data=PATH, or in AGENTGYM_DATA (the folder above `alfworld`) or ALFWORLD_DATA"
            )
        inside = path / "json_2.1.1"
        return inside if inside.is_dir() else path

    def _tasks_of(self, split: str) -> list[Task]:
        if split not in self.splits:
            raise UnknownName(no_such("split of ALFWorld", split, self.splits))
        if split not in self._lists:
            self._lists[split] = self._list_tasks(split)
        return self._lists[split]

    def _list_tasks(self, split: str) -> list[Task]:
        """Return a split's tasks of the selected types in path order, without the games that ALFWorld excludes.

        Raises:
            BadData: the split's folder is missing or has no games of these types.
        """
        if self.root.is_file():
            return [self._lone_task()] if split == "train" else []
        folder = self.root / split
        if not folder.is_dir():
            children = sorted(child.name for child in self.root.iterdir() if child.is_dir())[:8]
            raise BadData(f"{self.root}: no folder {split!r}; expected train, valid_seen, valid_unseen, found {children}")
        tasks: list[Task] = []
        for entry in read_index(folder):
            if entry.solvable and entry.type in self.types:
                id = f"{split}/{entry.place}"
                tasks.append(Task(entry.instruction, {"type": entry.type, "file": f"{id}/{FILE}"}, id, split))
        if not tasks:
            raise BadData(
                f"{folder}: no game of the types {list(self.types)}; expected folders with {FILE} and traj_data.json"
            )
        return sorted(tasks, key=lambda task: task.id)

    def _lone_task(self) -> Task:
        """Return the task of a single game file."""
        game = read_game(self.root)
        instruction = game.intro.rpartition("Your task is to: ")[2].removesuffix(".")
        return Task(instruction, {"type": game.goal.type, "file": ""}, self.root.absolute().parent.name or "game", "train")

    def make_game(self, task: Task) -> Game:
        return read_game(self._path_of(task))

    def wordings_of(self, tasks: Sequence[Task]) -> tuple[str, ...]:
        found: set[str] = set()
        for path in map(self._path_of, tasks):
            with suppress(BadData, OSError):  # playing the game raises it
                found.add(wording_of(_parts(path.read_bytes(), str(path))[0]))
        return tuple(sorted(found))

    def _path_of(self, task: Task) -> Path:
        file = task.data["file"]
        return self.root / file if file else self.root

    def split_key(self, task: Task) -> object:
        return task.id

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return a split's game by number in path order, wrapping around at the end.

        Raises:
            BadConfig: the split has no games.
        """
        tasks = self._tasks_of(split or self.split)
        if not tasks:
            raise BadConfig(f"split {split or self.split!r} of {self.root} has no game")
        return tasks[number % len(tasks)]

    def split_of(self, task: Task) -> str:
        """Return the published split."""
        return task.split

    def content_key(self, task: Task) -> object:
        """Return a hash of the game file, to detect a game that is in two splits under different ids."""
        return hashlib.blake2b(self._path_of(task).read_bytes(), digest_size=16).hexdigest()

    def size(self, split: str | None = None) -> int:
        """Return the number of games in a split, by default the environment's own."""
        return len(self._tasks_of(split or self.split))

    def draw(self, rng: np.random.Generator) -> Task:
        """Return a random game of the split."""
        return self.numbered(int(rng.integers(len(self._tasks_of(self.split)))))

    def tasks(self, n: int, split: str | None = None) -> list[Task]:
        """Return the first `n` games of a split, by default the environment's own.

        Raises:
            BadConfig: the split has fewer games.
        """
        tasks = self._tasks_of(split or self.split)
        if n > len(tasks):
            raise BadConfig(f"split {split or self.split!r} of {self.root} has {len(tasks)} games; {n} were asked for")
        return tasks[:n]

    def up_to(self, n: int, split: str | None = None) -> list[Task]:
        """Return the first `n` games of a split (default: the environment's own), or all if it has fewer."""
        return self._tasks_of(split or self.split)[:n]

    def find(self, task_id: str) -> Task:
        """Return the game with this id, which is the game's folder relative to the data folder.

        Raises:
            UnknownName: no game has this id.
        """
        split = task_id.partition("/")[0]
        for task in self._tasks_of(split if split in self.splits else self.split):
            if task.id == task_id:
                return task
        raise UnknownName(
            no_such(
                "game of ALFWorld", task_id, [task.id for task in self._tasks_of(self.split)], "Ids are folders below data."
            )
        )


def _type_name(kind: object) -> str:
    if isinstance(kind, int) and 1 <= kind <= len(TASK_TYPES):
        return TASK_TYPES[kind - 1]
    if kind not in TASK_TYPES:
        raise UnknownName(no_such("task type", str(kind), TASK_TYPES))
    return cast("str", kind)
