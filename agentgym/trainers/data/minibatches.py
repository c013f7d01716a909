"""How the rows of a step are dealt into mini-batches, each of which is one optimizer step."""

from collections.abc import Sequence

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Group
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.segments import Segment


def minibatches(
    segments: list[Segment], groups: Sequence[Group], config: TrainConfig, step: int, epoch: int
) -> list[list[int]]:
    """Deal the rows into mini-batches, all rows of an episode together, by a draw that depends on seed and step.

    Where prefixes are shared, the episodes of a group follow one another in the deal, for theirs are the long ones.
    """
    episodes = sorted({segment.episode for segment in segments})
    order = generator("minibatches", config.seed, step, epoch).permutation(len(episodes))
    if config.share_prefixes:
        group_of = [number for number, group in enumerate(groups) for _ in group]
        first: dict[int, int] = {}
        for place, j in enumerate(order):
            first.setdefault(group_of[episodes[int(j)]], place)
        near = sorted(order, key=lambda j: first[group_of[episodes[int(j)]]])
        part = {episodes[int(j)]: i * config.minibatches // len(order) for i, j in enumerate(near)}
    else:
        part = {episodes[int(j)]: i % config.minibatches for i, j in enumerate(order)}
    dealt: list[list[int]] = [[] for _ in range(config.minibatches)]
    for row, segment in enumerate(segments):
        dealt[part[segment.episode]].append(row)
    return dealt
