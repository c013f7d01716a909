"""The need `log_ratio`: turn advantages as log-ratios of a language model that reads the task's solution (SWEET-RL)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from agentgym.core.env import TextEnv
from agentgym.core.seeding import generator
from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers.needs.interface import needs
from agentgym.trainers.needs.plans import check_oracle, plans
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig
    from agentgym.trainers.needs.turn_critics.log_ratio import LogRatioCritic


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    check_oracle("log_ratio", config, env, name)
    if config.sharded:
        raise BadConfig(
            f"needs 'log_ratio' with sharding {config.sharding!r}: its critic is a copy of the policy in each process. "
            "Train without sharding, or take credit sweet_head"
        )


@needs("log_ratio", check=_check, asks="weights")
async def log_ratio(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    state: dict[str, Any],
    beta: Annotated[float, Within(0, 1000)] = 1.0,
    lr: Annotated[float, Within(0, 1)] = 3e-4,
    updates: Annotated[int, Within(0, 1_000_000)] = 10,
    batch: Annotated[int, Within(1, 1_000_000)] = 8,
    capacity: Annotated[int, Within(1, 1_000_000)] = 32,
    plan_tokens: Annotated[int, Within(0, 1_000_000)] = 256,
) -> dict[str, float]:
    """Compute A(o, a, c), the mean log-ratio of a reply's tokens under a critic that reads the oracle's plan c.

    Source: SWEET-RL, arXiv 2503.15478: A = 1 / L sum log p(a | o, c) / p_ref(a | o, c). p_ref is a copy of the policy
    from the start of reinforcement learning. p starts as p_ref and is trained on -log sigmoid(beta (sum_t A(better) -
    sum_t A(worse))) over pairs of episodes of one task with different rewards. Each step makes `updates` Adam updates
    on `batch` pairs from the newest `capacity` groups, then scores its own turns. Only the critic reads the plan: at
    most `plan_tokens` tokens of the oracle's actions, before each prompt. Turns without tokens get nan. In the paper
    the critic is trained once, on episodes of the initial policy; here it learns alongside the policy.

    All processes have the same critic. Checkpoints contain the critic, its optimizer and p_ref: four times the policy's
    weights in fp32. Logged: `log_ratio_loss`; `log_ratio_right`, the share of the step's pairs in which the better
    episode has the larger sum, before the critic's updates; and `log_ratio_pairs`, the number of pairs, summed over
    processes.
    """
    from agentgym.trainers.needs.turn_critics.log_ratio import ScoredTokens, packed
    from agentgym.trainers.needs.turn_critics.pairs import pairs

    critic = _critic(run, state, lr, beta)
    episodes = [episode for group in groups for episode in group]
    known = [packed(episode, plan) for episode, plan in zip(episodes, await plans(episodes, run, plan_tokens), strict=True)]
    own = critic.referred(known)
    places = iter(range(len(own)))
    by_group = [[own[place] for place in (next(places) for _ in group) if own[place].turns] for group in groups]
    mine = pairs(by_group)
    fresh = pairs(run.gather(by_group))
    right = _right(critic, mine)
    plain = [[tuple(episode) for episode in group] for group in by_group]  # a checkpoint holds plain data only
    state["groups"] = [*state.get("groups", []), *run.gather(plain)][-capacity:]
    candidates = pairs([[ScoredTokens(*episode) for episode in group] for group in state["groups"]])
    rng = generator("log_ratio", run.config.seed, step)
    draws: list[list[int]] = [rng.integers(0, len(candidates), batch).tolist() for _ in range(updates if candidates else 0)]
    losses = [critic.update([candidates[place] for place in drawn]) for drawn in draws]
    state["critic"] = run.gather([critic.saved()])[0]  # another kind of CPU may round differently
    critic.load(state["critic"])
    for episode, advantages in zip(episodes, critic.judged(own) if own else (), strict=True):
        numbers = iter(advantages.tolist())
        for turn in episode.turns:
            turn.extra["log_ratio"] = next(numbers) if turn.output_ids and turn.prompt_ids else math.nan
    processes = len(run.gather([0]))
    return {
        "log_ratio_loss": (float(np.mean(losses)) if losses else 0.0) / processes,
        "log_ratio_right": right / max(len(fresh), 1),
        "log_ratio_pairs": float(len(mine)),
    }


def _critic(run: Any, state: dict[str, Any], lr: float, beta: float) -> "LogRatioCritic":
    """Return the critic; the first call of the process makes it from the policy and loads the weights stored in `state`."""
    from agentgym.trainers.needs.turn_critics.log_ratio import LogRatioCritic

    def made() -> LogRatioCritic:
        critic = LogRatioCritic(run.learner.model, lr=lr, beta=beta, tokens=run.config.batch_tokens)
        if "reference" not in state:
            state["reference"] = run.gather([critic.saved_reference()])[0]
        critic.load_reference(state["reference"])
        if "critic" in state:
            critic.load(state["critic"])
        return critic

    return run.resource("log-ratio critic", made)


def _right(critic: "LogRatioCritic", found: Sequence[tuple[Any, Any]]) -> float:
    """Return the number of pairs in which the better episode has the larger sum of A; a tie counts 1/2."""
    sums = critic.judged([episode for pair in found for episode in pair]) if found else []
    totals = [float(advantages.sum()) for advantages in sums]
    return sum((a > b) + 0.5 * (a == b) for a, b in zip(totals[::2], totals[1::2], strict=True))
