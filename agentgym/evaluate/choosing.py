"""Selection of one of several attempts by majority vote over their answers (self-consistency, arXiv 2203.11171).

Programs that pass the public tests vote by their results on generated inputs (as in CodeT, arXiv 2207.10397, where a model
writes the tests).
"""

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
    """Environment for majority votes: an episode ends with a call of the tool `ballot_tool` (by default `answer`)."""

    def ballot(self, answer: str) -> str | None:
        """Return the normal form of an answer to the running task, equal for equivalent answers; None if it is invalid."""
        ...


def majority(ballots: Sequence[str | None]) -> int:
    """Return the index of the chosen attempt: the first with the most frequent ballot.

    Ties go to the earliest attempt. An attempt without a ballot is chosen only if no attempt has a ballot.
    """
    counts = Counter(ballot for ballot in ballots if ballot is not None)
    if not counts:
        return 0
    most = max(counts.values())
    return next(place for place, ballot in enumerate(ballots) if ballot is not None and counts[ballot] == most)


def votes(
    id: str, parts: Iterable[tuple[Mapping[str, object], Sequence[Task]]], episodes: Sequence[Episode]
) -> dict[str, float | int] | None:
    """Return the results of a majority vote over the attempts at each task.

    `parts` pairs environment options with the tasks played under them. Only tasks with at least two attempts count; the
    result is None if there are none, or if the environment has no ballots. It has `tasks` (number), `attempts` (the
    minimum per task), and rates over tasks: `one` (mean of the attempts), `majority` (the chosen attempt is right), `best`
    (at least one is right) and `agreement` (share of attempts with the chosen ballot). Attempts that ended in an
    infrastructure error or had a hint are left out.
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
    if not isinstance(call, Call) or call.name != getattr(env, "ballot_tool", "answer"):
        return None
    return env.ballot(str(next(iter(call.arguments.values()), "")))


def sentence(env: str, row: Mapping[str, float], plain: Callable[[str], str] = str) -> str:
    """Return the results of an environment's vote as one line of text; `plain` escapes the name."""
    return (
        f"{plain(env)}: a majority of {row['attempts']} attempts is right in {100 * row['majority']:.1f} %, one attempt in "
        f"{100 * row['one']:.1f} %, at least one in {100 * row['best']:.1f} % of {row['tasks']} tasks"
    )
