"""Pools: fixed lists of tasks that repeat during training, for environments that can generate tasks without limit."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import numpy as np

from agentgym.core.json_value import JSON, table
from agentgym.core.tasks import Task, TaskSpace
from agentgym.errors import BadConfig, BadData, UnknownName

LARGEST = 100_000
"""Upper bound on the number of tasks in a pool; a larger number is a typo."""
_LONGEST = 1_000_000  # characters of a line


class Pool(TaskSpace):
    """The tasks of an environment, limited to a pool if the caller sets one."""

    pool: int | None = None
    """Size of the pool, which consists of the first tasks of the split; None sets no limit."""
    pool_file: str | None = None
    """Path of a file that lists the pool's tasks, written by `agentgym envs ID --write N --out FILE`."""
    _pools: dict[str, list[Task]]

    @property
    def has_pool(self) -> bool:
        """True if tasks come from a pool; no task is generated to find out."""
        return self.pool is not None or self.pool_file is not None

    def pooled(self, split: str | None = None) -> list[Task] | None:
        """Return the tasks in the pool of a split, without duplicates; None without a pool.

        Raises:
            BadConfig: the split has fewer tasks than `pool`.
            BadData: `pool_file` cannot be read or does not fit the environment.
        """
        split = split or self.split
        if not self.has_pool:
            return None
        if split not in self._pools:
            self._pools[split] = read(self.pool_file, self, split) if self.pool_file else self.tasks(self.pool or 0, split)
        return self._pools[split]

    def task_count(self, split: str | None = None) -> int | None:
        """Return the number of tasks that can be drawn from a split or its pool; None if it is unknown."""
        pooled = self.pooled(split) if self.pool_file else None
        return self.pool or (self.size(split) if pooled is None else len(pooled))

    def named_task(self, task: object, rng: np.random.Generator) -> Task:
        """Return the task given as a Task, an id or a number within the split.

        None draws a task at random, from the pool if there is one.
        """
        tasks = self.pooled() if task is None else None
        return super().named_task(task, rng) if tasks is None else tasks[int(rng.integers(len(tasks)))]

    def check_pool(self) -> None:
        """Check the settings `pool` and `pool_file`.

        Raises:
            BadConfig: one of them has a wrong type or is out of range, or both are set.
        """
        size, file, kind = cast("object", self.pool), cast("object", self.pool_file), type(self).__name__
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= LARGEST):
            raise BadConfig(f"pool of {kind} is {size!r:.80}; expected a number of tasks from 1 to {LARGEST:,}")
        if file is not None and (not isinstance(file, str) or not file):
            raise BadConfig(f"pool_file of {kind} is {file!r:.80}; expected the path of a file")
        if size is not None and file is not None:
            raise BadConfig(f"{kind} has pool {size} and pool_file {file!r:.80}: a pool comes from one of them")


def fingerprint(tasks: Iterable[Task]) -> str:
    """Return a hash of the ids, instructions and data of tasks, in their order, as 16 hexadecimal digits."""
    digest = hashlib.blake2b(digest_size=8)
    for task in tasks:
        digest.update(repr((task.id, task.instruction, sorted(task.data.items()))).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def lines(tasks: Iterable[Task]) -> Iterator[str]:
    """Yield the lines of a pool's file: id, hash and instruction of each task, but not its answer."""
    for task in tasks:
        yield json.dumps({"id": task.id, "hash": fingerprint([task]), "instruction": task.instruction}) + "\n"


def read(path: str, space: TaskSpace, split: str) -> list[Task]:
    """Return the tasks of a split that a pool file lists, without duplicates; tasks are generated again from their ids.

    Raises:
        BadData: the file is malformed or lists no task of the split, or a task differs from the one that was written.
    """
    listed: dict[str, Task] = {}
    for number, line in enumerate(_lines(path), 1):
        where = f"{path}, line {number}"
        if number > LARGEST:
            raise BadData(f"{where}: expected at most {LARGEST:,} tasks")
        task = _task(line, where, space)
        if task.split == split:
            listed.setdefault(task.id, task)
    if not listed:
        raise BadData(
            f"{path} lists no task of split {split!r}; write such a pool with "
            f"`agentgym envs ID --write N --out FILE --env.split {split}`"
        )
    return list(listed.values())


def _task(line: str, where: str, space: TaskSpace) -> Task:
    try:
        row = table(cast("JSON", json.loads(line)))
    except (ValueError, RecursionError) as error:
        raise BadData(f"{where}: {error}; expected one JSON object a line") from error
    id, hashed = row.get("id"), row.get("hash")
    if not isinstance(id, str) or not isinstance(hashed, str):
        raise BadData(f"{where}: expected an object with the texts `id` and `hash`")
    try:
        task = space.find(id)
    except (BadConfig, UnknownName) as error:
        raise BadData(f"{where}: {error}") from error
    if fingerprint([task]) != hashed:
        raise BadData(
            f"{where}: task {id[:100]!r} is not the one that was written: other options of the environment, or another "
            "version, make another task of this id. Set the options it was written with, or write the pool again"
        )
    return task


def _lines(path: str) -> Iterator[str]:
    try:
        with Path(path).expanduser().open(encoding="utf-8") as file:
            while line := file.readline(_LONGEST):
                if line.strip():
                    yield line
    except OSError as error:
        raise BadData(f"pool_file {path!r}: {error.strerror}; `agentgym envs ID --write N --out FILE` writes one") from error
    except UnicodeDecodeError as error:
        raise BadData(f"pool_file {path!r}: {error}; expected text in UTF-8") from error
