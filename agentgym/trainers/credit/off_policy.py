"""Credit for groups with turns whose advantage a selection has set."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from agentgym.episodes.episode import Episode, Group
from agentgym.trainers.credit.base import Options, by_base, of_turns
from agentgym.trainers.credit.interface import WORTH, Floats, Within, credit
from agentgym.trainers.credit.scores import NotNegative
from agentgym.trainers.seam import SHAPES, Processes


@credit("off_policy", scope="batch", uniform=True, worth=True)
def off_policy(
    groups: Sequence[Group],
    *,
    state: dict[str, Any],
    step: int = 0,
    run: Processes | None = None,
    weight: NotNegative = 1.0,
    warmup: Annotated[int, Within(0, 1_000_000_000)] = 0,
    base: Annotated[str, SHAPES] = "grpo",
    base_options: Annotated[Options, SHAPES] = None,
) -> list[list[Floats]]:
    """Credit turns that have a `worth` in `turn.extra` with it, times a weight, and all other episodes as `base` does.

    For selections that add turns of an expert (`dagger`: worth 1, plain imitation) or of the past (`self_imitation`:
    the recalibrated advantage). Source: SPEAR, arXiv 2509.22601. Episodes with a worth are not part of `base`'s group;
    their other turns get 0. The weight rises from 0 by weight * (1 - cos(pi * step / warmup)) / 2 over the first
    `warmup` steps (SPEAR's schedule of self-imitation) and is constant afterwards. `base` is a credit without needs.
    Nothing else is centred or divided. A group of one has the signal of its worth alone. Train with a selection that
    keeps the added turns; no penalties but the base's. Statistics: none of its own, hence no ddof; a group without
    spread keeps the signal of its worth.
    Returns an array [output tokens of all turns, in order] per episode if it has a worth, else the array of `base`.
    """
    own = [Group(group.task_id, group.role, [e for e in group if not _has_worth(e)]) for group in groups]
    compared = by_base([group for group in own if len(group)], base, base_options, step=step, state=state, run=run)
    credited = iter([array for arrays in compared for array in arrays])
    now = weight * (0.5 - 0.5 * math.cos(math.pi * min(step / warmup, 1.0)) if warmup else 1.0)
    return [
        [now * np.nan_to_num(of_turns(e, WORTH)) if _has_worth(e) else next(credited) for e in group] for group in groups
    ]


def _has_worth(episode: Episode) -> bool:
    return any(WORTH in turn.extra for turn in episode.turns)
