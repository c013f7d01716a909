"""Groups whose episodes branch off from one another, round by round, and how a branch becomes an episode of its own."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig
from agentgym.rollout.play import Job, Start
from agentgym.rollout.pool import RolloutPool

Progress = Callable[[Episode], None]


@dataclass(frozen=True, slots=True)
class Branch:
    """Episodes to play: on from before a turn (counted from 0) of an attempt, or from the beginning of the task."""

    number: int = 1
    attempt: int | None = None
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Growth:
    """A group of episodes that is being played."""

    size: int
    """How many episodes it will have."""
    left: int
    """How many of them are still to be played."""
    episodes: Sequence[Episode]
    """What was played so far, infrastructure errors left out."""
    new: Sequence[Episode]
    """Those of them that the last round brought."""
    rounds: int
    """How many rounds there were that brought an episode: one of infrastructure errors alone does not count."""
    chance: np.random.Generator
    """All chance of the decision comes from it: it depends on seed, step, group and round."""

    def taken(self, episode: Episode) -> dict[int, int]:
        """Return by turn how many branches left the path of an episode there so far, its own included."""
        counts: dict[int, int] = {}
        for other in self.episodes:
            for attempt, turn, _ in other.forks[-1:]:
                if turn <= len(episode.turns) and episode.origin_of(turn - 1) == attempt:
                    counts[turn] = counts.get(turn, 0) + 1
        return counts


class Branching(Protocol):
    """Says what is played next of a group."""

    name: str

    def __call__(self, growth: Growth, *, step: int) -> Sequence[Branch]:
        """Return episodes to play; for an empty list the rest of the group begins at the beginning of the task."""
        ...


class Player(Protocol):
    """Plays the jobs of a step, in order."""

    pool: RolloutPool

    @property
    def seed(self) -> int:
        """All chance of the run comes from it."""
        ...

    async def play(
        self, agents: Mapping[str, Any], jobs: Sequence[Job], progress: Progress | None = None, rank: int = -1
    ) -> list[Episode]:
        """Return their episodes; of several steps at a time the lower rank goes first."""
        ...


class Grower:
    """Plays groups round by round, as a branching asks for them."""

    def __init__(self, player: Player, branching: Branching) -> None:
        self.player, self.branching = player, branching
        self.lost = 0
        """Branches that could not be played, since their turn was not reached again; since the last `take_lost`."""

    def take_lost(self) -> int:
        """Return how many branches were lost since the last call."""
        lost, self.lost = self.lost, 0
        return lost

    async def grow(
        self, agents: Mapping[str, Any], jobs: Sequence[Job], step: int, progress: Progress | None
    ) -> list[Episode]:
        """Play the jobs of one group, in order; some begin inside the episode of another."""
        if jobs[0].start is not None:
            raise BadConfig(
                f"task {jobs[0].task.id!r} was drawn with a start, and branching {self.branching.name!r} goes through "
                "episodes from the beginning of their task: use a task sampler without starts, or no branching"
            )
        played: list[Episode] = []
        new: list[Episode] = []
        rounds = 0
        while len(played) < len(jobs):
            chance = generator("branching", self.player.seed, step, jobs[0].group_id, rounds)
            good = [episode for episode in played if not episode.fault]
            growth = Growth(len(jobs), len(jobs) - len(played), good, [e for e in new if not e.fault], rounds, chance)
            branches: list[Branch] = list(self.branching(growth, step=step))
            origins = await self._origins(agents, jobs[0], branches, growth)
            if not origins:
                origins = [None] * growth.left
            new = await self._play(agents, jobs[len(played) :][: len(origins)], origins, step, progress)
            played += new
            rounds += any(not episode.fault for episode in new)  # else it is asked again, as if there had been none
        return played

    async def _origins(
        self, agents: Mapping[str, Any], job: Job, branches: Sequence[Branch], growth: Growth
    ) -> list[tuple[Episode, int, Start] | None]:
        """Return where each episode of a round begins: parent, turn and start, or None for the beginning of the task."""
        wanted: list[tuple[Episode, int] | None] = []
        for branch in branches:
            origin = None if branch.attempt is None or branch.turn == 0 else self._parent(branch, growth)
            wanted += [origin] * branch.number
        wanted = wanted[: growth.left]
        turns: dict[int, set[int]] = {}
        parents = {parent.attempt: parent for parent, _ in filter(None, wanted)}
        for parent, turn in filter(None, wanted):
            turns.setdefault(parent.attempt, set()).add(turn)
        question = [(job.task, parents[attempt], sorted(turns[attempt])) for attempt in turns]
        reached = await self.player.pool.starts(agents[job.env], job.env, question) if question else []
        starts = dict(zip(turns, reached, strict=True))
        origins: list[tuple[Episode, int, Start] | None] = []
        for origin in wanted:
            if origin is None:
                origins.append(None)
            elif start := starts[origin[0].attempt].get(origin[1]):
                origins.append((*origin, start))
            else:
                self.lost += 1
        return origins

    def _parent(self, branch: Branch, growth: Growth) -> tuple[Episode, int]:
        """Return the episode that a branch leaves: of a turn that it shares with another, that other one."""
        by_attempt = {episode.attempt: episode for episode in growth.episodes}
        parent = by_attempt.get(-1 if branch.attempt is None else branch.attempt)
        if parent is None or not 0 <= branch.turn < len(parent.turns):
            raise BadConfig(
                f"branching {self.branching.name!r} asked for turn {branch.turn} of attempt {branch.attempt}; expected an "
                f"attempt of {sorted(by_attempt)} and one of its turns, counted from 0"
            )
        return by_attempt.get(parent.origin_of(branch.turn - 1), parent), branch.turn

    async def _play(
        self,
        agents: Mapping[str, Any],
        jobs: Sequence[Job],
        origins: Sequence[tuple[Episode, int, Start] | None],
        step: int,
        progress: Progress | None,
    ) -> list[Episode]:
        begun = [job if origin is None else replace(job, start=origin[2]) for job, origin in zip(jobs, origins, strict=True)]
        episodes = await self.player.play(agents, begun, progress, step)
        for episode, origin in zip(episodes, origins, strict=True):
            if origin is not None:
                graft(episode, origin[0], origin[1])
        return episodes


async def together(growing: Iterable[Coroutine[Any, Any, list[Episode]]]) -> list[list[Episode]]:
    """Return what grows beside one another; the first failure ends them all."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(item) for item in growing]
    except BaseExceptionGroup as failure:
        raise failure.exceptions[0] from failure
    return [task.result() for task in tasks]


def graft(episode: Episode, parent: Episode, turn: int) -> None:
    """Put the first turns of another attempt, as copies, before those of an episode that went on from there."""
    own, episode.turns, episode.forks = episode.turns, [], []
    for attempt, end, seed in [*parent.forks, [parent.attempt, turn, parent.seed]]:
        if not episode.forks or episode.forks[-1][1] < turn:
            episode.forks.append([attempt, min(end, turn), seed])
    for before in parent.turns[:turn]:
        episode.add(_copied(before))
    for after in own:
        episode.add(after)
    episode.reward = sum((item.reward for item in episode.turns), 0.0)


def _copied(turn: Turn) -> Turn:
    notes = [_copied(note) for note in turn.notes]
    return replace(turn, extra=dict(turn.extra), rewards=dict(turn.rewards), notes=notes)
