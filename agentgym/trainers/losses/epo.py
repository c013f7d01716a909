"""EPO as in its published code: an entropy bonus, minus a constant if the entropy is outside a band."""

from typing import Annotated

from torch import Tensor

from agentgym.trainers.losses.entropy_band import entropy_bonus
from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip
from agentgym.trainers.seam import Within

NotNegative = Annotated[float, Within(0)]


@loss("epo", needs=("turn_entropy_mean",))
def epo(
    tokens: Tokens,
    *,
    weight: NotNegative = 0.001,
    smooth: NotNegative = 1.0,
    low: Annotated[float, Within(0, 1)] = 0.8,
    high: Annotated[float, Within(1)] = 1.2,
    penalty: NotNegative = 0.1,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute `clip` - weight * (H - smooth * P), where H is a token's entropy and P is `penalty` if H is outside a band.

    Source: EPO, arXiv 2509.22576, as in its code (WujiangXu/EPO, 5b6fa98). The band is `low` to `high` times the mean
    entropy, over the steps so far, of turns with the same index (the need `turn_entropy_mean`). It applies to turns
    from half of the horizon on; P is 0 in earlier turns. P is a constant: it changes the value of the loss but not its
    gradient, so training equals `clip` with an entropy bonus. The bonus's gradient is estimated from the sampled token
    (`entropy_bonus`). Two details of the code are not implemented: the factor on P that falls with the epochs, and
    padding of short episodes with leading zeros, which shifts the means.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    entropy, mean = tokens.entropy, tokens.extra["turn_entropy_mean"]  # NaN without a band
    outside = ((entropy <= low * mean) | (entropy >= high * mean)).float()
    bonus = entropy_bonus(tokens)
    value = entropy + bonus - bonus.detach()  # H, with the gradient of the estimate
    return losses - weight * (value - smooth * penalty * outside), {**metrics, "outside_fraction": outside}
