"""Groups whose episodes branch off from earlier episodes of the group, played in rounds."""

from collections.abc import Callable, Mapping, Sequence
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
    """A request for `number` episodes that start before turn `turn` (from 0) of attempt `attempt`.

    If `attempt` is None or `turn` is 0, the episodes start at the beginning of the task.
    """

    number: int = 1
    attempt: int | None = None
    turn: int = 0


@dataclass(frozen=True, slots=True)
class GroupInProgress:
    """A partly played group of episodes."""

    size: int
    """Final number of episodes."""
    left: int
    """Number of episodes still to be played."""
    episodes: Sequence[Episode]
    """Episodes so far, without infrastructure errors."""
    new: Sequence[Episode]
    """Episodes of the last round, without infrastructure errors."""
    rounds: int
    """Number of finished rounds; a round with only infrastructure errors does not count."""
    chance: np.random.Generator
    """Random generator for the branching decision, seeded by run seed, step, group and round."""

    def branches_by_turn(self, episode: Episode) -> dict[int, int]:
        """Return the number of branches so far by turn (from 0) of an episode, including the one that made the episode."""
        counts: dict[int, int] = {}
        for other in self.episodes:
            for attempt, turn, _ in other.forks[-1:]:
                if turn <= len(episode.turns) and episode.origin_of(turn - 1) == attempt:
                    counts[turn] = counts.get(turn, 0) + 1
        return counts


class Branching(Protocol):
    """Decides where the next episodes of a group start."""

    name: str

    def __call__(self, growth: GroupInProgress, *, step: int) -> Sequence[Branch]:
        """Return the branches to play next; if empty, the remaining episodes start at the beginning of the task."""
        ...


class Player(Protocol):
    """Plays jobs, one episode for each."""

    pool: RolloutPool

    @property
    def seed(self) -> int:
        """Root seed of the run."""
        ...

    async def play(
        self, agents: Mapping[str, Any], jobs: Sequence[Job], progress: Progress | None = None, rank: int = -1
    ) -> list[Episode]:
        """Return the jobs' episodes, in order. If several steps play at once, the lowest `rank` goes first."""
        ...


class BranchingPlayer:
    """Plays groups in rounds, as a `Branching` requests."""

    def __init__(self, player: Player, branching: Branching) -> None:
        self.player, self.branching = player, branching
        self.lost = 0
        """Number of branches since the last `take_lost` that were not played, because a replay did not reach their turn."""

    def take_lost(self) -> int:
        """Return the number of branches lost since the last call."""
        lost, self.lost = self.lost, 0
        return lost

    async def grow(
        self, agents: Mapping[str, Any], jobs: Sequence[Job], step: int, progress: Progress | None
    ) -> list[Episode]:
        """Play the jobs of one group and return their episodes in order; some start inside another episode.

        Raises:
            BadConfig: the task was drawn with a start, or the branching requests an attempt or a turn that does not exist.
        """
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
            growth = GroupInProgress(
                len(jobs), len(jobs) - len(played), good, [e for e in new if not e.fault], rounds, chance
            )
            branches: list[Branch] = list(self.branching(growth, step=step))
            origins = await self._origins(agents, jobs[0], branches, growth)
            if not origins:
                origins = [None] * growth.left
            new = await self._play(agents, jobs[len(played) :][: len(origins)], origins, step, progress)
            played += new
            rounds += any(not episode.fault for episode in new)  # else the round is repeated
        return played

    async def _origins(
        self, agents: Mapping[str, Any], job: Job, branches: Sequence[Branch], growth: GroupInProgress
    ) -> list[tuple[Episode, int, Start] | None]:
        """Return the origin of each episode of a round: parent, turn and start, or None for the beginning of the task.

        A branch whose turn the replay does not reach is left out and counted in `lost`.
        """
        requested: list[tuple[Episode, int] | None] = []
        for branch in branches:
            origin = None if branch.attempt is None or branch.turn == 0 else self._parent(branch, growth)
            requested += [origin] * branch.number
        requested = requested[: growth.left]
        turns: dict[int, set[int]] = {}
        parents = {parent.attempt: parent for parent, _ in filter(None, requested)}
        for parent, turn in filter(None, requested):
            turns.setdefault(parent.attempt, set()).add(turn)
        question = [(job.task, parents[attempt], sorted(turns[attempt])) for attempt in turns]
        reached = await self.player.pool.starts(agents[job.env], job.env, question) if question else []
        starts = dict(zip(turns, reached, strict=True))
        origins: list[tuple[Episode, int, Start] | None] = []
        for origin in requested:
            if origin is None:
                origins.append(None)
            elif start := starts[origin[0].attempt].get(origin[1]):
                origins.append((*origin, start))
            else:
                self.lost += 1
        return origins

    def _parent(self, branch: Branch, growth: GroupInProgress) -> tuple[Episode, int]:
        """Return the episode that a branch starts from, and the turn.

        If that episode inherited the turn from another attempt, the attempt that played it is returned instead.

        Raises:
            BadConfig: the attempt or the turn does not exist.
        """
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


def graft(episode: Episode, parent: Episode, turn: int) -> None:
    """Prepend copies of the parent's first `turn` turns to an episode that continued from that point.

    The episode's forks and reward then include those turns.
    """
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
