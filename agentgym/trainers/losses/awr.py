"""AWR: imitate tokens in proportion to the exponential of their advantage."""

from typing import Annotated

from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens
from agentgym.trainers.seam import Within


@loss("awr")
def awr(
    tokens: Tokens,
    *,
    temperature: Annotated[float, Within(1e-3, 1e6)] = 1.0,
    largest: Annotated[float, Within(1)] = 20.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute -min(exp(A / temperature), largest) * log p: advantage-weighted regression.

    Source: AWR, arXiv 1910.00177, whose published code also has the bound of 20; implicit Q-learning (arXiv 2110.06169)
    extracts its policy in this way. It has no importance ratio, so it fits episodes that another policy played. A token
    with A = 0 is imitated with weight 1, as in supervised training; a low temperature leaves out poor tokens.
    Returns the loss of each token, [tokens], in nats, and the metric `awr_weight`, [tokens].
    """
    weights = (tokens.advantages / temperature).exp().clamp(max=largest)
    return -weights * tokens.logprobs, {"awr_weight": weights}
