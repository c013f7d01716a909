"""The reward `noise`: simulate the errors of a verifier, to study their effect on training."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.core.seeding import share
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within


def check(*, false_positive: float, false_negative: float, **_: object) -> None:
    """Check that at least one rate is above 0.

    Raises:
        BadConfig: both rates are 0.
    """
    if not false_positive and not false_negative:
        raise BadConfig(
            "reward 'noise' flips nothing: false_positive and false_negative are 0; give one, for example "
            "--reward.noise.false_negative 0.1"
        )


@reward("noise", check=check)
def noise(
    episodes: Sequence[Episode],
    *,
    false_positive: Annotated[float, Within(0, 1)] = 0.0,
    false_negative: Annotated[float, Within(0, 1)] = 0.0,
    seed: Annotated[int, Within(0)] = 0,
) -> list[dict[str, float]]:
    """Flip the outcome reward of some episodes: a failure gets 1, a success loses its 1.

    A failure is flipped with probability `false_positive`, a success with probability `false_negative`. The draw
    depends on `seed` and on the episode's own seed, task and attempt. The success of an episode, and therefore every
    measured success rate, does not change.
    """
    return [_flipped(episode, false_positive, false_negative, seed) for episode in episodes]


def _flipped(episode: Episode, false_positive: float, false_negative: float, seed: int) -> dict[str, float]:
    drawn = share("noise", seed, episode.seed, episode.task_id, episode.attempt)
    if episode.success:
        return {"noise": -1.0 if drawn < false_negative else 0.0}
    return {"noise": 1.0 if drawn < false_positive else 0.0}
