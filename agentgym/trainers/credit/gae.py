"""Generalized advantage estimation with a critic: over turns (PPO), and over turns and the tokens within them."""

from collections.abc import Callable, Sequence

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Share
from agentgym.trainers.credit.whitening import whitened
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes

Estimate = Callable[[Episode], tuple[Floats, list[Floats]]]
"""Maps an episode to its advantages and, for each turn, the critic's targets [output tokens]; nan means no target."""


@credit("turn_gae", scope="batch", needs=("values",), uniform=True)
def turn_gae(
    groups: Sequence[Group], *, gamma: Share = 0.95, lam: Share = 0.95, whiten: bool = True, run: Processes | None = None
) -> list[list[Floats]]:
    """Credit turn k with A_k = D_k + gamma * lam * A_{k+1}, where D_k = r_k + gamma * V_{k+1} - V_k: PPO over turns.

    Source: GAE, arXiv 1506.02438, eq. 16, with a turn as the time step; PPO, arXiv 1707.06347. V_k is the critic's
    value at the first token of turn k, and A_k + V_k is its target there. V after the last turn is 0, even if the
    horizon cut the episode: the horizon is part of the task. For a turn without a value (context only, or an empty
    reply), V_k is r_k + gamma * V_{k+1}, so A_k = gamma * lam * A_{k+1}.
    Statistics over turns: with `whiten`, A becomes (A - mean) / (std + 1e-8) over all turns of the step in all
    processes and groups, ddof 0. Groups of one episode or without spread also get credit, and a critic that never sees
    them learns wrong values: keep them with `--select keep`. No penalties: let the environment or a reward pay them.
    Returns an array [turns] per episode, in units of the reward, or in standard deviations with `whiten`.
    """

    def estimate(episode: Episode) -> tuple[Floats, list[Floats]]:
        values = _values(episode)
        firsts = np.array([value[0] for value in values])
        advantages, returns = _over_turns(turn_rewards(episode), firsts, gamma, lam)
        targets = [np.full(len(value), np.nan) for value in values]
        for target, first, value in zip(targets, returns, firsts, strict=True):
            target[0] = np.nan if np.isnan(value) else first
        return advantages, targets

    return _credited(groups, estimate, whiten, run)


@credit("bilevel_gae", scope="batch", needs=("values",), uniform=True)
def bilevel_gae(
    groups: Sequence[Group],
    *,
    turn_gamma: Share = 0.95,
    gamma: Share = 1.0,
    lam: Share = 1.0,
    whiten: bool = True,
    run: Processes | None = None,
) -> list[list[Floats]]:
    """Credit each token by GAE within its turn; GAE over turns determines the return at the end of the turn.

    Source: bi-level GAE of VAGEN, arXiv 2510.16907. Where paper and code differ, this follows the code of VAGEN and
    RAGEN. Over turns, V(e_k) is the value at the last token of turn k: D_k = r_k + turn_gamma * V(e_{k+1}) - V(e_k),
    A_k = D_k + turn_gamma * lam * A_{k+1}; V after the last turn is 0. Within a turn, the last token's reward is T_k =
    A_k + V(e_k) and all other rewards are 0: d_t = r_t + gamma * V_{t+1} - V_t, A_t = d_t + gamma * lam * A_{t+1}; V
    and A after the turn are 0. The critic's targets are A_t + V_t. The published code finds the end of a turn by a
    nonzero reward; here the turns themselves determine it.
    Statistics over output tokens, ddof 0. `whiten`, turns without values, and groups of one episode or without spread
    are handled as in `turn_gae`. Rejected actions get no penalties.
    Returns an array [output tokens of all turns, in order] per episode, in units of the reward, or in standard
    deviations with `whiten`.
    """

    def estimate(episode: Episode) -> tuple[Floats, list[Floats]]:
        values = _values(episode)
        _, returns = _over_turns(turn_rewards(episode), np.array([value[-1] for value in values]), turn_gamma, lam)
        within = [_within(value, end, gamma, lam) for value, end in zip(values, returns, strict=True)]
        sizes = [len(turn.output_ids) for turn in episode.turns]
        advantages = [np.nan_to_num(row[:size]) for row, size in zip(within, sizes, strict=True)]
        return np.concatenate(advantages), [row + value for row, value in zip(within, values, strict=True)]

    return _credited(groups, estimate, whiten, run)


def _values(episode: Episode) -> list[Floats]:
    """Return the critic's values of each turn, [output tokens]; a single nan for a turn without values."""
    none = np.full(1, np.nan)
    by_turn = [np.asarray(turn.extra.get("values", none), dtype=np.float64) for turn in episode.turns]
    return [values if len(values) else none for values in by_turn]


def _over_turns(rewards: Floats, values: Floats, gamma: float, lam: float) -> tuple[Floats, Floats]:
    """Return the advantages A and the returns A + V, both [turns]; a turn without a value passes on the next advantage."""
    advantages, returns = np.zeros_like(values), np.zeros_like(values)
    later, value_after = 0.0, 0.0
    for k in range(len(values) - 1, -1, -1):
        value = rewards[k] + gamma * value_after if np.isnan(values[k]) else values[k]
        later = rewards[k] + gamma * value_after - value + gamma * lam * later
        advantages[k], returns[k], value_after = later, later + value, value
    return advantages, returns


def _within(values: Floats, end: float, gamma: float, lam: float) -> Floats:
    """Return the advantages within a turn, [output tokens], given the return `end` at its last token; nan without values."""
    advantages, later = np.empty_like(values), 0.0
    for t in range(len(values) - 1, -1, -1):
        ahead = end if t == len(values) - 1 else gamma * values[t + 1]
        later = ahead - values[t] + gamma * lam * later
        advantages[t] = later
    return advantages


def _credited(groups: Sequence[Group], estimate: Estimate, whiten: bool, run: Processes | None) -> list[list[Floats]]:
    """Return the advantages of all episodes, and store the critic's targets in their turns."""
    by_group = [[estimate(episode) for episode in group] for group in groups]
    for group, estimates in zip(groups, by_group, strict=True):
        for episode, (_, targets) in zip(group, estimates, strict=True):
            for turn, target in zip(episode.turns, targets, strict=True):
                if "values" in turn.extra:
                    turn.extra["value_target"] = target.astype(np.float32)
    advantages = [[row for row, _ in estimates] for estimates in by_group]
    return whitened(advantages, run) if whiten else advantages
