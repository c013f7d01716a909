"""Credit for steps with added turns, whose advantage the selection has stored in `turn.extra["worth"]`."""

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
    """Credit turns that have a `worth` in `turn.extra` with weight * worth; credit all other episodes by `base`.

    Use it with selections that add turns of an expert (`dagger`: worth 1, plain imitation) or of earlier steps
    (`self_imitation`: worth is a recomputed advantage). Source: SPEAR, arXiv 2509.22601. An episode with a worth in any
    turn is not part of `base`'s group, and its other turns get 0. Over the first `warmup` steps the weight rises as
    weight * (1 - cos(pi * step / warmup)) / 2, SPEAR's schedule; then it is constant. `base` is a credit without needs.
    Statistics: those of `base`; a worth is neither centred nor divided (no ddof). In groups of one episode or without
    spread, turns with a worth get credit, and other episodes what `base` gives them. Penalties: those of `base`.
    Returns an array [output tokens of all turns, in order] for an episode with a worth, else the array of `base`.
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
