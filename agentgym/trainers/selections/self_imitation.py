"""The selection `self_imitation`: replay the policy's own good episodes of recent steps, with updated advantages."""

from collections.abc import Sequence
from statistics import median
from typing import Annotated, Any

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.interface import WORTH
from agentgym.trainers.seam import Seeded, Within
from agentgym.trainers.selections.interface import drop, select
from agentgym.trainers.selections.mixing import joined

Buffer = list[tuple[int, str]]
"""(step, episode as JSON text) pairs."""


@select("self_imitation", worth=True)
def self_imitation(
    groups: Sequence[Group],
    *,
    number: Annotated[int, Within(1, 100_000)] = 16,
    threshold: Annotated[float, Within(0)] = 0.0,
    stale: Annotated[int, Within(1, 1_000_000)] = 5,
    capacity: Annotated[int, Within(1, 1_000_000)] = 2048,
    baseline: Annotated[int, Within(1, 10_000_000)] = 10_240,
    state: dict[str, Any],
    step: int = 0,
    run: Seeded,
) -> list[Group]:
    """Select groups whose returns differ, and add up to `number` earlier episodes that are still better than the median.

    Source: SPEAR, arXiv 2509.22601, and its published code. An episode is stored if its reward R exceeds its group's
    mean by more than `threshold`. It stays for `stale` steps, and at most `capacity` episodes are stored. On replay,
    its advantage is R minus the median of the mean rewards of the last `baseline` groups. The episode is used only if
    this is above 0, so earlier episodes drop out as the policy improves. The advantage is the worth of its turns for
    credit `off_policy`; that credit's `warmup` is the paper's schedule. Turns keep the log-probabilities of the policy
    that sampled them, so the ratio is off-policy and the loss's clip bounds it.

    The published code replays when its buffer is full, a power of two episodes at once, and can divide by a median
    spread; here every step replays a part. If no group has different returns, one group is selected to contain the
    replayed episodes. All processes have the same buffer and together replay the same episodes as one process would.
    """
    means: list[float] = state.setdefault("means", [])
    buffer: Buffer = state.setdefault("kept", [])
    paid = [(_key(group), sum(e.reward for e in group) / len(group)) for group in groups]
    means += [mean for _, mean in sorted(run.gather(paid))]
    del means[:-baseline]
    buffer[:] = [(when, text) for when, text in buffer if step - when <= stale]
    good = _drawn(buffer, median(means), number, (run.config.seed, step)) if means else []
    better = [
        ((*key, episode.attempt), episode.to_json())
        for group, (key, mean) in zip(groups, paid, strict=True)
        for episode in group
        if episode.reward - mean > threshold
    ]
    buffer += [(step, text) for _, text in sorted(run.gather(better))]
    del buffer[:-capacity]
    varied = drop(groups)
    places = sorted(run.gather([_key(group) for group in varied]))
    if good and not places:  # replayed episodes need a group, and a uniform one has no advantages of its own
        places = sorted(run.gather([_key(group) for group in groups]))[:1]
        varied = [group for group in groups if _key(group) in places]
    return [joined(group, good[places.index(_key(group)) :: len(places)]) for group in varied]


def _key(group: Group) -> tuple[str, str]:
    """Return a key to sort groups by, the same for any number of processes."""
    return group[0].group_id, group.role


def _drawn(buffer: Buffer, middle: float, number: int, seed: tuple[int, int]) -> list[Episode]:
    """Draw `number` stored episodes with a reward above `middle`, uniformly; each turn's worth is the difference."""
    order = generator("self_imitation", *seed).permutation(len(buffer))
    drawn: list[Episode] = []
    for place in order:
        episode = Episode.from_json(buffer[int(place)][1])
        if episode.reward > middle and len(drawn) < number:
            for turn in episode.turns:
                turn.extra[WORTH] = episode.reward - middle
            drawn.append(episode)
    return drawn
