"""LLDS: keep correct tokens from becoming less likely."""

from typing import TYPE_CHECKING, Annotated, Literal

from torch import Tensor

from agentgym.errors import BadConfig
from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


def _check(config: "TrainConfig") -> None:
    """Check that a step has more than one update, because the penalty is 0 in the first.

    Raises:
        BadConfig: there is only one update per step.
    """
    if config.updates == 1 and config.steps:
        raise BadConfig(
            "loss 'llds' with minibatches = 1 and epochs = 1 has no effect beyond 'clip': in the only update of a step no "
            "token has become less likely yet; set minibatches or epochs above 1"
        )


@loss("llds", check=_check)
def llds(
    tokens: Tokens,
    *,
    weight: Annotated[float, Within(0)] = 0.1,
    unit: Literal["turn", "sequence"] = "turn",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute `clip` plus weight * max(0, log p_old - log p) for tokens with A >= 0 in units that became less likely.

    Source: LLDS, arXiv 2512.04220. A unit became less likely if the sum of log p_old - log p over its tokens with
    A >= 0 is above 0. The paper's second version uses turns as units, the first version whole sequences (here: training
    rows). We did not find the paper's weight and its divisor: the default 0.1 is ours, and `loss_aggregation` divides,
    as in every loss. log p_old is from before the step, so the penalty is 0 in the first update of a step: set
    minibatches or epochs above 1.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    fallen = tokens.behaviour - tokens.logprobs
    index = tokens.batch.turns if unit == "turn" else tokens.batch.rows
    positive = (tokens.advantages >= 0).float()
    size = int(index.max()) + 1 if len(index) else 0
    total = fallen.new_zeros(size).index_add(0, index, (fallen * positive).detach())
    gate = positive * (total > 0).float()[index]
    return losses + weight * gate * fallen.clamp(min=0), {**metrics, "fallen_fraction": gate}
