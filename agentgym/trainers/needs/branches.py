"""The need `branches`: the mean reward of continuations from the turns of an episode."""

import math
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

from agentgym.core.env import TextEnv
from agentgym.core.seeding import derive
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job
from agentgym.trainers.branching.interface import unbranchable
from agentgym.trainers.data.trees import copy_extra, holders
from agentgym.trainers.needs.interface import needs
from agentgym.trainers.samplers.interface import SAMPLERS
from agentgym.trainers.seam import Within, given_to

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.run.rollouts import Rollouts

BranchQuery = tuple[Task, Episode, list[int]]
At = Literal["all", "alone", "uncertain"]
Number = Annotated[int, Within(1, 10_000)]
"""Number of continuations per turn."""
Every = Annotated[int, Within(1, 1_000_000)]
"""Stride: every n-th turn of an episode is continued."""
Discount = Annotated[float, Within(0, 1)]


def uncontinuable(config: "TrainConfig", env: TextEnv, name: str) -> str:
    """Return the reason why a need cannot continue an environment's episodes from their turns; empty if it can."""
    reason = unbranchable(config, env, name)
    if not reason and config.reward:
        reason = f"reward {', '.join(config.reward)} pays whole episodes, and continuations are parts of episodes"
    if not reason and "proposals" in SAMPLERS.looked_up(config.sampler).attributes["requires"]:
        reason = (
            f"sampler {config.sampler!r} pays proposals by how they are solved, and nobody solves those of continuations"
        )
    return reason


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    reason, own = uncontinuable(config, env, name), given_to(config.needs_options, "branches")
    if "share" in own and own.get("at") != "uncertain":
        raise BadConfig("share of needs 'branches' has no effect without at='uncertain': leave one out, or set the other")
    if reason:
        raise BadConfig(f"needs 'branches': {reason}. Choose a credit and a loss that do not need them")


@needs("branches", check=_check)
async def branches(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    k: Number = 4,
    every: Every = 1,
    at: At = "all",
    share: Annotated[float, Within(0, 1)] = 0.1,
    gamma: Discount = 1.0,
) -> dict[str, float]:
    """Measure the mean reward over `k` continuations from each turn, which is sampled again (VinePPO, arXiv 2410.01679).

    Sets a number in every `every`-th turn of an episode, starting with the first, if `at` selects it. `all` selects all
    turns. `alone` selects turns whose state key is None or occurs once in the group, so that no other turn estimates
    the state's value. `uncertain` selects the `share` of this process's turns with the least likely sampled tokens
    on average. Other turns get nan, as do turns that a replay does not reach and turns whose continuations were all
    faults. A reward j turns later is discounted by gamma^j.

    The episode is replayed to bring the environment and the conversation to the turn. Continuations are sampled like
    the run's episodes, at the run's temperature. Returns the numbers `branch_episodes`, `branch_tokens` (sampled),
    `branch_faults` and `branch_turns_lost` (not reached by a replay), by name.
    """
    turn_ids = {id(turn) for turn in _chosen(groups, at, share)}
    played = Continuations(run, step, k, every, gamma, "branches", run.config.temperature)
    paid = await played.of(groups, turn_ids)
    for episode in (episode for group in groups for episode in group):
        for turn in episode.turns:
            worth = paid.get(id(turn))
            turn.extra["branches"] = sum(worth) / len(worth) if worth else math.nan
    copy_extra(groups, ("branches",))
    return {f"branch_{name}": number for name, number in played.took.items()}


@dataclass(slots=True)
class Continuations:
    """Plays continuations from turns of episodes and counts their cost; continuations are not trained on."""

    run: Any
    step: int
    k: int
    every: int
    gamma: float
    salt: str
    """Name that, with the run's seed, the step and the turn, determines the continuations' random seeds."""
    temperature: float
    took: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("episodes", "tokens", "faults", "turns_lost"), 0.0)
    )

    async def of(self, groups: Sequence[Group], turn_ids: Container[int]) -> dict[int, list[float]]:
        """Return the discounted returns of the faultless continuations, by the id of the turn at which they start.

        A turn is continued if its Python id is in `turn_ids` and its index in the episode is a multiple of `every`. A
        turn that several episodes share is continued once.
        """
        run, paid = self.run, dict[int, list[float]]()
        by_env: dict[str, list[tuple[Episode, list[int]]]] = {}
        for group in groups:
            first = {(places[0], key[1]) for key, places in holders(group.episodes).items()}
            for place, episode in enumerate(group):
                numbers = [n for n in range(0, len(episode.turns), self.every) if (place, n) in first]
                chosen = [n for n in numbers if id(episode.turns[n]) in turn_ids]
                by_env.setdefault(run.env_name(episode), []).append((episode, chosen))
        for name, pairs in by_env.items():
            paid |= await self._in(name, [(run.task(episode), episode, chosen) for episode, chosen in pairs])
        return paid

    async def _in(self, name: str, queries: Sequence[BranchQuery]) -> dict[int, list[float]]:
        rollouts: Rollouts = self.run.rollouts
        agents = rollouts.agents(self.temperature)
        starts = await rollouts.pool.starts(agents[name], name, queries)
        jobs: list[Job] = []
        turns: list[Turn] = []
        for (task, episode, chosen), points in zip(queries, starts, strict=True):
            self.took["turns_lost"] += len(chosen) - len(points)
            for number, start in points.items():
                seed = derive(self.salt, self.run.config.seed, self.step, episode.group_id, episode.attempt, number)
                group = f"{episode.group_id}/{episode.attempt}/{number}"
                jobs += [Job(task, n, seed, group, name, start=start) for n in range(self.k)]
                turns.append(episode.turns[number])
        played = await rollouts.pool.collect(agents, jobs)
        self.took["episodes"] += len(played)
        self.took["faults"] += sum(episode.fault for episode in played)
        self.took["tokens"] += sum(turn.sampled for episode in played for turn in episode.turns)
        parts = [played[place * self.k : (place + 1) * self.k] for place in range(len(turns))]
        return {
            id(turn): [_worth(e, self.gamma) for e in part if not e.fault] for turn, part in zip(turns, parts, strict=True)
        }


def _chosen(groups: Sequence[Group], at: At, share: float) -> list[Turn]:
    """Return the turns that `at` selects from the groups; `uncertain` selects the share `share` of all turns."""
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
