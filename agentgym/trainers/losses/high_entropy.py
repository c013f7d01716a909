"""Policy gradient on the high-entropy tokens only."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, Update, clip
from agentgym.trainers.seam import Within


def highest(update: Update, *, share: float) -> npt.NDArray[np.bool_]:
    """Return [tokens]: True for the `share` of an update's tokens with the highest entropy (at least one)."""
    number = max(1, round(share * len(update.advantages)))
    return np.argsort(np.argsort(-update.extra["entropy"], kind="stable")) < number


@loss("high_entropy", needs=("entropy",), choose=highest)
def high_entropy(
    tokens: Tokens,
    *,
    share: Annotated[float, Within(0, 1)] = 0.2,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute `clip` on the `share` of tokens with the highest entropy; others have no effect (arXiv 2506.01939).

    Entropies are measured before the step. Tokens are ranked within an optimizer update; with several processes, each
    process ranks its own tokens. The paper ranks a batch, and does not say if that is a mini-batch. The weight of the
    remaining tokens does not depend on the number of excluded ones.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    del share  # for `choose`
    return clip(tokens, clip_low=clip_low, clip_high=clip_high)
