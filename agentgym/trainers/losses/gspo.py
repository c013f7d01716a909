"""GSPO: one importance ratio for a whole sequence."""

from typing import Annotated, Literal

from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip
from agentgym.trainers.seam import Within


@loss("gspo")
def gspo(
    tokens: Tokens,
    *,
    low: Annotated[float, Within(0, 1)] = 3e-4,
    high: Annotated[float, Within(0)] = 4e-4,
    level: Literal["sequence", "turn"] = "sequence",
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute GSPO (arXiv 2507.18071, eqs. 5 to 7, 14): `clip` with the ratio exp(mean log ratio) of a sequence.

    The ratio is clipped to 1 - `low` and 1 + `high`. Each token has the gradient of its own log-probability
    (GSPO-token). A sequence is a training row: an episode if each prompt extends the previous one, else a turn.
    `level="turn"` does not depend on the rows. For the published aggregation, set `--loss-aggregation episode`. This
    loss equals `clip` with `importance_sampling_level` set to `level`, but has the paper's default widths.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    return clip(tokens, clip_low=low, clip_high=high, importance_sampling_level=level)
