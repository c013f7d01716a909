"""Index of the episodes in a growing file: groups, outcomes and rewards, without turns."""

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from agentgym.episodes.checks import attempt_of, digest, of_evaluation
from agentgym.episodes.episode import Episode
from agentgym.errors import BadData
from agentgym.report.html import cut
from agentgym.report.run_folder import DAMAGED, TRAINED, Row, row_of
from agentgym.report.watch.tail import BUDGET, Tail

OUTCOMES = ("", "succeeded", "failed", "fault")
"""Names of the outcomes that are stored as numbers; the first stands for a line without an episode."""
SHORT = 300  # maximum characters of a text in a list


class Place(NamedTuple):
    """Fields shared by the episodes of a group."""

    env: str
    group: str
    part: str
    step: str
    task: str


class EpisodeIndex:
    """Index of the episodes in a growing file, with a few bytes of memory per episode."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.version = 0
        """Counter that increases when lines are added or removed."""
        self.damaged: dict[int, str] = {}
        """Error messages by line number (counted from 0), for lines that are not an episode."""
        self.places: list[Place] = []
        self.counts: Counter[tuple[str, str, str, str]] = Counter()
        """Number of episodes by part, step, environment and outcome."""
        self._number: dict[tuple[str, str, str], int] = {}
        self._members: list[array[int]] = []
        self._seen: dict[bytes, None] = {}  # a digest for each attempt that counts, in the order of the file
        self._group, self._outcome, self._reward = array("I"), bytearray(), array("d")

    def look(self, *, training: bool, budget: int = BUDGET) -> None:
        """Index the lines that were added to the file, and drop lines that are gone; read about `budget` bytes at most."""
        unchanged, lines = self.tail.look(budget)
        if unchanged == len(self._outcome) and not lines:
            return
        self.version += 1
        for number in reversed(range(unchanged, len(self._outcome))):
            self._forget(number)
        evaluation = of_evaluation(self.tail.path)
        for number, line in enumerate(lines, unchanged):
            self._add(number, line, training, evaluation)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def total(self, outcome: str) -> int:
        """Return the number of episodes with an outcome."""
        return sum(count for key, count in self.counts.items() if key[3] == outcome)

    def newest(self, most: int) -> list[int]:
        """Return the most recently written groups, newest first: at most `most` of training and at most `most` others.

        The limits are separate because a large evaluation would push all training groups out of a common one.
        """
        newest: dict[int, None] = {}
        left = {True: most, False: most}
        for number in reversed(range(len(self._outcome))):
            group = self._group[number]
            if self._outcome[number] and group not in newest and left[trained := self.places[group].part in TRAINED]:
                newest[group] = None
                left[trained] -= 1
                if not any(left.values()):
                    break
        return list(newest)

    def outcomes(self, group: int) -> list[str]:
        """Return the outcomes of a group's attempts, in the order of the file."""
        return [OUTCOMES[self._outcome[line]] for line in self._members[group]]

    def reward(self, group: int) -> float:
        """Return the mean reward of a group's episodes."""
        rewards = [self._reward[line] for line in self._members[group]]
        return sum(rewards) / len(rewards) if rewards else 0.0

    def faults(self, most: int) -> Iterator[dict[str, Any]]:
        """Yield the newest `most` infrastructure errors, newest first, with part, step, env, task, reason and error."""
        fault = OUTCOMES.index("fault")
        for number in reversed(range(len(self._outcome))):
            if most and self._outcome[number] == fault:
                most -= 1
                raw = head(self.tail.line(number))
                place = self.places[self._group[number]]
                details = {"reason": str(raw.get("reason", "")), "error": str(raw.get("error") or "")[:SHORT]}
                yield {"part": place.part, "step": place.step, "env": place.env, "task": place.task, **details}

    def read(self, group: int, most: int, *, training: bool) -> Iterator[tuple[Row, Episode]]:
        """Yield the first `most` episodes of a group in the file, sorted by attempt.

        Raises:
            BadData: an episode is damaged or no longer in the file.
        """
        pairs: list[tuple[Row, Episode]] = []
        for number in self._members[group][:most]:
            line = self.tail.line(number)
            try:
                pairs.append((row_of(0, head(line), training=training), Episode.from_json(line.decode("utf-8"))))
            except (*DAMAGED, BadData) as error:
                raise BadData(f"{self.tail.path}, line {number + 1}: not an episode ({cut(str(error))[:SHORT]})") from error
        yield from sorted(pairs, key=lambda pair: pair[0].attempt)

    def _add(self, number: int, line: bytes, training: bool, evaluation: bool) -> None:
        kind, group, reward = 0, 0, 0.0
        if line.strip():
            try:
                raw = head(line)
                row = row_of(0, raw, training=training)
                attempt = digest(repr(attempt_of(raw, evaluation=evaluation)).encode("utf-8", "surrogatepass"))
                if attempt in self._seen:
                    raise ValueError(f"attempt {row.attempt} is there before, and counts once")
                reward = float(raw.get("reward") or 0.0)
                group, kind = self._group_of(row, raw), OUTCOMES.index(row.outcome)
                self._seen[attempt] = None
            except DAMAGED as error:
                self.damaged[number] = f"{self.tail.path.name}, line {number + 1}: not an episode ({str(error)[:SHORT]})"
        self._group.append(group)
        self._outcome.append(kind)
        self._reward.append(reward if math.isfinite(reward) else 0.0)
        if kind:
            self._members[group].append(number)
            self.counts[self._counted(group, kind)] += 1

    def _forget(self, number: int) -> None:
        """Remove the last indexed line, because the file changed from this line on."""
        self.damaged.pop(number, None)
        group, kind = self._group.pop(), self._outcome.pop()
        self._reward.pop()
        if kind:
            self._seen.popitem()
            self._members[group].pop()
            key = self._counted(group, kind)
            self.counts[key] -= 1
            if not self.counts[key]:
                del self.counts[key]

    def _group_of(self, row: Row, raw: dict[str, Any]) -> int:
        key = (row.env, row.group, row.part)  # attempts with a hint form a separate group
        if key not in self._number:
            self._number[key] = len(self.places)
            task = str(raw.get("instruction") or row.task_id)[:SHORT]
            self.places.append(Place(row.env[:SHORT], row.group[:SHORT], row.part, row.step[:SHORT], task))
            self._members.append(array("I"))
        return self._number[key]

    def _counted(self, group: int, kind: int) -> tuple[str, str, str, str]:
        place = self.places[group]
        return place.part, place.step, place.env, OUTCOMES[kind]


def head(line: bytes) -> dict[str, Any]:
    """Return an episode's fields without its turns, which come last in a line and are most of the data."""
    at = line.find(b', "turns": [')  # cannot match inside a string, where quotes are escaped
    if at > 0 and line.rstrip().endswith(b"]}"):  # otherwise it is truncated
        try:
            return _object(json.loads(line[:at] + b"}"))
        except ValueError:
            pass
    raw = _object(json.loads(line))
    return {name: value for name, value in raw.items() if name != "turns"}


def _object(raw: object) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise TypeError("expected a JSON object")
    return cast("dict[str, Any]", raw)
