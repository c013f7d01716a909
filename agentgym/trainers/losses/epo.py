"""EPO: a bonus for entropy, held within a band around what it used to be."""

import math
from typing import Annotated

from torch import Tensor

from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within

NotNegative = Annotated[float, Within(0)]


@loss("epo", needs=("entropy_mean",))
def epo(
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
    """`clip` - weight * (H - b * S): H a token's entropy, S how far it lies outside of a band around the mean so far.

    Source: EPO, arXiv 2509.22576: entropy bonus over all turns, smoothing by a band (`low` to `high` times) around the
    mean of earlier steps (the need `entropy_mean`), and a weight b that grows by phases. Settled by the text found is
    that much; not the form of the penalty (here the distance to the band, whose gradient is one towards it), not that of
    b (here smooth * (1 - exp(-step / phase))), not the constants. Entropies have no gradient here: that of H is estimated
    from the token that was sampled, -(log p + H) * grad log p, times the ratio, which is right in expectation.
    """
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    entropy, mean = tokens.entropy, tokens.extra["entropy_mean"]
    outside = (entropy > high * mean).float() - (entropy < low * mean).float()
    slope = 1 - smooth * (1 - math.exp(-step / phase)) * outside
    ratio = (tokens.logprobs - tokens.behaviour).clamp(-LIMIT, LIMIT).exp().detach()
    bonus = -ratio * (tokens.logprobs.detach() + entropy) * tokens.logprobs
    return losses - weight * slope * bonus, {**metrics, "outside_fraction": outside.abs()}
