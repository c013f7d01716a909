"""An entropy bonus that pulls the entropy into a band: EPO's idea, with a penalty that has a gradient."""

import math
from typing import Annotated

from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within

NotNegative = Annotated[float, Within(0)]


@loss("entropy_band", needs=("entropy_mean",))
def entropy_band(
    tokens: Tokens,
    *,
    step: int,
    weight: NotNegative = 0.001,
    smooth: NotNegative = 1.0,
    low: Annotated[float, Within(0, 1)] = 0.8,
    high: Annotated[float, Within(1)] = 1.2,
    phase: Annotated[int, Within(1)] = 100,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute `clip` - weight * (H - b * S), where H is a token's entropy and S its distance from a band around the mean.

    The idea is EPO's (arXiv 2509.22576): an entropy bonus, smoothed by a band from `low` to `high` times the mean
    entropy of the last steps (the need `entropy_mean`). The penalty is ours: the distance to the band, which pulls the
    entropy back at a constant slope. Its weight b = smooth * (1 - exp(-step / phase)) grows with the step. EPO's own
    penalty is a constant without a gradient: see loss `epo`. The value of the added term is not H - b * S; only its
    gradient is estimated, from the sampled token (`entropy_bonus`).
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    entropy, mean = tokens.entropy, tokens.extra["entropy_mean"]
    outside = (entropy > high * mean).float() - (entropy < low * mean).float()
    slope = 1 - smooth * (1 - math.exp(-step / phase)) * outside
    return losses - weight * slope * entropy_bonus(tokens), {**metrics, "outside_fraction": outside.abs()}


def entropy_bonus(tokens: Tokens) -> Tensor:
    """Return numbers [trained] whose expected gradient is that of the tokens' entropies.

    The gradient is estimated from the sampled token: -(log p + H) * grad log p, times the ratio. `tokens.entropy`
    itself has no gradient.
    """
    ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT).exp().detach()
    return -ratio * (tokens.logprobs.detach() + tokens.entropy) * tokens.logprobs
