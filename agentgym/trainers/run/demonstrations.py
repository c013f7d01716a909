"""Expert episodes in the agent's tokens: for the SFT warm start, for starts inside an episode, and for failed groups."""

import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agentgym.agents.demonstrator import Demonstrator
from agentgym.agents.policies import Noise
from agentgym.core.seeding import derive
from agentgym.episodes.episode import Episode
from agentgym.rollout.draw import Draw
from agentgym.rollout.play import Job, Start
from agentgym.trainers.run import sft
from agentgym.trainers.run.rollouts import Rollouts
from agentgym.trainers.samplers.interface import dealt


class Demonstrations:
    """Plays the expert in the environments of a run; the results include faults and failures."""

    def __init__(self, rollouts: Rollouts) -> None:
        self.rollouts, self.config = rollouts, rollouts.config

    def draws(self, position: int) -> list[Draw]:
        """Return the tasks of an update of the SFT warm start; environments take turns according to their weights."""
        batch, sources = self.config.sft_batch, self.rollouts.sources()
        if len(sources) == 1:
            first = position * batch + (0 if sources[0].finite else sft.FIRST_TASK)
            return sources[0].at(range(first, first + batch), "demonstrations")
        turns = dealt({source.name: source.weight for source in sources}, (position + 1) * batch)
        draws: list[Draw] = []
        for place, name in list(enumerate(turns))[position * batch :]:
            source = next(source for source in sources if source.name == name)
            number = turns[:place].count(name) + (0 if source.finite else sft.FIRST_TASK)
            draws += source.at([number], "demonstrations")
        return draws

    async def batch(self, draws: Sequence[Draw], position: int) -> list[Episode]:
        """Play the draws of an update of the SFT warm start, with the configured mistakes (`sft_noise`, …)."""
        config, seed = self.config, derive("demonstrate", self.config.seed, position)
        noise = Noise(config.sft_noise, config.sft_invalid, config.sft_forget, masked=config.sft_masked)
        jobs = [job for draw in draws for job in self.rollouts.jobs(replace(draw, attempts=1), seed, "")]
        return await self.play(jobs, noise)

    async def play(self, jobs: Sequence[Job], noise: Noise | None = None) -> list[Episode]:
        """Play jobs with the expert, and record the tokens that the agent would read and write."""
        agents = self.rollouts.agents(self.config.temperature)
        return await self.rollouts.play({name: Demonstrator(agent, noise) for name, agent in agents.items()}, jobs)

    async def starts(self, draws: Sequence[Draw], back: Sequence[int], step: int) -> list[Start | None]:
        """Play each draw with the expert and return the state `back` (per draw) turns before the end, as the agent's start.

        A start is None if the demonstration is too short or failed: the agent then starts at the beginning of the task.
        """
        return [start for start, _ in await self.judged_starts(draws, back, step)]

    async def judged_starts(self, draws: Sequence[Draw], back: Sequence[int], step: int) -> list[tuple[Start | None, bool]]:
        """Like `starts`, but return (start, True if the demonstration succeeded) for each draw."""
        seed, prefix = derive("starts", self.config.seed, step), f"{step + 1}/demonstration/"
        jobs = [
            replace(job, moments=deque(maxlen=turns))
            for draw, turns in zip(draws, back, strict=True)
            for job in self.rollouts.jobs(replace(draw, attempts=1), seed, prefix, step)
        ]
        episodes = await self.play(jobs)
        if episodes and not any(episode.success for episode in episodes):
            warnings.warn(
                f"none of {len(episodes)} demonstrations of step {step + 1} succeeded, so its tasks are played from their "
                f"beginning; the first ended with {episodes[0].reason!r}: {str(episodes[0].error).strip()[-200:]}",
                stacklevel=2,
            )
        succeeded = [episode.success is True for episode in episodes]
        return [
            (_undemonstrated(job.moments[0]) if job.moments and success and len(episode.turns) > turns else None, success)
            for job, episode, success, turns in zip(jobs, episodes, succeeded, back, strict=True)
        ]


def _undemonstrated(start: Start) -> Start:
    """Return a start inside a demonstration with the agent's conversations in place of the expert's."""
    talks: dict[str, Any] = dict(start.conversations)
    return Start(start.snapshot, {role: talk.talk for role, talk in talks.items()})
