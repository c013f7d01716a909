"""The need `preference`: turn advantages by a critic that reads the task's solution (SWEET-RL)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from agentgym.core.env import TextEnv
from agentgym.core.seeding import derive, generator
from agentgym.episodes.episode import Group
from agentgym.trainers.needs.interface import needs
from agentgym.trainers.needs.plans import check_oracle, plans
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


def _check(config: "TrainConfig", env: TextEnv, name: str) -> None:
    check_oracle("preference", config, env, name)


@needs("preference", check=_check, embeds=True)
async def preference(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    state: dict[str, Any],
    beta: Annotated[float, Within(0, 1000)] = 1.0,
    lr: Annotated[float, Within(0, 1)] = 1e-3,
    hidden: Annotated[int, Within(0, 100_000)] = 64,
    updates: Annotated[int, Within(1, 1_000_000)] = 50,
    batch: Annotated[int, Within(1, 1_000_000)] = 32,
    capacity: Annotated[int, Within(1, 1_000_000)] = 64,
    plan_tokens: Annotated[int, Within(0, 1_000_000)] = 256,
) -> dict[str, float]:
    """Compute A(s, a, c) of each turn; c is the oracle's plan, which only the trainer knows (SWEET-RL, arXiv 2503.15478).

    Each step makes `updates` Adam updates on -log sigmoid(beta (sum_t A(better) - sum_t A(worse))) over `batch` pairs
    of episodes of one task with different rewards, drawn from the newest `capacity` groups; then the critic scores the
    step's turns. The plan is at most `plan_tokens` tokens of the oracle's actions. It precedes the episode in a
    separate forward pass without gradient, and no prompt for sampling or training contains it. The critic (`hidden`
    units) reads the hidden states at the end of each turn's prompt and of its reply; only these states are stored.
    Turns without tokens get nan.

    All processes have the same critic and pairs, which checkpoints save. Logged: `preference_loss`, and
    `preference_pairs`, the number of pairs, summed over processes. The paper's A is the need `log_ratio`. This one is a
    head on the policy's own states; the paper found that it generalizes worse, but it is much cheaper.
    """
    from agentgym.trainers.learners.embedding import turn_states
    from agentgym.trainers.needs.turn_critics.pairs import pairs
    from agentgym.trainers.needs.turn_critics.preference import PreferenceCritic, ScoredTurns, packed

    episodes = [episode for group in groups for episode in group]
    prefixes = await plans(episodes, run, plan_tokens)
    by_episode = turn_states(episodes, run.learner.embed, prefixes)
    seen: dict[int, ScoredTurns] = {}
    for episode, states in zip(episodes, by_episode, strict=True):
        for turn in episode.turns:
            turn.extra["preference"] = math.nan
        if any(turn is not None for turn in states):
            seen[id(episode)] = packed(float(episode.reward), [turn for turn in states if turn is not None])
    own = [[seen[id(episode)] for episode in group if id(episode) in seen] for group in groups]
    state["groups"] = recent = [*state.get("groups", []), *run.gather(own)][-capacity:]
    known = pairs(recent)
    width = next((len(np.frombuffer(e[2], np.float32)) // (2 * e[1]) for group in recent for e in group), 0)
    if not width:
        return {}
    critic = PreferenceCritic(width, hidden, lr=lr, beta=beta, seed=derive("preference", run.config.seed))
    if "critic" in state:
        critic.load(state["critic"])
    rng = generator("preference", run.config.seed, step)
    draws: list[list[int]] = [rng.integers(0, len(known), batch).tolist() for _ in range(updates if known else 0)]
    losses = [critic.update([known[place] for place in drawn]) for drawn in draws]
    state["critic"] = run.gather([critic.saved()])[0]  # another kind of CPU may round differently
    critic.load(state["critic"])
    for episode, states in zip(episodes, by_episode, strict=True):
        turns = [turn for turn, of in zip(episode.turns, states, strict=True) if of is not None]
        for turn, advantage in zip(turns, critic.judged(seen[id(episode)]) if turns else (), strict=True):
            turn.extra["preference"] = advantage
    mean = float(np.mean(losses)) if losses else 0.0
    return {"preference_loss": mean / len(run.gather([0])), "preference_pairs": float(len(pairs(own)))}
