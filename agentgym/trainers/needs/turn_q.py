"""The need `turn_q`: values of turns and of their states, from an off-policy critic of whole turns (ArCHer)."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from agentgym.core.seeding import derive, generator
from agentgym.episodes.episode import Episode, Group, Turn
from agentgym.trainers.needs.interface import needs
from agentgym.trainers.seam import Within


@needs("turn_q", embeds=True)
def turn_q(
    groups: Sequence[Group],
    *,
    run: Any,
    step: int = 0,
    state: dict[str, Any],
    gamma: Annotated[float, Within(0, 1)] = 0.95,
    tau: Annotated[float, Within(0, 1)] = 0.1,
    lr: Annotated[float, Within(0, 1)] = 1e-3,
    hidden: Annotated[int, Within(0, 100_000)] = 64,
    updates: Annotated[int, Within(1, 1_000_000)] = 50,
    batch: Annotated[int, Within(1, 1_000_000)] = 128,
    capacity: Annotated[int, Within(1, 100_000_000)] = 4096,
    expectile: Annotated[float, Within(0.5, 1)] = 0.5,
) -> dict[str, float]:
    """Compute `turn_q`, min(Q1, Q2) of each turn, and `turn_v`, min(V1, V2) of its state (ArCHer, arXiv 2402.19446).

    Each step makes `updates` Adam updates, then scores its own turns. Q_i learns r + gamma V'_i(s') on `batch` turns
    drawn from the newest `capacity` turns; V' is 0 after the last turn, even if the horizon cut the episode. V_i learns
    Q'_i(s, a) on `batch` of this step's turns. The target copy Q', V' moves towards Q, V by `tau` per update. The state
    is the policy's last hidden state at the end of the turn's prompt, the action its hidden state at the end of the
    reply, both from the step in which the turn was sampled. The heads for Q and V have `hidden` units. Turns without
    tokens get nan.

    All processes have the same critic and the same buffer with everybody's turns. Checkpoints save both; the buffer
    takes 12 bytes per turn and unit of the policy's width. With `expectile` above 0.5, V_i is an upper expectile of
    Q'_i over the actions of the data (implicit Q-learning, ILQL, arXiv 2206.11871), for `--generation stored`. Logged:
    `critic_loss`, and `critic_turns`, the number of new turns, summed over processes. Differences: the paper's critic
    encodes text with a separate model, and it samples the action for V'_i from the policy again. Here V learns only
    from the step's own turns, whose actions are the current policy's, so no action has to be sampled; Q learns from all
    turns.
    """
    from agentgym.trainers.needs.turn_critics.twin import Steps, TwinCritic

    turns, own = _steps([episode for group in groups for episode in group], run)
    fresh: list[bytes] = run.gather(own)
    if not fresh:
        return {}
    replayed = [*state.get("turns", []), *fresh][-capacity:]
    everything, present = Steps.of(replayed), Steps.of(fresh)
    critic = TwinCritic(present.states.shape[1], hidden, lr=lr, seed=derive("turn_q", run.config.seed))
    if "critic" in state:
        critic.load(state["critic"])
    rng, losses = generator("turn_q", run.config.seed, step), list[float]()
    for _ in range(updates):
        drawn = (
            everything.select(rng.integers(0, len(everything), batch)),
            present.select(rng.integers(0, len(present), batch)),
        )
        losses.append(critic.update(*drawn, gamma=gamma, tau=tau, expectile=expectile))
    state["critic"] = run.gather([critic.saved()])[0]  # another kind of CPU may round differently
    critic.load(state["critic"])
    state["turns"] = replayed
    if turns:
        for turn, q, v in zip(turns, *critic.judged(Steps.of(own)), strict=True):
            turn.extra |= {"turn_q": float(q), "turn_v": float(v)}
    return {"critic_loss": float(np.mean(losses)) / len(run.gather([0])), "critic_turns": float(len(own))}


def _steps(episodes: Sequence[Episode], run: Any) -> tuple[list[Turn], list[bytes]]:
    """Return the turns that have tokens, and the critic's input for each; set `turn_q` and `turn_v` to nan in all turns."""
    from agentgym.trainers.data.turn_rewards import turn_rewards
    from agentgym.trainers.learners.embedding import turn_states
    from agentgym.trainers.needs.turn_critics.twin import packed

    turns: list[Turn] = []
    steps: list[bytes] = []
    for episode, states in zip(episodes, turn_states(episodes, run.learner.embed), strict=True):
        rewards = turn_rewards(episode)
        known = [k for k, turn in enumerate(states) if turn is not None]
        for turn in episode.turns:
            turn.extra |= {"turn_q": math.nan, "turn_v": math.nan}
        for k, later in zip(known, [*known[1:], None], strict=True):
            earned = float(rewards[k:later].sum())  # rewards of turns without tokens go to the turn before them
            steps.append(packed(np.asarray(states[k]), earned, None if later is None else states[later]))
            turns.append(episode.turns[k])
    return turns, steps
