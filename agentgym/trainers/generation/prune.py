"""Pruned rollouts: end some episodes of a group early so that about half of the others succeed."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt

from agentgym.agents.base import Agent
from agentgym.agents.spec import AGENTS
from agentgym.core.seeding import share
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig, EngineDead
from agentgym.rollout.gate import PRUNED
from agentgym.rollout.play import Job
from agentgym.trainers.data.segments import build
from agentgym.trainers.generation.interface import Generation, Play, generation
from agentgym.trainers.needs.turn_critics.quality import Outcome, Quality, survivors
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

State = npt.NDArray[np.float32]
Choose = Callable[[Sequence[State], Sequence[bool | None]], Sequence[int]]
"""Chooses the waiting episodes that continue, as indices, from their states and the outcomes of the ended episodes."""


def _check(config: "TrainConfig") -> None:
    reason = ""
    if config.agent not in AGENTS:
        reason = f"agent {config.agent!r} plays an attempt as a whole"
    elif config.async_level:
        reason = f"async_level is {config.async_level}: hidden states cannot be read while the weights are being updated"
    elif config.sharded:
        reason = f"sharding is {config.sharding!r}: a process that holds a part of the weights cannot compute hidden states"
    elif config.concurrency < config.group_size:
        reason = (
            f"concurrency is {config.concurrency} and group_size {config.group_size}: the episodes of a group wait for one "
            "another, so all must run at the same time"
        )
    if reason:
        raise BadConfig(f"generation 'prune': {reason}. Use generation 'plain', or set it otherwise")


@dataclass(slots=True)
class _Group:
    """The episodes of one task, which wait for one another before turn `at` + 1."""

    size: int
    at: int
    embed: Callable[[Sequence[Sequence[int]]], list[State]]
    choose: Choose
    states: dict[int, State] = field(default_factory=dict[int, State])
    """Policy's last hidden state at the pruning point, [width] by attempt, for episodes that continued past it."""
    _waiting: dict[int, Sequence[int]] = field(default_factory=dict[int, Sequence[int]])
    _ended: dict[int, bool | None] = field(default_factory=dict[int, bool | None])
    """Success by attempt, for episodes that ended before the pruning point; None after a fault."""
    _last: dict[int, Episode] = field(default_factory=dict[int, Episode])
    _chosen: "asyncio.Future[set[int]] | None" = None

    async def passes(self, attempt: int, episode: Episode, prompt: Callable[[], Sequence[int]]) -> bool:
        """Return True if an episode continues; at the pruning point, wait until the whole group has arrived or ended.

        `prompt` returns the token ids of the episode's next prompt.
        """
        self._last[attempt] = episode
        if len(episode.turns) != self.at or attempt in self._ended or attempt in self._waiting:
            return True  # not at the gate, or replayed after a fault
        if self._chosen is None:
            self._chosen = asyncio.get_running_loop().create_future()
        self._waiting[attempt] = prompt()
        self._choose_if_complete()
        goes_on = attempt in await self._chosen
        if not goes_on:  # a selection may reuse this number for another attempt
            self.states.pop(attempt, None)
        return goes_on

    def left(self, attempt: int) -> None:
        """Record the end of an episode, and choose the episodes that continue if all others have arrived or ended."""
        episode = self._last.get(attempt)
        if episode is not None and episode.fault:  # its replacement may take another path
            self.states.pop(attempt, None)
        if attempt not in self._waiting:
            self._ended[attempt] = None if episode is None else episode.success
            self._choose_if_complete()

    def _choose_if_complete(self) -> None:
        """Choose the episodes that continue, once every episode has arrived or ended."""
        if self._chosen is None or self._chosen.done() or len(self._waiting) + len(self._ended) < self.size:
            return
        try:
            attempts = sorted(self._waiting)
            self.states = dict(zip(attempts, self.embed([self._waiting[n] for n in attempts]), strict=True))
            places = self.choose([self.states[n] for n in attempts], [self._ended[n] for n in sorted(self._ended)])
            self._chosen.set_result({attempts[place] for place in places})
        except Exception as error:  # the policy's error, not an environment's: every episode would fail
            failure = EngineDead(f"generation 'prune' cannot read the policy's states: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self._chosen.set_exception(failure)


@generation("prune", check=_check, embeds=True)
class Prune(Generation):
    """Keep a share `keep` of each group (at least 2) after `turns` turns, so that a share `ratio` of these should succeed.

    Source: ARRoL (arXiv 2603.24840). A quality head, logistic on the policy's last hidden state at the prompt of the
    next turn, predicts each episode's success. Of the running episodes, the most and the least likely to succeed
    continue, in numbers that make the expected success rate closest to `ratio`; episodes that ended before this point
    are kept and counted. The other episodes end here: they are not failures, are neither trained on nor counted, and
    later stages never see them. Logged: `pruned_episodes`, `pruned_tokens` (sampled in them), `quality_outcomes`,
    `quality_error` (mean (p - success)^2 of survivors, predicted by the head before it was fitted to them).
    The head is fitted (`ridge`) in every step to the newest `capacity` outcomes of episodes that reached the pruning
    point, in all processes. Until there are `least` outcomes, with a success and a failure among them, no episode is
    pruned. In a share `whole` of the groups, none is ever pruned: otherwise the head would learn only from its own
    choices. Bias: survivors are not a sample of the policy's episodes. `success_train`, the task sampler's inputs and
    baselines within a group describe the survivors; no weight corrects for it. Evaluations never prune. Differences from
    the paper: the pruning point is a number of turns instead of tokens, and the choice of the extremes is ours, because
    the paper's probabilities were not found.
    """

    def __init__(
        self,
        run: Any,
        *,
        turns: Annotated[int, Within(1, 1_000_000)] = 2,
        keep: Annotated[float, Within(0, 1)] = 0.5,
        ratio: Annotated[float, Within(0, 1)] = 0.5,
        whole: Annotated[float, Within(0, 1)] = 0.1,
        least: Annotated[int, Within(2, 1_000_000)] = 64,
        capacity: Annotated[int, Within(2, 10_000_000)] = 1024,
        ridge: Annotated[float, Within(1e-6, 1e6)] = 1.0,
    ) -> None:
        super().__init__(run)
        self.turns, self.keep, self.ratio, self.whole = turns, keep, ratio, whole
        self.least, self.capacity, self.ridge = least, capacity, ridge
        self.outcomes: list[Outcome] = []
        self._groups: dict[str, _Group] = {}
        self._pruned: list[Episode] = []

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        """Play the jobs and return the episodes that were not pruned."""
        head = self._head()
        sizes = Counter(job.group_id for job in jobs)
        gates = {name: self._gate(name, size, head, step) for name, size in sizes.items() if self._fits(size)}
        self._groups |= gates
        played = await play(agents, [replace(job, gate=gates.get(job.group_id)) for job in jobs])
        self._pruned += [episode for episode in played if episode.reason == PRUNED]
        return [episode for episode in played if episode.reason != PRUNED]

    def _fits(self, size: int) -> bool:
        """Return True if all episodes of a group can run at the same time; else they would wait for one another forever."""
        return size <= self.run.config.concurrency

    def _head(self) -> Quality | None:
        if len(self.outcomes) < self.least or len({success for _, success in self.outcomes}) < 2:
            return None
        return Quality(self.outcomes, ridge=self.ridge)

    def _gate(self, group: str, size: int, head: Quality | None, step: int) -> _Group:
        spared = head is None or share("prune", self.run.config.seed, step, group) < self.whole

        def choose(states: Sequence[State], ended: Sequence[bool | None]) -> Sequence[int]:
            if spared or head is None or not states:
                return range(len(states))
            number = max(math.ceil(self.keep * size), 2) - len(ended)  # a group of one has no signal
            known = [success for success in ended if success is not None]
            return survivors(head.chances(states), max(number, 0), known, self.ratio)

        return _Group(size, self.turns, self._embed, choose)

    def _embed(self, prompts: Sequence[Sequence[int]]) -> list[State]:
        """Return the policy's last hidden states at the ends of prompts, [width] each."""
        if not prompts:
            return []
        room = getattr(self.run.learner.engine, "context", None) or math.inf
        cut = [list(ids if len(ids) < room else ids[-int(room) + 1 :]) for ids in prompts]
        contexts = [Episode("", "", "", 0, turns=[Turn("", prompt_ids=ids, output_ids=[0])]) for ids in cut]
        return [states[0] for states in self.run.learner.embed(build(contexts), alone=True)]

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        """Store the outcomes of the survivors of all processes that reached the pruning point, and return the metrics.

        The next step fits the quality head to the stored outcomes.
        """
        head = self._head()
        fresh: list[Outcome] = []
        for episode in episodes:
            gate = self._groups.get(episode.group_id)
            state = None if gate is None else gate.states.get(episode.attempt)
            if state is not None and episode.success is not None:
                fresh.append((state.tobytes(), episode.success))
        everybodys: list[Outcome] = self.run.gather(fresh)
        error = 0.0
        if head is not None and everybodys:
            chances = head.chances([np.frombuffer(state, dtype=np.float32) for state, _ in everybodys])
            pairs = zip(chances, everybodys, strict=True)
            error = float(np.mean([(chance - success) ** 2 for chance, (_, success) in pairs]))
        pruned, self._pruned, self._groups = self._pruned, [], {}
        self.outcomes = [*self.outcomes, *everybodys][-self.capacity :]
        return {
            "pruned_episodes": float(len(pruned)),
            "pruned_tokens": float(sum(turn.sampled for episode in pruned for turn in episode.turns)),
            "quality_outcomes": float(len(fresh)),
            "quality_error": error / len(self.run.gather([0])),  # the same in every process
        }

    def state_dict(self) -> dict[str, object]:
        """Return the outcomes, which determine the head."""
        return {"outcomes": list(self.outcomes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the outcomes."""
        self.outcomes = [(bytes(row), bool(success)) for row, success in state["outcomes"]]
