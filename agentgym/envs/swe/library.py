"""Tasks of a file, by id and by split; used by all repository environments."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Protocol, TypeVar

from agentgym.core.seeding import derive
from agentgym.errors import BadConfig, BadData, UnknownName, no_such


class Item(Protocol):
    """A repair task."""

    @property
    def id(self) -> str: ...
    @property
    def split(self) -> str: ...
    @property
    def difficulty(self) -> int: ...


I = TypeVar("I", bound=Item)  # noqa: E741


@dataclass(frozen=True)
class Library(Generic[I]):
    """Tasks of a file."""

    path: str
    items: tuple[I, ...]
    by_id: Mapping[str, I] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {item.id: item for item in self.items})
        if not self.items:
            raise BadData(f"{self.path}: no task in it")
        if len(self.by_id) < len(self.items):
            ids = [item.id for item in self.items]
            raise BadData(f"{self.path}: task {next(id for id in ids if ids.count(id) > 1)!r} is in it twice")

    @cached_property
    def splits(self) -> dict[str, float]:
        """Split -> share of the tasks; `train`, `valid` and `test` come first."""
        names = [item.split for item in self.items]
        order = {name: place for place, name in enumerate(("train", "valid", "test"))}
        return {
            name: names.count(name) / len(names) for name in sorted(set(names), key=lambda name: (order.get(name, 9), name))
        }

    def of(self, split: str, difficulty: int) -> list[I]:
        """Return a split's tasks up to `difficulty`, in a fixed order that mixes repositories.

        Raises:
            UnknownName: the file has no such split.
            BadConfig: no task is that easy.
        """
        if split not in self.splits:
            raise UnknownName(no_such(f"split of {self.path}", split, self.splits))
        matching = [item for item in self.items if item.split == split and item.difficulty <= difficulty]
        if not matching:
            least = min(item.difficulty for item in self.items if item.split == split)
            raise BadConfig(f"difficulty is {difficulty}; the easiest task of split {split!r} of {self.path} has {least}")
        return sorted(matching, key=lambda item: derive("swe", item.id))

    def find(self, id: str) -> I:
        """Return the task with this id.

        Raises:
            UnknownName: no task has this id.
        """
        if id not in self.by_id:
            raise UnknownName(no_such("task", id, self.by_id))
        return self.by_id[id]


def library(path: str, items: Iterable[I]) -> Library[I]:
    """Return the tasks of a file as a library."""
    return Library(path, tuple(items))
