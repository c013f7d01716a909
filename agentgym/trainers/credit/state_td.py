"""Credit by state values: how much a turn changes the mean return-to-go of the group's episodes at the current state."""

from collections.abc import Hashable, Sequence
from typing import Literal

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.gigpo import Anchor
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import NotNegative, Punish, Share, discounted, punished
from agentgym.trainers.data.turn_rewards import turn_rewards
from agentgym.trainers.seam import Processes


@credit("state_td", scope="batch")
def state_td(
    groups: Sequence[Group],
    *,
    run: Processes | None = None,
    anchor: Anchor = "state",
    gamma: Share = 0.95,
    lam: Share = 0.3,
    shrinkage: NotNegative = 0.5,
    revisits: bool = False,
    scale: Literal["grpo", "none"] = "grpo",
    penalty: NotNegative = 0.0,
    punish: Punish = "valid",
    penalty_order: Literal["before", "advantage"] = "advantage",
) -> list[list[Floats]]:
    """Credit each turn with r_k + gamma * V(s_{k+1}) - V(s_k), where V(s) is the group's mean return-to-go at s.

    Source: our own. TD errors (Sutton, 1988) over a table of first-visit Monte Carlo values, computed for each group
    separately; docs/seams/credit.md derives when they are unbiased. G_k = r_k + gamma * G_{k+1} is the discounted
    return-to-go. V(s) = (sum of G at s + shrinkage * mean G of all turns of the group) / (visits + shrinkage); V after
    the last turn is 0, whatever ended the episode. s is the environment's `state_key`, or the observation with
    `anchor="observation"` (except answers to invalid actions, as in `gigpo`). A turn without an anchor is a state of
    its own.

    `lam` adds the errors of later turns: A_k = delta_k + gamma * lam * A_{k+1}, where delta_k is the difference in the
    first line. With lam 0, A_k is delta_k; with lam 1, it is G_k - V(s_k). An episode counts in V(s) only at its first
    visit to s. With `revisits=True` every visit counts, so an episode that walks in circles dominates V. `scale="grpo"`
    multiplies all advantages of the step by one number, so that their root mean square over turns (of all processes)
    equals that of `grpo` on the same episodes; the same learning rate then suits both. `scale="none"` leaves them in
    units of the reward.
    Statistics: V over turns; the scale over the turns of the batch; no ddof, no eps. A group of one episode compares
    its own visits. Without spread in the returns only discounting remains, so wasted turns cost a little; with
    `scale="grpo"`, a batch in which no group has spread gives exactly 0.
    Penalties (see `grpo`): `before` makes them part of the turn's reward, so they enter V and earlier turns;
    `advantage` subtracts them from the turn's final, scaled advantage.
    Returns an array [turns] per episode, in the scale of `grpo`, or in units of the reward with `scale="none"`.
    """
    early = penalty if penalty_order == "before" else 0.0
    errors = [_errors(group, anchor, gamma, lam, shrinkage, revisits, early, punish) for group in groups]
    return finished(groups, errors, run, scale, penalty - early, punish)


@credit("branch_td", scope="batch", needs=("branches",))
def branch_td(
    groups: Sequence[Group],
    *,
    run: Processes | None = None,
    anchor: Anchor = "state",
    gamma: Share = 0.95,
    lam: Share = 0.3,
    shrinkage: NotNegative = 0.5,
    revisits: bool = False,
    scale: Literal["grpo", "none"] = "grpo",
    branch_visits: NotNegative = 4.0,
    penalty: NotNegative = 0.0,
    punish: Punish = "valid",
) -> list[list[Floats]]:
    """Credit as `state_td`, but state values also use the mean returns of continuations (`trainers.needs.branches`).

    Source: our own, with values as in VinePPO (arXiv 2410.01679) at measured turns and a table of returns at the
    others. A measured turn counts as `branch_visits` additional visits of its state, with the measured mean as their
    return. Set `branch_visits` to the `k` of `branches` (`--needs.k`), whose gamma (`--needs.gamma`) is this credit's.
    `--needs.at alone` measures states that the group visited once, where `state_td` has only the turn's own return.
    Statistics, ddof, groups of one episode and groups without spread as in `state_td`. Penalties are subtracted from
    the final advantage.
    Returns an array [turns] per episode, in the scale of `grpo`, or in units of the reward with `scale="none"`.
    """
    errors = [_errors(group, anchor, gamma, lam, shrinkage, revisits, 0.0, punish, branch_visits) for group in groups]
    return finished(groups, errors, run, scale, penalty, punish)


def finished(
    groups: Sequence[Group],
    errors: Sequence[Sequence[Floats]],
    run: Processes | None,
    scale: str,
    penalty: float,
    punish: Punish,
) -> list[list[Floats]]:
    """Scale the errors to the size of `grpo`'s advantages if `scale` asks for it, and subtract the penalties.

    Returns an array [turns] per episode.
    """
    factor = factor_to_grpo(groups, errors, run) if scale == "grpo" else 1.0
    return [
        [factor * row - penalty * punished(episode.turns, punish) for row, episode in zip(rows, group, strict=True)]
        for rows, group in zip(errors, groups, strict=True)
    ]


def state_keys(episode: Episode, anchor: Anchor = "state") -> list[Hashable]:
    """Return the state key (`state`) or the observation (`observation`) of each turn.

    It is None if the state key is unknown, or if the observation answers an invalid action.
    """
    if anchor == "state":
        return [turn.state_key for turn in episode.turns]
    refused = [False, *(not turn.valid for turn in episode.turns)]  # the next observation answers an error
    return [None if error else turn.observation for turn, error in zip(episode.turns, refused, strict=False)]


def _errors(
    group: Group,
    anchor: Anchor,
    gamma: float,
    lam: float,
    shrinkage: float,
    revisits: bool,
    penalty: float,
    punish: str,
    branch_visits: float = 0.0,
) -> list[Floats]:
    """Return a group's TD errors summed over later turns with weight gamma * lam, [turns] per episode."""
    rewards = [turn_rewards(episode) - penalty * punished(episode.turns, punish) for episode in group]
    returns = [discounted(row, gamma) for row in rewards]
    middle = float(np.mean(np.concatenate(returns)))
    totals: dict[Hashable, float] = {}
    visits: dict[Hashable, float] = {}

    def visit(state: Hashable, worth: float, times: float) -> None:
        totals[state] = totals.get(state, 0.0) + times * worth
        visits[state] = visits.get(state, 0.0) + times

    states: list[list[Hashable]] = []
    for i, episode in enumerate(group):
        states.append([(i, k) if key is None else key for k, key in enumerate(state_keys(episode, anchor))])
        for k, (state, turn) in enumerate(zip(states[i], episode.turns, strict=True)):
            if revisits or state not in states[i][:k]:
                visit(state, float(returns[i][k]), 1.0)
            if branch_visits and not np.isnan(turn.extra["branches"]):
                visit(state, float(turn.extra["branches"]), branch_visits)
    values = {state: (totals[state] + shrinkage * middle) / (visits[state] + shrinkage) for state in totals}
    errors: list[Floats] = []
    for row, path in zip(rewards, states, strict=True):
        value = np.array([*(values[state] for state in path), 0.0])
        errors.append(discounted(row + gamma * value[1:] - value[:-1], gamma * lam))
    return errors


def factor_to_grpo(groups: Sequence[Group], errors: Sequence[Sequence[Floats]], run: Processes | None) -> float:
    """Return the factor that scales the errors of all processes to the root mean square of `grpo`'s advantages.

    The factor is 0 if the errors are so small that they are only rounding errors.
    """
    plain = [
        episode_advantages(group, norm="std", ddof=1, eps=1e-6, penalty=0.0, punish="valid", penalty_order="advantage")
        for group in groups
    ]
    squares = [tuple(sum(float(row @ row) for rows in kind for row in rows) for kind in (plain, errors))]
    theirs, ours = (sum(pair) for pair in zip(*(squares if run is None else run.gather(squares)), strict=True))
    return float(np.sqrt(theirs / ours)) if ours > 1e-12 * theirs else 0.0  # else rounding errors would be scaled up
