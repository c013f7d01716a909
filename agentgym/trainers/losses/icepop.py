"""IcePop: leave out tokens on which engine and trainer disagree."""

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
    """Check that engine and trainer can differ.

    Raises:
        BadConfig: engine and trainer cannot differ.
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

    Tokens whose probability ratio before the update, trainer / engine, is outside `band_low` to `band_high` have
    no effect. The factor trainer / engine of the others is `tis_cap`'s: it is the published one with tis_cap >= band_high.
    Returns the loss of each token, [tokens], dimensionless, and metrics by name, each [tokens].
    """
    gap = (tokens.behaviour - tokens.engine).clamp(-LIMIT, LIMIT).exp()
    inside = ((gap >= band_low) & (gap <= band_high)).float()
    losses, metrics = clip(tokens, clip_low=clip_low, clip_high=clip_high)
    return losses * inside, {**metrics, "masked_fraction": 1 - inside}
