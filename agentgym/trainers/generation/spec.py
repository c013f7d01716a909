"""Speculative rollouts: reuse a task's earlier replies as far as the current policy would have sampled them."""

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
    """Use the previous episode's replies at the same task and attempt as drafts, as far as the policy accepts them.

    Source: SPEC-RL (arXiv 2509.23232). A token x that was drawn with probability q is kept with probability min(1,
    lenience * p(x) / q(x)), where p is the current policy's; from the first rejected token on, the policy samples. A
    turn has a draft only if its prompt equals that of the earlier episode token for token: the environment then repeats
    its answers, and after the first difference there are no more drafts. Recorded log-probabilities are those of the
    current policy, also for kept tokens.
    With `known` above 0, the `known` likeliest tokens of q are stored with each token. The token after the last kept
    one is then drawn from the remainder of p, and for `lenience` up to 1 each reply is distributed exactly as p, given
    that the draft was drawn from q. (Weights that were trained on the draft depend on it; no check of tokens can undo
    that.) With `known` 0, as published, that token is drawn from p itself. A token then follows m + (1 - b) p, where m
    = min(q, lenience p) and b is its sum: for `lenience` up to 1 this is within b (1 - b) of p in total variation, at
    most 1/4. A `lenience` above 1 keeps more, and replies no longer follow the current policy.
    The newest episode of each task and attempt is kept, at most `capacity` of them, also in the checkpoint. Logged:
    `draft_tokens` (offered), `draft_tokens_kept`.
    Differences from the paper, which verifies whole single-turn responses: drafts per turn, on condition of an equal
    prompt, and `known` are ours.
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
        self.replies: dict[str, Packed] = {}
        """Replies of the newest episode, by environment, task and attempt."""
        self._engines: list[tuple[int, Drafting]] = []
        """(step, engine) of the steps in progress."""

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        """Play the jobs, with drafts if there are any."""
        pairs = [
            (f"{job.group_id}#{job.attempt}", self.replies.get(_key(job.env, job.task.id, job.attempt))) for job in jobs
        ]
        earlier = {episode: unpacked(replies) for episode, replies in pairs if replies}
        engine = Drafting(next(iter(agents.values())).engine, earlier, self.lenience, self.known)
        self._engines.append((step, engine))
        return await play({name: _with(agent, engine) for name, agent in agents.items()}, jobs)

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        """Store the replies of all processes' faultless episodes, and return the metrics.

        Every process stores them, because a task may be assigned to another process next time.
        """
        engines = [engine for of, engine in self._engines if of <= step]
        self._engines = [pair for pair in self._engines if pair[0] > step]  # steps played ahead
        fresh: list[tuple[str, Packed]] = []
        for episode in episodes:
            replies = [reply for engine in engines for reply in engine.of(episode)]
            if replies and not episode.fault:
                key = _key(self.run.env_name(episode), episode.task_id, episode.attempt)
                fresh.append((key, packed(replies)))
        for key, replies in self.run.gather(fresh):
            self.replies.pop(key, None)
            self.replies[key] = replies  # the newest at the end
        while len(self.replies) > self.capacity:
            del self.replies[next(iter(self.replies))]
        return {
            "draft_tokens": float(sum(engine.offered for engine in engines)),
            "draft_tokens_kept": float(sum(engine.accepted for engine in engines)),
        }

    def state_dict(self) -> dict[str, object]:
        """Return the stored replies."""
        return {"kept": dict(self.replies)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the replies."""
        self.replies = dict(state["kept"])


def _key(env: str, task: str, attempt: int) -> str:
    return json.dumps([env, task, attempt])


def _with(agent: Any, engine: Drafting) -> Any:
    """Return a copy of an agent with another engine."""
    other = copy.copy(agent)
    other.engine = engine
    other.resample({})  # so that its variants use that engine too
    return other
