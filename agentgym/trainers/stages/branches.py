"""The need `branches`: what is earned on average by playing on from the turns of an episode."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from agentgym.agents.spec import AGENTS
from agentgym.core.env import TextEnv
from agentgym.core.seeding import derive
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job
from agentgym.trainers.stages.needs import needs
from agentgym.trainers.stages.seams import Within, unfolded

if TYPE_CHECKING:
    from agentgym.trainers.config import TrainConfig
    from agentgym.trainers.rollouts import Rollouts

Asked = tuple[Task, Episode, list[int]]
At = Literal["all", "alone", "uncertain"]


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    plain: Any = env.unwrapped
    reason = ""
    if config.agent not in AGENTS:
        reason = f"agent {config.agent!r} plays in an environment of its own, from its beginning"
    elif len(plain.roles) > 1:
        reason = f"{name} has the roles {', '.join(plain.roles)}, and an episode is played on for one role only"
    elif plain.declared.nondeterministic:
        reason = f"{name} cannot be repeated ({plain.declared.nondeterministic})"
    elif config.reward:
        reason = f"reward {', '.join(config.reward)} pays whole episodes, and branches are parts of episodes"
    given = unfolded(config.needs_options, ("branches",))
    own = {key.removeprefix("branches."): value for key, value in given.items()}
    if "share" in own and own.get("at") != "uncertain":
        raise BadConfig("share of needs 'branches' does nothing without at='uncertain': leave one out, or set the other")
    if reason:
        raise BadConfig(f"needs 'branches': {reason}. Choose a credit and a loss that do not need them")


@needs("branches", check=_check)
async def branches(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    k: Annotated[int, Within(1, 10_000)] = 4,
    every: Annotated[int, Within(1, 1_000_000)] = 1,
    at: At = "all",
    share: Annotated[float, Within(0, 1)] = 0.1,
    gamma: Annotated[float, Within(0, 1)] = 1.0,
) -> dict[str, float]:
    """The mean reward from a turn on, the turn itself played anew, over `k` continuations (VinePPO, arXiv 2410.01679).

    A number in every `every`-th turn, from the first, of those that `at` takes: `all`; `alone`, where the state key was met
    once in the group, so that no other turn says what the state is worth; `uncertain`, the `share` of the step's turns
    whose sampled tokens were the least likely on average. nan in the others, and where a turn cannot be reached again or
    all continuations were faults. Rewards count gamma^j, j turns later. The environment and the conversation are brought
    to the turn by going through the episode once more; continuations are drawn as the run's episodes are, at the run's own
    temperature. Returns `branch_episodes`, `branch_tokens` (sampled), `branch_faults` and `branch_turns_lost`.
    """
    took = {"branch_episodes": 0.0, "branch_tokens": 0.0, "branch_faults": 0.0, "branch_turns_lost": 0.0}
    branched = {id(turn) for turn in _chosen(groups, at, share)}
    by_env: dict[str, list[Episode]] = {}
    for episode in (episode for group in groups for episode in group):
        by_env.setdefault(run.env_name(episode), []).append(episode)
        for turn in episode.turns:
            turn.extra["branches"] = math.nan
    rollouts: Rollouts = run.rollouts
    agents = rollouts.agents(run.config.temperature)
    for name, episodes in by_env.items():
        asked: list[Asked] = [
            (run.task(e), e, [n for n in range(0, len(e.turns), every) if id(e.turns[n]) in branched]) for e in episodes
        ]
        starts = await rollouts.pool.starts(agents[name], name, asked)
        jobs: list[Job] = []
        turns: list[Turn] = []
        for (task, episode, wanted), points in zip(asked, starts, strict=True):
            took["branch_turns_lost"] += len(wanted) - len(points)
            for number, start in points.items():
                seed = derive("branches", run.config.seed, step, episode.group_id, episode.attempt, number)
                group = f"{episode.group_id}/{episode.attempt}/{number}"
                jobs += [Job(task, n, seed, group, name, start=start) for n in range(k)]
                turns.append(episode.turns[number])
        played = await rollouts.pool.collect(agents, jobs)
        for place, turn in enumerate(turns):
            paid = [_worth(e, gamma) for e in played[place * k : (place + 1) * k] if not e.fault]
            turn.extra["branches"] = sum(paid) / len(paid) if paid else math.nan
        took["branch_episodes"] += len(played)
        took["branch_faults"] += sum(episode.fault for episode in played)
        took["branch_tokens"] += sum(turn.sampled for episode in played for turn in episode.turns)
    return took


def _chosen(groups: Sequence[Group], at: At, share: float) -> list[Turn]:
    """Return the turns of the groups whose value is asked for."""
    by_group = [[turn for episode in group for turn in episode.turns] for group in groups]
    if at == "alone":
        visits = [Counter(turn.state_key for turn in turns) for turns in by_group]
        pairs = zip(by_group, visits, strict=True)
        return [turn for turns, met in pairs for turn in turns if turn.state_key is None or met[turn.state_key] == 1]
    turns = [turn for turns in by_group for turn in turns]
    if at == "uncertain":
        surprise = [-sum(turn.logprobs) / max(len(turn.logprobs), 1) for turn in turns]
        order = sorted(range(len(turns)), key=lambda place: -surprise[place])
        return [turns[place] for place in order[: math.ceil(share * len(turns))]]
    return turns


def _worth(episode: Episode, gamma: float) -> float:
    if gamma == 1.0:
        return episode.reward
    return sum(turn.reward * gamma**number for number, turn in enumerate(episode.turns))
