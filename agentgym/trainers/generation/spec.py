"""Speculative rollouts: what a task's earlier episodes said is kept as far as the present policy would have said it."""

import copy
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from agentgym.agents.base import Agent
from agentgym.agents.spec import AGENTS
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.drafted import Drafting, Packed, packed, unpacked
from agentgym.rollout.play import Job
from agentgym.trainers.generation.interface import Generation, Play, generation
from agentgym.trainers.seam import Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


def _check(config: "TrainConfig") -> None:
    if not config.engine_kind.drafts:
        raise BadConfig(
            f"generation 'spec' with engine {config.engine!r}: that engine cannot check an earlier reply against its "
            "weights; use engine 'hf', or generation 'plain'"
        )
    if config.agent not in AGENTS:
        raise BadConfig(
            f"generation 'spec' with agent {config.agent!r}: an external agent calls the engine itself; use generation "
            "'plain'"
        )


@generation("spec", requires=("repeats",), check=_check)
class Spec(Generation):
    """Each turn begins with what the last episode at this task and attempt said there, as far as the policy accepts it.

    Source: SPEC-RL (arXiv 2509.23232). A token x that was drawn with probability q is kept with probability
    min(1, lenience * p(x) / q(x)), p the present policy's; from the first that is not, the policy goes on by itself. A turn
    has a draft only where its prompt is token for token that of the earlier episode: the environment takes the same actions
    again, and once it or the policy answers otherwise there is none. Recorded log-probabilities are those of the present
    policy, also of kept tokens.

    With `known` above 0 the so many likeliest tokens of q are kept beside each token. The token after the last kept one is
    then drawn from what is left of p, and each reply is distributed exactly as p says for `lenience` up to 1, given that
    the draft was drawn from q. (Weights that were trained on the draft are not independent of it, which no check of tokens
    can undo.) With `known` 0, as published, that token is drawn from p itself. A token then comes from m + (1 - b) p, where
    m = min(q, lenience p) and b is its sum: for `lenience` up to 1 no further than b (1 - b) from p in total variation, 1/4
    at most. A `lenience` above 1 keeps more, and replies are no longer those of the present policy.

    The newest episode at each task and attempt is kept, `capacity` of them at most, in the checkpoint too. Logged:
    `draft_tokens` that were offered, `draft_tokens_kept`.
    Part: the paper verifies whole responses of one turn. Turns, with the prompt as the condition, and `known` are ours.
    """

    def __init__(
        self,
        run: Any,
        *,
        lenience: Annotated[float, Within(0, 1000)] = 1.0,
        known: Annotated[int, Within(0, 10_000)] = 20,
        capacity: Annotated[int, Within(1, 10_000_000)] = 10_000,
    ) -> None:
        super().__init__(run)
        self.lenience, self.known, self.capacity = lenience, known, capacity
        self.kept: dict[str, Packed] = {}
        """By environment, task and attempt, the replies of the newest episode."""
        self._engines: list[tuple[int, Drafting]] = []
        """Of the steps that are not over, each with its step."""

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        """Play the jobs with drafts where there are any."""
        pairs = [(f"{job.group_id}#{job.attempt}", self.kept.get(_key(job.env, job.task.id, job.attempt))) for job in jobs]
        earlier = {episode: unpacked(replies) for episode, replies in pairs if replies}
        engine = Drafting(next(iter(agents.values())).engine, earlier, self.lenience, self.known)
        self._engines.append((step, engine))
        return await play({name: _with(agent, engine) for name, agent in agents.items()}, jobs)

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        """Keep what was said, of all processes: a task may come to another one next time."""
        engines = [engine for of, engine in self._engines if of <= step]
        self._engines = [pair for pair in self._engines if pair[0] > step]  # which are played ahead
        fresh: list[tuple[str, Packed]] = []
        for episode in episodes:
            replies = [reply for engine in engines for reply in engine.of(episode)]
            if replies and not episode.fault:
                key = _key(self.run.env_name(episode), episode.task_id, episode.attempt)
                fresh.append((key, packed(replies)))
        for key, replies in self.run.gather(fresh):
            self.kept.pop(key, None)
            self.kept[key] = replies  # the newest at the end
        while len(self.kept) > self.capacity:
            del self.kept[next(iter(self.kept))]
        return {
            "draft_tokens": float(sum(engine.offered for engine in engines)),
            "draft_tokens_kept": float(sum(engine.kept for engine in engines)),
        }

    def state_dict(self) -> dict[str, object]:
        """Return the kept replies."""
        return {"kept": dict(self.kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with them."""
        self.kept = dict(state["kept"])


def _key(env: str, task: str, attempt: int) -> str:
    return json.dumps([env, task, attempt])


def _with(agent: Any, engine: Drafting) -> Any:
    """Return an agent that asks another engine."""
    other = copy.copy(agent)
    other.engine = engine
    other.resample({})  # its variants have that engine too
    return other
