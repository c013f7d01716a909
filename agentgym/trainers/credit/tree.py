"""Credit for groups whose episodes branch off from one another: ARPO, AEPO, TreeRL, and REFUEL's relative futures."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentgym.episodes.episode import Group
from agentgym.trainers.credit.group import episode_advantages
from agentgym.trainers.credit.interface import Floats, Within, credit
from agentgym.trainers.credit.scores import Norm, NotNegative, Share, discounted
from agentgym.trainers.data.trees import Key, forks, holders, keys
from agentgym.trainers.data.turn_rewards import turn_rewards


@credit("arpo")
def arpo(group: Group, *, norm: Norm = "std", eps: NotNegative = 1e-6) -> list[Floats]:
    """Credit each turn with the mean of `grpo`'s advantage over the episodes that share it.

    Source: ARPO, arXiv 2507.19849, hard advantage estimation. Tokens of a single chain get its advantage A_i = (R_i -
    mean) / std; tokens that d chains share get the mean of their A_i. For the paper's soft estimation, use credit
    `grpo` with `shared_turns` `each`, which trains a shared turn in every chain with a share of the weight.
    Statistics over the episodes of the group, including branches; ddof 1. A group of one episode gives 0; zero spread
    gives exactly 0. Rejected actions get no penalties. Without branches it equals `grpo`.
    Returns an array [turns] per episode, in standard deviations, or in units of the reward with `norm="mean"`.
    """
    return _shared(group, _plain(group, norm, eps))


@credit("aepo", needs=("entropy",))
def aepo(
    group: Group, *, alpha: Annotated[float, Within(0, 100)] = 0.2, norm: Norm = "std", eps: NotNegative = 1e-6
) -> list[Floats]:
    """Credit each token with `arpo`'s advantage times (1 + alpha * z); z is the token's entropy, normalized over the group.

    Source: AEPO, arXiv 2510.14545, entropy-aware advantage estimation: A = A_acc * (1 + alpha * A_dH), where A_dH is
    the group-normalized entropy. z is (entropy - mean) / std over all tokens of the group, each counted once (ddof 0);
    this and the default of alpha are ours. The factor is at least 0, so it never changes the sign. Statistics, groups
    of one episode and groups without spread as in `arpo`; equal entropies give z = 0. Rejected actions get no
    penalties.
    Returns an array [output tokens of all turns, in order] per episode, in the units of `arpo`.
    """
    by_turn = _shared(group, _plain(group, norm, eps))
    known = [np.asarray(group[places[0]].turns[key[1]].extra.get("entropy", ())) for key, places in _holders(group).items()]
    flat = np.concatenate([np.atleast_1d(item) for item in known]).astype(np.float64)
    spread = flat.std() if len(flat) and flat.max() > flat.min() else 0.0
    advantages: list[Floats] = []
    for episode, row in zip(group, by_turn, strict=True):
        parts: list[Floats] = []
        for turn, value in zip(episode.turns, row, strict=True):
            size, entropy = len(turn.output_ids), np.asarray(turn.extra.get("entropy", ()), dtype=np.float64)
            z = (entropy - flat.mean()) / spread if spread and entropy.shape == (size,) else np.zeros(size)
            parts.append(value * np.maximum(1 + alpha * z, 0.0))
        advantages.append(np.concatenate(parts))
    return advantages


@credit("treerl")
def treerl(group: Group) -> list[Floats]:
    """Credit each turn with ((V - V_root) + (V - V_parent)) / sqrt(leaves); V is the mean return of its leaves.

    Source: TreeRL, arXiv 2506.11902, section 3.3. A step is a segment of the tree between two forks; all of its turns
    get the same credit. Leaves are episodes. V(s) is the mean return of the leaves L(s) under step s, and V(root) is
    the mean over all leaves. The global advantage is V(s) - V(root), the local one V(s) - V(parent). Their sum is
    divided by sqrt(|L(s)|), so that early steps, which are in many leaves, do not dominate. The published code also
    normalizes returns by subtracting the mean of the other leaves; this changes both differences only by a factor n /
    (n - 1) and is left out.
    Statistics over episodes; no ddof, no eps. A group of one episode, or without spread, gives exactly 0. Without
    branches it equals 2 (R - mean R). Rejected actions get no penalties.
    Returns an array [turns] per episode, in units of the reward.
    """
    returns = np.array([turn_rewards(episode).sum() for episode in group])
    holding, names = _holders(group), keys(group.episodes)
    if returns.max() == returns.min():
        return [np.zeros(len(episode.turns)) for episode in group]
    value = {key: float(returns[places].mean()) for key, places in holding.items()}
    root = float(returns.mean())
    advantages: list[Floats] = []
    for row in names:
        credits, above, before = np.zeros(len(row)), root, root
        for number, key in enumerate(row):
            if number and holding[key] != holding[row[number - 1]]:  # a fork: the previous step becomes the parent
                above = before
            before = value[key]
            credits[number] = (2 * value[key] - root - above) / np.sqrt(len(holding[key]))
        advantages.append(credits)
    return advantages


@credit("relative_future")
def relative_future(group: Group, *, gamma: Share = 1.0) -> list[Floats]:
    """Credit a turn that has siblings with its future reward minus the mean of theirs, and every other turn with 0.

    Source: REFUEL, arXiv 2410.04612, eq. 4, which regresses the difference in future reward between two continuations
    of one turn. Siblings are turns with the same previous turns: the turns after a point at which episodes branch off,
    or the first turns of episodes that start at the beginning of the task. A_i = G_i - mean of G_j over the other
    siblings. G is the return-to-go discounted by `gamma`, averaged over the episodes that share the turn. With two
    siblings, A is the difference itself. Use it with branching `pairs` and loss `refuel`.
    Statistics over siblings; no ddof, no eps. A group of one episode gives 0; zero spread gives 0. Rejected actions get
    no penalties.
    Returns an array [turns] per episode, in units of the reward.
    """
    returns = [discounted(turn_rewards(episode), gamma) for episode in group]
    holding = _holders(group)
    future = {key: float(np.mean([returns[place][key[1]] for place in places])) for key, places in holding.items()}
    advantages = [np.zeros(len(episode.turns)) for episode in group]
    for siblings in forks(group.episodes):
        total = sum(future[key] for key in siblings)
        for key in siblings:
            others = (total - future[key]) / (len(siblings) - 1)
            for place in holding[key]:
                advantages[place][key[1]] = future[key] - others
    return advantages


def _holders(group: Group) -> dict[Key, list[int]]:
    return holders(group.episodes)


def _plain(group: Group, norm: str, eps: float) -> list[Floats]:
    return episode_advantages(group, norm=norm, ddof=1, eps=eps, penalty=0.0, punish="valid", penalty_order="advantage")


def _shared(group: Group, rows: Sequence[Floats]) -> list[Floats]:
    """Replace each number of `rows` [turns] by its mean over the episodes that share the turn; return rows [turns]."""
    holding = _holders(group)

    def mean(key: Key) -> float:
        return sum(float(rows[place][key[1]]) for place in holding[key]) / len(holding[key])

    return [np.array([mean(key) for key in names], dtype=np.float64) for names in keys(group.episodes)]
