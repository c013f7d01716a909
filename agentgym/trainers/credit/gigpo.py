"""GiGPO: compare whole episodes of a group with each other, and turns that start from the same state."""

from collections.abc import Hashable, Iterable
from typing import Literal, get_args

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.errors import BadConfig
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, credit
from agentgym.trainers.credit.scores import Norm, NotNegative, Order, Punish, Share, centred, choice, discounted, punished
from agentgym.trainers.data.turn_rewards import turn_rewards

Anchor = Literal["observation", "state"]
ANCHORS = get_args(Anchor)


@credit("gigpo")
def gigpo(
    group: Group,
    *,
    anchor: Anchor = "observation",
    gamma: Share = 0.95,
    step_weight: NotNegative = 1.0,
    norm: Norm = "std",
    step_norm: Norm = "mean",
    ddof: Literal[0, 1] = 1,
    eps: NotNegative = 1e-6,
    revisits: bool = True,
    keep_errors: bool = False,
    keep_invalid: bool = True,
    penalty: NotNegative = 0.0,
    punish: Punish = "valid",
    penalty_order: Order = "advantage",
) -> list[Floats]:
    """Credit each turn with A_E + step_weight * A_S: the advantage of its episode plus the advantage among equal states.

    Source: GiGPO, arXiv 2505.10978, eqs. 3 to 8. Where the published code departs from the paper, this follows the
    paper; `gigpo_reference` follows the code. A_E is `grpo` with `norm`. A_S centres the discounted return-to-go G_k =
    r_k + gamma * G_{k+1} among the turns of the group that have the same anchor: the observation before the turn
    (`anchor="observation"`, as published) or the environment's `state_key` (`anchor="state"`; turns whose key is None
    have A_S = 0).
    Statistics: A_E over trajectories, A_S over turns. `ddof` and `eps` apply to both terms if they divide by the spread
    (`norm` or `step_norm` is `std`); `mean` divides by nothing. Anchor groups are small, and dividing by their spread
    makes tiny differences as large as successes, so `step_norm` is `mean` by default. A group of one episode has A_E =
    0, a turn alone at its anchor has A_S = 0, and zero spread gives exactly 0.

    `revisits=False` compares only a trajectory's first visit to an anchor; later visits have A_S = 0. With
    `anchor="observation"`, the answer to an invalid action is not a state, so the turn after it has no anchor unless
    `keep_errors`. `keep_invalid=False` also excludes turns whose own action is invalid.
    Penalties (see `grpo`): `before` makes them part of the turn's reward, so they enter R and, discounted, G of earlier
    turns; `after` subtracts them from that turn's score and G only; `advantage` subtracts them from the turn's final
    advantage.
    Returns an array [turns] per episode. A term with norm `std` is in standard deviations, one with `mean` in units of
    the reward.

    Raises:
        BadConfig: `keep_errors` with `anchor="state"`, which has no effect, or an unknown choice.
    """
    choice("anchor", anchor, ANCHORS)
    if anchor == "state" and keep_errors:
        raise BadConfig(
            "keep_errors has no effect with anchor='state', because a state does not depend on the last response; remove it"
        )
    episode_term = episode_advantages(
        group, norm=norm, ddof=ddof, eps=eps, penalty=penalty, punish=punish, penalty_order=penalty_order
    )
    if step_weight == 0.0:
        return episode_term
    returns = step_returns(group, gamma=gamma, penalty=penalty, punish=punish, penalty_order=penalty_order)
    step_term = [np.zeros(len(episode.turns)) for episode in group]
    anchors = anchor_groups(group, anchor, revisits=revisits, keep_errors=keep_errors, keep_invalid=keep_invalid)
    for members in anchors.values():
        scores = np.array([returns[i][k] for i, k in members])
        for (i, k), value in zip(members, centred(scores, norm=step_norm, ddof=ddof, eps=eps), strict=True):
            step_term[i][k] = value
    return [whole + step_weight * step for whole, step in zip(episode_term, step_term, strict=True)]


def step_returns(group: Group, *, gamma: float, penalty: float, punish: str, penalty_order: str) -> list[Floats]:
    """Return the discounted return-to-go, [turns] per episode.

    Penalties lower the turn's reward (`penalty_order` `before`), only its return-to-go (`after`), or neither.
    """
    returns: list[Floats] = []
    for episode in group:
        cost = penalty * punished(episode.turns, punish)
        rewards = turn_rewards(episode)
        if penalty_order == "before":
            returns.append(discounted(rewards - cost, gamma))
        else:
            returns.append(discounted(rewards, gamma) - (cost if penalty_order == "after" else 0.0))
    return returns


def anchor_groups(
    group: Group, anchor: str, *, revisits: bool = True, keep_errors: bool = False, keep_invalid: bool = True
) -> dict[Hashable, list[tuple[int, int]]]:
    """Return, for each anchor, the (episode, turn) indices that are compared with each other; options as in `gigpo`."""
    groups: dict[Hashable, list[tuple[int, int]]] = {}
    for i, episode in enumerate(group):
        answered = False  # True if the observation answers an invalid action
        seen: set[Hashable] = set()
        for k, turn in enumerate(episode.turns):
            key = turn.observation if anchor == "observation" else turn.state_key
            error, answered = answered, not turn.valid
            if key is None or (error and anchor == "observation" and not keep_errors):
                continue
            if not (turn.valid or keep_invalid) or (key in seen and not revisits):
                continue
            seen.add(key)
            groups.setdefault(key, []).append((i, k))
    return groups


def anchor_statistics(
    groups: Iterable[Group],
    anchor: str = "observation",
    *,
    revisits: bool = True,
    keep_errors: bool = False,
    keep_invalid: bool = True,
) -> dict[str, tuple[int, int]]:
    """Return `anchor_size`, `anchor_singletons` and `anchor_missing`, each as (total, divisor) to be summed over processes.

    They are the mean number of turns per anchor, the share of anchored turns that are alone at their anchor, and the
    share of all turns without an anchor.
    """
    choice("anchor", anchor, ANCHORS)
    sizes: list[int] = []
    turns = 0
    for group in groups:
        turns += sum(len(episode.turns) for episode in group)
        by_anchor = anchor_groups(group, anchor, revisits=revisits, keep_errors=keep_errors, keep_invalid=keep_invalid)
        sizes += [len(members) for members in by_anchor.values()]
    anchored = sum(sizes)
    return {
        "anchor_size": (anchored, len(sizes)),
        "anchor_singletons": (sizes.count(1), anchored),
        "anchor_missing": (turns - anchored, turns),
    }
