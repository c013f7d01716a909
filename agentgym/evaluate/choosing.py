"""Choosing one of several attempts by what their answers agree on: a majority vote (self-consistency, arXiv 2203.11171)."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol, runtime_checkable

from agentgym.core.actions import Call, parse_call
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, unhinted
from agentgym.registry import make


@runtime_checkable
class Voting(Protocol):
    """An environment whose episodes end with an answer, by the tool `answer`, that attempts can agree on."""

    def ballot(self, answer: str) -> str | None:
        """Return what an answer to the running task means: equal for answers that mean the same; None for none."""
        ...


def majority(ballots: Sequence[str | None]) -> int:
    """Return the place of the attempt that is chosen: the first one with the most frequent ballot.

    Of several that are as frequent, the one that came first. Attempts without a ballot are chosen only if all have none.
    """
    counts = Counter(ballot for ballot in ballots if ballot is not None)
    if not counts:
        return 0
    most = max(counts.values())
    return next(place for place, ballot in enumerate(ballots) if ballot is not None and counts[ballot] == most)


def votes(
    id: str, parts: Iterable[tuple[Mapping[str, object], Sequence[Task]]], episodes: Sequence[Episode]
) -> dict[str, float | int] | None:
    """Return what a majority vote over the attempts at each task reaches; None where an environment has no ballots.

    `parts`: options of the environment, and the tasks that are played with them. Tasks with two attempts or more count.
    `tasks`, `attempts` (the fewest), and rates over tasks: `one` (the mean of the attempts), `majority`, `best` (at least
    one is right), `agreement` (the share of the attempts with the chosen ballot).
    """
    rows: list[tuple[float, float, float, float]] = []
    fewest = 0
    for options, tasks in parts:
        by_id = _attempts(episodes, {task.id for task in tasks})
        if not by_id:
            continue
        with closing(make(id, **options)) as env:
            plain: Any = env.unwrapped
            if not isinstance(plain, Voting):
                return None
            for task in tasks:
                attempts = by_id.get(task.id, [])
                if len(attempts) < 2:
                    continue
                env.reset(seed=attempts[0].seed, options={"task": task})
                ballots = [_ballot(plain, episode) for episode in attempts]
                chosen, right = majority(ballots), [float(episode.success is True) for episode in attempts]
                agreement = ballots.count(ballots[chosen]) / len(ballots) if ballots[chosen] is not None else 0.0
                rows.append((math.fsum(right) / len(right), right[chosen], max(right), agreement))
                fewest = min(fewest or len(attempts), len(attempts))
    if not rows:
        return None
    one, chosen, best, agreement = (math.fsum(column) / len(rows) for column in zip(*rows, strict=True))
    return {
        "tasks": len(rows), "attempts": fewest, "one": one, "majority": chosen, "best": best, "agreement": agreement,
    }  # fmt: skip


def _attempts(episodes: Sequence[Episode], ids: set[str]) -> dict[str, list[Episode]]:
    found: dict[str, list[Episode]] = {}
    for episode in sorted(unhinted(episodes), key=lambda episode: episode.attempt):
        if episode.task_id in ids and episode.success is not None and episode.turns:
            found.setdefault(episode.task_id, []).append(episode)
    return found if any(len(attempts) > 1 for attempts in found.values()) else {}


def _ballot(env: Any, episode: Episode) -> str | None:
    call = parse_call(episode.turns[-1].action, env.tools)
    if not isinstance(call, Call) or call.name != "answer":
        return None
    return env.ballot(str(next(iter(call.arguments.values()), "")))


def sentence(env: str, row: Mapping[str, float], plain: Callable[[str], str] = str) -> str:
    """Return the result of the vote in an environment as one line of text."""
    return (
        f"{plain(env)}: a majority of {row['attempts']} attempts is right in {100 * row['majority']:.1f} %, one attempt in "
        f"{100 * row['one']:.1f} %, at least one in {100 * row['best']:.1f} % of {row['tasks']} tasks"
    )
