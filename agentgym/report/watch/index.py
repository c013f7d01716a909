"""Where each episode of a growing file stands: groups, outcomes and rewards, and none of the turns."""

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from agentgym.episodes.checks import repeated
from agentgym.episodes.episode import Episode
from agentgym.errors import BadData
from agentgym.report.html import cut
from agentgym.report.run_folder import DAMAGED, TRAINED, Row, row_of
from agentgym.report.watch.tail import BUDGET, Tail

OUTCOMES = ("", "succeeded", "failed", "fault")
"""What a line is, by the number that is kept of it; the first is a line that holds no episode."""
SHORT = 300  # characters of a text in a list


class Place(NamedTuple):
    """What the episodes of a group share."""

    env: str
    group: str
    part: str
    step: str
    task: str


class EpisodeIndex:
    """The episodes of a file that grows: a few bytes are kept of each, so that 100,000 of them are no burden."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.version = 0
        """Grows whenever something was read or cut off."""
        self.damaged: dict[int, str] = {}
        """What is wrong with lines that hold no episode, by number of the line."""
        self.places: list[Place] = []
        self.counts: Counter[tuple[str, str, str, str]] = Counter()
        """Episodes by part, step, environment and outcome."""
        self._number: dict[tuple[str, str, str], int] = {}
        self._members: list[array[int]] = []
        self._seen = set[bytes]()
        self._group, self._outcome, self._reward = array("I"), bytearray(), array("d")

    def look(self, *, training: bool, budget: int = BUDGET) -> None:
        """Read on in the file."""
        kept, lines = self.tail.look(budget)
        if kept == len(self._outcome) and not lines:
            return
        self.version += 1
        if kept < len(self._outcome):  # lines were taken back, and may come again
            self._seen.clear()
        for number in reversed(range(kept, len(self._outcome))):
            self._forget(number)
        for number, line in enumerate(lines, kept):
            self._add(number, line, training)

    def __len__(self) -> int:
        return sum(self.counts.values())

    def total(self, outcome: str) -> int:
        """Return how many episodes ended so."""
        return sum(count for key, count in self.counts.items() if key[3] == outcome)

    def newest(self, most: int) -> list[int]:
        """Return the groups that were written to last, the newest first: so many of training, and so many of the rest.

        Else one evaluation of many tasks would leave no group of training in the list.
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
        """Return how each attempt of a group ended, in the order of the file."""
        return [OUTCOMES[self._outcome[line]] for line in self._members[group]]

    def reward(self, group: int) -> float:
        """Return the mean reward of a group's episodes."""
        rewards = [self._reward[line] for line in self._members[group]]
        return sum(rewards) / len(rewards) if rewards else 0.0

    def faults(self, most: int) -> Iterator[dict[str, Any]]:
        """Yield the newest infrastructure errors, the newest first."""
        fault = OUTCOMES.index("fault")
        for number in reversed(range(len(self._outcome))):
            if most and self._outcome[number] == fault:
                most -= 1
                raw = head(self.tail.line(number))
                place = self.places[self._group[number]]
                said = {"reason": str(raw.get("reason", "")), "error": str(raw.get("error") or "")[:SHORT]}
                yield {"part": place.part, "step": place.step, "env": place.env, "task": place.task, **said}

    def read(self, group: int, most: int, *, training: bool) -> Iterator[tuple[Row, Episode]]:
        """Yield the first episodes of a group, by attempt; BadData for one that is damaged or no longer there."""
        pairs: list[tuple[Row, Episode]] = []
        for number in self._members[group][:most]:
            line = self.tail.line(number)
            try:
                pairs.append((row_of(0, head(line), training=training), Episode.from_json(line.decode("utf-8"))))
            except (*DAMAGED, BadData) as error:
                raise BadData(f"{self.tail.path}, line {number + 1}: not an episode ({cut(str(error))[:SHORT]})") from error
        yield from sorted(pairs, key=lambda pair: pair[0].attempt)

    def _add(self, number: int, line: bytes, training: bool) -> None:
        kind, group, reward = 0, 0, 0.0
        if line.strip():
            try:
                raw = head(line)
                row = row_of(0, raw, training=training)
                if repeated(line, self._seen):
                    raise ValueError("a line before it is the same")
                reward = float(raw.get("reward") or 0.0)
                group, kind = self._group_of(row, raw), OUTCOMES.index(row.outcome)
            except DAMAGED as error:
                self.damaged[number] = f"{self.tail.path.name}, line {number + 1}: not an episode ({str(error)[:SHORT]})"
        self._group.append(group)
        self._outcome.append(kind)
        self._reward.append(reward if math.isfinite(reward) else 0.0)
        if kind:
            self._members[group].append(number)
            self.counts[self._counted(group, kind)] += 1

    def _forget(self, number: int) -> None:
        """Take the last line away: the file was cut off before it."""
        self.damaged.pop(number, None)
        group, kind = self._group.pop(), self._outcome.pop()
        self._reward.pop()
        if kind:
            self._members[group].pop()
            key = self._counted(group, kind)
            self.counts[key] -= 1
            if not self.counts[key]:
                del self.counts[key]

    def _group_of(self, row: Row, raw: dict[str, Any]) -> int:
        key = (row.env, row.group, row.part)  # its attempts with a hint are a group of their own
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
    """Return an episode's fields without its turns, which stand last in a line of ours and are nearly all of it."""
    at = line.find(b', "turns": [')  # not inside of a text, where the quotation marks would be escaped
    if at > 0 and line.rstrip().endswith(b"]}"):  # else its end was lost
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
