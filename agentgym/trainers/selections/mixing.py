"""Selections that add other episodes to failed groups: the run's own earlier successes, or the expert's."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from agentgym.core.seeding import derive
from agentgym.episodes.episode import Episode, Group, view
from agentgym.rollout.play import Job
from agentgym.trainers.needs.interface import score
from agentgym.trainers.rewards.interface import pay
from agentgym.trainers.seam import Processes, Within
from agentgym.trainers.selections.interface import drop, select, uniform


@select("replay", requires=("repeats",))
def replay(
    groups: Sequence[Group],
    *,
    number: Annotated[int, Within(1, 1000)] = 1,
    capacity: Annotated[int, Within(1, 1_000_000)] = 1000,
    state: dict[str, dict[str, list[str]]],
    run: Processes,
) -> list[Group]:
    """Select groups whose returns differ; if all attempts failed with equal returns, add earlier successes at the task.

    A group gets at most `number` of them. The newest successes at each task are stored, at most `number` per task and
    `capacity` in total (as JSON text, also in the checkpoint). They keep the log-probabilities of the policy that
    sampled them, so the importance ratio is off-policy and its clip limits their effect. RLEP (arXiv 2507.07451)
    replays successes of an earlier run in a second run that starts from scratch; here they come from the same run.
    """
    stored: dict[str, list[str]] = state.setdefault("episodes", {})
    mixed: list[Group] = []
    for group in groups:
        texts = stored.get(_key(group), [])[:number] if uniform(group) and not _solved(group) else []
        mixed.append(joined(group, [Episode.from_json(text) for text in texts]))
    fresh = [(_key(group), [e.to_json() for e in group if e.success][:number]) for group in groups if _solved(group)]
    for key, texts in run.gather(fresh):  # from all processes: another one may get the task next time
        stored.pop(key, None)
        stored[key] = texts  # the newest at the end
    while sum(map(len, stored.values())) > capacity:
        del stored[next(iter(stored))]
    return drop(mixed)


@select("demonstrations", requires=("expert",))
async def demonstrations(
    groups: Sequence[Group], *, number: Annotated[int, Within(1, 1000)] = 1, step: int, run: Any
) -> list[Group]:
    """Select groups whose returns differ; groups without success get at most `number` successes of the expert.

    The expert plays the task `number` times without noise, in the agent's tokens, and is rewarded like the policy. Its
    tokens get the log-probabilities of the policy before the update, so the ratio starts at 1: plain imitation weighted
    by the advantage and bounded by the clip. LUFFY (arXiv 2504.14945) uses a shaped weight instead.
    """
    poor = [place for place, group in enumerate(groups) if not _solved(group)]
    jobs = [_job(groups[place], n, run) for place in poor for n in range(number)]
    played = await run.demonstrations.play(jobs)
    await pay(played, run.rewards, step=step, run=run)
    successes = [episode if episode.success else None for episode in played]
    stand_in([episode for episode in successes if episode], run)
    mixed = list(groups)
    for place, own in zip(poor, zip(*[iter(successes)] * number, strict=True), strict=True):
        mixed[place] = joined(groups[place], [view(episode, groups[place].role) for episode in own if episode])
    return drop(mixed)


def stand_in(episodes: Sequence[Episode], run: Any) -> None:
    """Set the log-probabilities of episodes that no policy sampled to the current policy's, so that the ratio starts at 1.

    Every process has to call it, even with an empty list.
    """
    score(episodes, ("logprobs",), run.learner.score)
    for call in (call for episode in episodes for turn in episode.turns for call in turn.calls):
        if "logprobs" in call.extra:
            call.logprobs = call.extra.pop("logprobs").tolist()


def joined(group: Group, episodes: Sequence[Episode]) -> Group:
    """Return the group with `episodes` added as further attempts at its task.

    The group ids, attempt numbers and forks of `episodes` are overwritten.
    """
    for place, episode in enumerate(episodes):
        episode.group_id, episode.attempt, episode.forks = group[0].group_id, _attempt(group) + place, []
    return Group(group.task_id, group.role, [*group, *episodes]) if episodes else group


def _job(group: Group, n: int, run: Any) -> Job:
    first = group[0]
    env = first.labels.get("env") or next(iter(run.rollouts.envs))
    seed = derive("shown", run.config.seed, first.group_id)
    return Job(run.task(first), _attempt(group) + n, seed, first.group_id, env, first.horizon or None)


def _attempt(group: Group) -> int:
    """Return the next free attempt number of a group."""
    return max(episode.attempt for episode in group) + 1


def _solved(group: Group) -> bool:
    return any(episode.success for episode in group)


def _key(group: Group) -> str:
    return json.dumps([group[0].labels.get("env", ""), group.role, group.task_id])
