"""Selections that repeat failed tasks with a hint: Guide, GHPO, Agent-RLVR."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from agentgym.core.hints import Hint
from agentgym.core.seeding import derive
from agentgym.episodes.episode import Episode, Group, view
from agentgym.rollout.play import Job
from agentgym.trainers.rewards.interface import pay
from agentgym.trainers.seam import Within
from agentgym.trainers.selections.interface import drop, select

Level = Annotated[float, Within(0.001, 1)]
HintedGroup = tuple[Group, Sequence[Hint]]
"""A group, and the hint of each additional attempt at its task."""


@select("guide", requires=("hint",))
async def guide(
    groups: Sequence[Group],
    *,
    level: Level = 0.5,
    attempts: Annotated[int, Within(0, 100_000)] = 0,
    failed: Literal["replace", "join"] = "replace",
    step: int,
    run: Any,
) -> list[Group]:
    """Select groups whose returns differ; attempt a group's task again with a hint if all attempts failed.

    Source: Guide (arXiv 2506.13923). Training removes the hint: rows contain the prompt without it and the
    log-probabilities that were sampled with it, so the ratio of a token is pi(token | prompt) / pi_old(token | prompt,
    hint). `attempts` is the number of attempts with the hint; 0 means as many as failed. With `failed="replace"`, as in
    the published code, they replace the failed attempts (if at least two have no fault). With `"join"` they are added,
    so that the group has different returns even if every attempt with the hint succeeds. In the paper a larger model
    writes hints that reveal no answer; here they are the environment's hints at `level`. The published code also clips
    these tokens with wider bounds and reshapes their weights, which is not done here.
    """
    poor = [group for group in groups if not _solved(group)]
    hinted = [(group, [Hint(level)] * (attempts or len(group))) for group in poor]
    again = await _played(hinted, run, step)
    by_group = dict(zip(map(id, poor), again, strict=True))
    return drop([_with(group, by_group.get(id(group), []), join=failed == "join") for group in groups])


@select("ghpo", requires=("hint",))
async def ghpo(groups: Sequence[Group], *, level: Level = 0.75, rise: Level = 0.25, step: int, run: Any) -> list[Group]:
    """Select groups whose returns differ; attempt a group's task again with hints of rising levels if all attempts failed.

    Source: GHPO (arXiv 2507.10628) and its published code. The hint level is `rise`, then twice `rise` and so on up to
    `level` (published: 0.25, 0.5, 0.75). A task gets the next level only if all attempts at the previous level failed.
    Training keeps the hint in the prompt. In the paper, the first steps of a run may have a hint for every task; for
    that, use the sampler `questa`.
    """
    current = list(groups)
    for number in range(1, math.ceil(level / rise - 1e-9) + 1):  # all processes take part in each level
        poor = [place for place, group in enumerate(current) if not _solved(group)]
        hint = Hint(min(number * rise, level), in_training=True)
        again = await _played([(current[place], [hint] * len(groups[place])) for place in poor], run, step)
        for place, episodes in zip(poor, again, strict=True):
            current[place] = _with(current[place], episodes, join=False)
    return drop(current)


@select("agent_rlvr", requires=("hint",))
async def agent_rlvr(
    groups: Sequence[Group],
    *,
    level: Level = 0.5,
    feedback: Annotated[int, Within(0, 100_000)] = 1000,
    hint_in_training: bool = False,
    step: int,
    run: Any,
) -> list[Group]:
    """Make another attempt, with guidance, for each failed attempt; then select groups whose returns differ.

    Source: Agent-RLVR (arXiv 2506.11425): an attempt; if its tests fail, guidance (a plan, the environment's output);
    an attempt with the guidance; and an update on its reward. Here the plan is the environment's hint at `level`. It is
    followed by the environment's last output and the last error of an invalid action, in at most `feedback` characters.
    Both attempts are in the group, so a guided success is compared with the failure. In the paper a teacher model
    writes the guidance, and the update is DPO on offline pairs. The paper does not say if training prompts contain the
    guidance; the option `hint_in_training` decides it.
    """
    hinted = [
        (group, [Hint(level, failure_report(e, feedback), hint_in_training) for e in group if not e.success])
        for group in groups
    ]
    again = await _played(hinted, run, step)
    return drop([_with(group, episodes, join=True) for group, episodes in zip(groups, again, strict=True)])


def failure_report(episode: Episode, most: int) -> str:
    """Return a text about a failed attempt, with the last `most` characters of its last observation and last error.

    It is empty if `most` is 0, or if the attempt has neither of them.
    """
    errors = [turn.error for turn in episode.turns if not turn.valid and turn.error]
    last = [episode.final_observation, *(f"An action was not accepted: {error}" for error in errors[-1:])]
    joined = "\n".join(text.strip() for text in last if text.strip())
    return f"An earlier attempt failed ({episode.reason}). It ended with:\n{joined[-most:]}" if most and joined else ""


async def _played(hinted: Sequence[HintedGroup], run: Any, step: int) -> list[list[Episode]]:
    """Play and reward additional attempts at the tasks of groups, and return the faultless ones of each group.

    The run counts them with the step's episodes. Every process has to call it, even with an empty list.
    """
    jobs = [_job(group, n, hint, run) for group, hints in hinted for n, hint in enumerate(hints)]
    agents = run.rollouts.agents(run.config.temperature)
    played: list[Episode] = await run.rollouts.play(agents, jobs, rank=step)
    await pay(played, run.rewards, step=step, run=run)
    run.replayed.extend(played)
    left = iter(played)
    by_group = [[next(left) for _ in hints] for _, hints in hinted]
    return [
        [view(episode, group.role) for episode in episodes if episode.turns and not episode.fault]
        for (group, _), episodes in zip(hinted, by_group, strict=True)
    ]


def _job(group: Group, n: int, hint: Hint, run: Any) -> Job:
    first = group[0]
    before = [*group, *(episode for episode in run.replayed if episode.group_id == first.group_id)]  # faults too
    attempt = max(episode.attempt for episode in before) + 1 + n
    seed = derive("hinted", run.config.seed, first.group_id)
    return Job(run.task(first), attempt, seed, first.group_id, run.env_name(first), first.horizon or None, hint=hint)


def _solved(group: Group) -> bool:
    return any(episode.success for episode in group)


def _with(group: Group, episodes: Sequence[Episode], *, join: bool) -> Group:
    """Return the group with `episodes` added (`join`), or replaced by them if there are at least two."""
    if join:
        return Group(group.task_id, group.role, [*group, *episodes])
    return Group(group.task_id, group.role, list(episodes)) if len(episodes) > 1 else group
