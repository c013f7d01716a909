"""The reward `denoise`: correct the rewards of a verifier with known error rates, so that their mean is the true reward."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within

Share = Annotated[float, Within(0, 1)]


def check(*, false_positive: float, false_negative: float) -> None:
    """Check that at least one error rate is above 0, and that their sum is below 1.

    Raises:
        BadConfig: both error rates are 0, or their sum is 1 or more.
    """
    if false_positive + false_negative >= 1:
        raise BadConfig(
            f"reward 'denoise' has false_positive {false_positive:g} and false_negative {false_negative:g}; expected a sum "
            "below 1: such a verifier says nothing, or the opposite"
        )
    if not false_positive and not false_negative:
        raise BadConfig("reward 'denoise' without false_positive and false_negative corrects nothing: leave it out")


@reward("denoise", check=check)
def denoise(
    episodes: Sequence[Episode], *, false_positive: Share = 0.0, false_negative: Share = 0.0
) -> list[dict[str, float]]:
    """Pay the difference to (r - false_positive) / (1 - false_positive - false_negative), where r is the reward so far.

    Source: arXiv 2510.00915, backward correction. If a verifier that pays 1 or 0 errs at these rates, the corrected
    reward averages to the true one. The signs and the noise of group advantages stay as they were; the paper's other
    correction is credit `forward_correction`. List it after `noise`, which makes such errors, or use it alone with a
    verifier that makes them.
    """
    scale = 1 - false_positive - false_negative
    return [{"denoise": (e.reward - false_positive) / scale - e.reward} for e in episodes]
