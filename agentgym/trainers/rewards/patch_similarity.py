"""The reward `patch_similarity`: pay the similarity of a patch to the reference patch, and punish a missing patch."""

from collections.abc import Sequence
from typing import Annotated

from agentgym.core.env import TextEnv
from agentgym.envs.swe.predictions import patch_of
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.rewards.interface import reward
from agentgym.trainers.seam import Within

MEASURE = "similarity"


def _fits(env: TextEnv, name: str) -> None:
    """Check that an environment measures the similarity of patches and does not already pay for it.

    Raises:
        BadConfig: the environment does not measure the similarity, or already pays for it.
    """
    env.reset(seed=0)
    if MEASURE not in env.measures():
        raise BadConfig(
            f"reward 'patch_similarity' pays by the measure {MEASURE!r}, which {name} does not have; it is for rlvr/SWE-v0"
        )
    if MEASURE in env.shaping:
        raise BadConfig(f"reward 'patch_similarity' with shaping of {MEASURE!r} in {name} would pay it twice; leave one out")


@reward("patch_similarity", fits=_fits)
def patch_similarity(
    episodes: Sequence[Episode], *, weight: Annotated[float, Within(0, 0.99)] = 0.5
) -> list[dict[str, float]]:
    """Pay `weight` times the similarity of the submitted patch to the reference patch, and -`weight` without a patch.

    Source: SWE-RL, arXiv 2502.18449: difflib's ratio between the two patches (`agentgym.envs.swe.similarity`), and -1
    for a reply in the wrong form. Here the wrong form is an episode that ends without a patch: nothing changed, the
    patch is too long, or it was never submitted. With the environment's `grading="patch"`, no tests are run. The weight
    stays below 1, so no failure earns as much as a success.
    """
    return [{"patch_similarity": weight * _earned(episode)} for episode in episodes]


def _earned(episode: Episode) -> float:
    if MEASURE not in episode.metrics and episode.reason in ("success", "failure") and not episode.error:
        raise BadConfig(
            f"reward 'patch_similarity': an episode of {episode.env} has no measure {MEASURE!r}; it is for rlvr/SWE-v0, "
            "without shaping of it"
        )
    return episode.metrics.get(MEASURE, 0.0) if patch_of(episode) else -1.0
