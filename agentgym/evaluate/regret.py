"""Regret: the effect of each turn of an episode on the number of turns that the oracle still needs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from agentgym.core.env import TextEnv
from agentgym.core.play import steps
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode
from agentgym.registry import make

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Regret:
    """Regret of one episode against the oracle."""

    distances: tuple[int | None, ...]
    """Number of turns that the oracle needs from the state before each turn and after the last, ignoring the horizon, or
    that the episode took if these are fewer; 0 once the task is solved, None if the oracle can no longer solve it."""
    lost: int | None
    """Number of turns after which the oracle could no longer win within the remaining turns; None if it always could."""
    wasted: int
    """Number of turns, before the episode was lost, that did not reduce the turns that the oracle needs."""


def cannot(env: TextEnv) -> str:
    """Return the reason why regret cannot be measured in an environment; empty if it can."""
    plain: Any = env.unwrapped
    if plain.oracle.__func__ is TextEnv.oracle:
        return "it has no oracle"
    if plain.declared.nondeterministic:
        return f"it cannot be repeated ({plain.declared.nondeterministic})"
    if len(plain.roles) > 1:
        return f"it is played by {', '.join(plain.roles)}, and the oracle would play for all of them"
    if plain.blocking or plain.snapshot_kind != "exact":
        return "it leans on processes outside of it, and each turn would be played to the end in them"
    return ""


def regret(env: TextEnv, task: Task, episode: Episode, *, known: dict[Key, int | None] | None = None) -> Regret | None:
    """Return the regret of an episode: replay it, and query the oracle before each turn and after the last.

    The result is None if the replay differs. `known` caches distances by task, state key and random state; None: no
    cache. A distance is an upper bound: the shortest path may be one that neither the oracle nor the episode takes.
    """
    observation, info = env.reset(seed=episode.seed, options={"task": task, "horizon": episode.horizon or env.horizon})
    distances: list[int | None] = []
    left, again = env.limit, steps(env, (turn.action for turn in episode.turns))
    for turn in episode.turns:
        if (observation, info["state_key"]) != (turn.observation, turn.state_key):
            return None
        distances.append(_distance(env, info["state_key"], {} if known is None else known))
        step = next(again)
        observation, info = step.observation, step.info
        if step.over:
            break
    if len(distances) != len(episode.turns):
        return None
    distances.append(_after(env, info, {} if known is None else known))
    for place in range(len(distances) - 2, -1, -1):  # the episode's own path may be shorter than the oracle's
        before, after = distances[place], distances[place + 1]
        if after is not None and (before is None or before > after + 1):
            distances[place] = after + 1
    beaten = [turn_count for turn_count, needed in enumerate(distances) if needed is None or needed > left - turn_count]
    lost = beaten[0] if beaten else None
    pairs = list(pairwise(distances))[:lost]
    wasted = sum(after is not None and before is not None and after >= before for before, after in pairs)
    return Regret(tuple(distances), lost, wasted)


def _after(env: TextEnv, info: Mapping[str, Any], known: dict[Key, int | None]) -> int | None:
    """Return the oracle's distance after the last turn; 0 after a success, None after a failure."""
    if env.success:
        return 0
    if info["reason"] == "failure":
        return None
    return _distance(env, info["state_key"], known)


def _distance(env: TextEnv, key: str | None, known: dict[Key, int | None]) -> int | None:
    """Return the number of turns the oracle needs from the current state, ignoring the horizon; None if it fails."""
    name = (env.task.id, key or "", repr(env.np_random.bit_generator.state))
    if key is not None and name in known:
        return known[name]
    here = env.snapshot()
    start = env.turn
    env.restore(replace(here, running=True, success=None, horizon=start + max(200, 10 * here.horizon)))
    for _ in steps(env, env.oracle()):
        pass
    needed = env.turn - start if env.success else None
    env.restore(here)
    if key is not None:
        known[name] = needed
    return needed


def regrets(
    id: str, parts: Iterable[tuple[Mapping[str, object], Sequence[Task]]], episodes: Sequence[Episode]
) -> tuple[dict[str, object], list[dict[str, object]]]:
    """Return the summary of an environment's episodes, and a row for each of them.

    `parts` pairs environment options with the tasks played under them. In the summary, `why` is the reason why regret
    cannot be measured. If it is empty, there are also `episodes` (number), `not_repeated` (number whose replay differs),
    and means: `distance` (before the first turn), `excess` (turns of solved episodes beyond that distance), `wasted`
    (share of the turns up to the loss), `lost` (share of episodes), `lost_after` (turns). Faults are left out.
    """
    rows: list[dict[str, object]] = []
    measured: list[Regret] = []
    missing = 0
    for options, tasks in parts:
        by_id = {task.id: task for task in tasks}
        mine = [e for e in episodes if e.task_id in by_id and not e.fault]
        with closing(make(id, **options)) as env:
            if why := cannot(env):
                return {"why": why}, []
            plain: Any = env.unwrapped
            known: dict[Key, int | None] = {}
            for episode in mine:
                measure = regret(plain, by_id[episode.task_id], episode, known=known)
                missing += measure is None
                if measure is not None:
                    measured.append(measure)
                    rows.append({"env": id, "task_id": episode.task_id, "attempt": episode.attempt, **asdict(measure)})
    return {"why": "", "episodes": len(measured), "not_repeated": missing, **_means(measured)}, rows


def _means(regrets_known: Sequence[Regret]) -> dict[str, float | None]:
    starts = [measure.distances[0] for measure in regrets_known if measure.distances[0] is not None]
    excess = [
        len(measure.distances) - 1 - measure.distances[0]
        for measure in regrets_known
        if measure.distances[-1] == 0 and measure.distances[0] is not None
    ]
    turns = sum(len(measure.distances) - 1 if measure.lost is None else measure.lost for measure in regrets_known)
    lost = [measure.lost for measure in regrets_known if measure.lost is not None]
    return {
        "distance": _mean(starts),
        "excess": _mean(excess),
        "wasted": sum(measure.wasted for measure in regrets_known) / turns if turns else None,
        "lost": len(lost) / len(regrets_known) if regrets_known else None,
        "lost_after": _mean(lost),
    }


def _mean(values: Sequence[int]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def sentence(env: str, summary: Mapping[str, Any], plain: Callable[[str], str] = str) -> str:
    """Return an environment's regret as one line of text; `plain` escapes the name."""
    if summary["why"]:
        return f"{plain(env)}: no regret: {plain(summary['why'])}"
    turns = {name: "-" if summary[name] is None else f"{summary[name]:.1f}" for name in ("distance", "excess", "lost_after")}
    shares = {name: "-" if summary[name] is None else f"{100 * summary[name]:.1f} %" for name in ("wasted", "lost")}
    again = f"; {summary['not_repeated']} episodes could not be repeated" if summary["not_repeated"] else ""
    return (
        f"{plain(env)}: the oracle needs {turns['distance']} turns; winners took {turns['excess']} more; {shares['wasted']} "
        f"of turns made no progress; {shares['lost']} of {summary['episodes']} episodes were lost, after "
        f"{turns['lost_after']} turns{again}"
    )
