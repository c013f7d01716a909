"""IcePop: exclude tokens on which engine and trainer disagree."""

from typing import TYPE_CHECKING, Annotated

from torch import Tensor

from agentgym.errors import BadConfig
from agentgym.trainers.losses.interface import loss
from agentgym.trainers.losses.policy import Tokens, clip
from agentgym.trainers.run.metrics import LIMIT
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


def _check(config: "TrainConfig") -> None:
    """Check that engine and trainer may compute different probabilities, and that the run computes both.

    Raises:
        BadConfig: the probabilities cannot differ, or the trainer's are not computed.
    """
    reason = ""
    if config.engine_kind.in_process and config.precision == "fp32" and not config.async_level:
        reason = (
            f"the engine {config.engine} in fp32 is the trainer's own model: choose loss 'clip', or an engine that "
            "computes for itself"
        )
    elif not config.differs:
        reason = "nothing computes the trainer's log-probabilities here: give --old-logprobs trainer"
    if reason:
        raise BadConfig(f"loss 'icepop' leaves out tokens on which engine and trainer differ, and {reason}")


@loss("icepop", check=_check)
def icepop(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    band_low: Annotated[float, Within(0, 1)] = 0.5,
    band_high: Annotated[float, Within(1)] = 5.0,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute IcePop (Ring-1T, arXiv 2510.18855): the clipped loss of tokens on which engine and trainer roughly agree.

    Tokens have no effect if the ratio trainer / engine of their probabilities before the step is outside `band_low` to
    `band_high`. The other tokens are multiplied by this ratio, up to `tis_cap`; a tis_cap of at least band_high gives
    the published loss.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    gap = (tokens.behaviour - tokens.engine).clamp(-LIMIT, LIMIT).exp()
    inside = ((gap >= band_low) & (gap <= band_high)).float()
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    return losses * inside, {**metrics, "masked_fraction": 1 - inside}
