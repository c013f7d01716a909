"""Offline training: stored episodes in place of new ones."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from agentgym.agents.base import Agent
from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.registry import full_id
from agentgym.rollout.play import Job
from agentgym.trainers.generation.interface import Generation, Play, generation
from agentgym.trainers.seam import CALLER

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


def _check(config: "TrainConfig") -> None:
    """Check that a step can be made of stored episodes.

    Raises:
        BadConfig: the settings do not go together, or the file cannot be read or has no usable episode.
    """
    from agentgym.trainers.credit.interface import CREDITS

    file = config.generation_options.get("file")
    if not isinstance(file, str) or not file:
        return  # the missing option is reported with the others
    if config.async_level:
        raise BadConfig(f"async_level is {config.async_level}, but generation 'stored' overlaps nothing: leave it at 0")
    if config.task_queue:
        raise BadConfig("task_queue balances episodes of unequal length, but generation 'stored' plays none: leave it out")
    credit = CREDITS.resolve(config.credit, config.credit_options)
    if credit.attributes["scope"] != "batch" or not credit.attributes["uniform"]:
        raise BadConfig(
            f"generation 'stored' puts episodes of different tasks into a group, and credit {config.credit!r} compares the "
            "attempts of a group at one task; use archer, turn_gae, reinforce_pp or another credit over the whole step"
        )
    _episodes(file, config)


def _episodes(file: str, config: "TrainConfig") -> list[Episode]:
    """Return the episodes of a file in the run's environments.

    Raises:
        BadConfig: the file cannot be read or has none.
    """
    from agentgym.trainers.data.stored import Filter, read_files

    names = {full_id(spec.id) for spec in config.mix}
    episodes = [episode for episode in read_files([file], Filter())[0] if full_id(episode.env) in names]
    if not episodes:
        raise BadConfig(f"{file} has no episode of {', '.join(sorted(names))}, the run's environments")
    return episodes


@generation("stored", check=_check)
class Stored(Generation):
    """Train offline: each attempt of a step is an episode drawn from `file`, and no environment is played.

    Source of the setting: LMRL-Gym (arXiv 2311.18232). Its offline baselines are filtered behavior cloning (`agentgym sft
    --success`), Monte Carlo returns (a credit of returns with loss `awr`) and ILQL (need `turn_q` with an `expectile`
    above 0.5, credit `archer`, loss `awr`). The paper's values belong to tokens and shift the logits during sampling;
    here they belong to turns and weight the imitation.

    Draws are independent and uniform, a function of the run's seed, the draw (task, epoch and label) and the attempt. A
    group contains episodes of different tasks, so the credit must work on the whole step. Success and reward in training
    are the file's. The policy's log-probabilities before the update replace the stored ones, so importance ratios start
    at 1. Evaluations play as always. Logged: `stored_episodes`.
    """

    def __init__(self, run: Any, *, file: Annotated[str, CALLER]) -> None:
        """Read the file's episodes in the run's environments; episodes without token ids are encoded for the policy.

        Raises:
            BadConfig: an episode has tokens that the policy does not have.
            BadData: a text cannot be encoded.
        """
        from agentgym.trainers.data.stored import Encoder

        super().__init__(run)
        encode = Encoder(run.config.spec, run.learner.engine, run.learner.tokenizer)
        episodes = [encode(episode) for episode in _episodes(file, run.config)]
        ids = (id for episode in episodes for turn in episode.turns for id in (*turn.prompt_ids, *turn.output_ids))
        if (largest := max(ids)) >= (size := len(run.learner.tokenizer)):
            raise BadConfig(
                f"{file} has token {largest}, and the policy's vocabulary has {size}: another model played these episodes"
            )
        self.texts = [episode.to_json() for episode in episodes]  # a copy for each draw: stages write into episodes

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        from agentgym.trainers.selections.mixing import stand_in

        episodes = [self._drawn(job) for job in jobs]
        stand_in(episodes, self.run)
        return episodes

    def _drawn(self, job: Job) -> Episode:
        place = generator("stored", job.seed, job.task.id, job.attempt).integers(len(self.texts))
        episode = Episode.from_json(self.texts[int(place)])
        episode.group_id, episode.attempt = job.group_id, job.attempt
        return episode

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        return {"stored_episodes": float(len(episodes))}
