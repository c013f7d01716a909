"""One episode of an agent in an environment, turn by turn, with all failures."""

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentgym.agents.base import Agent, Conversation, consult, forked, hinted, redrawn, sampled
from agentgym.core.actions import Tool
from agentgym.core.env import Snapshot, Task
from agentgym.core.hints import Hint, hint_text
from agentgym.core.outcome import Finish, Info
from agentgym.core.seeding import derive
from agentgym.episodes.episode import FAULTS, Episode
from agentgym.errors import BadConfig, EngineDead, Fault, Reason
from agentgym.rollout.faults import TurnRequest, take_turn
from agentgym.rollout.gate import PRUNED, Gate
from agentgym.rollout.hosted import HostedEnv
from agentgym.rollout.limits import ends_more

ENDS = {Finish.CONTEXT: Reason.CONTEXT, Finish.SILENT: Reason.FAILURE, Finish.REFUSED: Reason.FAILURE}
"""Maps `Turn.finish` to the reason of the episode, for values after which an episode cannot continue."""


@dataclass(frozen=True, slots=True)
class Start:
    """A branch point: the state of an episode from which other episodes can continue."""

    snapshot: Snapshot
    conversations: Mapping[str, Conversation] = field(default_factory=dict[str, Conversation])
    """The agent's conversations at this point, by role; new episodes get forks. If empty, each new episode begins
    new conversations."""


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at one task, with everything that determines its course."""

    task: Task
    attempt: int
    seed: int
    group_id: str
    env: str = ""
    """Name of the environment in the pool."""
    horizon: int | None = None
    """Maximum turns; None for the environment's default."""
    start: Start | None = None
    """Start of the episode; None for the beginning of the task."""
    sampling: Mapping[str, object] = field(default_factory=dict[str, object])
    """Sampling settings that override the agent's, such as the temperature."""
    hint: Hint | None = None
    """Hint that the agent sees from the start; None for no hint, as in every evaluation."""
    moments: deque[Start] | None = None
    """Receives the branch point before each turn, from which other episodes may start; None if unused."""
    gate: Gate | None = None
    """Decides before each turn if the episode continues; None to always continue."""
    opponents: Mapping[str, Agent] = field(default_factory=dict[str, Agent])
    """Agents for the roles that `agent` does not play, by role; their tokens are never trained."""

    @property
    def env_seed(self) -> int:
        """Seed of the environment: a function of run seed, task and attempt."""
        return derive("world", self.seed, self.task.id, self.attempt)

    def turn_seed(self, turn: int) -> int:
        """Return the seed of the reply at a turn (from 0)."""
        return derive("reply", self.seed, self.task.id, self.attempt, turn)


class Lockstep:
    """A barrier at every turn: each episode waits for the slowest, as in lockstep trainers."""

    def __init__(self) -> None:
        self.members = 0
        self.waiting: list[asyncio.Future[None]] = []

    def join(self) -> None:
        """Become a participant."""
        self.members += 1

    def leave(self) -> None:
        """Stop being a participant."""
        self.members -= 1
        self._open_if_full()

    async def wait(self) -> None:
        """Wait until every participant has called this."""
        future = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        self._open_if_full()
        await future

    def _open_if_full(self) -> None:
        if self.waiting and len(self.waiting) >= self.members:
            waiting, self.waiting = self.waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)


async def attempt(hosted: HostedEnv, agent: Agent, job: Job, step_seconds: float, lockstep: Lockstep | None) -> Episode:
    """Play one episode; a failure is recorded as the episode's reason.

    Raises:
        BadConfig: no episode could be played with this configuration.
        EngineDead: the engine is permanently unavailable.
        BaseException: an error that must end more than this episode, such as the user's Ctrl-C; see `ends_more`.
    """
    agent = sampled(agent, job.sampling) if job.sampling else agent
    episode = blank(job, job.horizon or 0)
    talks: dict[str, Conversation] = {}
    if job.moments is not None:
        job.moments.clear()  # of an earlier attempt that was a fault
    try:
        if job.start is None:
            options: dict[str, object] = {"task": job.task, **({"horizon": job.horizon} if job.horizon else {})}
            observation, info = await hosted.reset(job.env_seed, options, step_seconds)
        else:
            observation, info = await hosted.restore(job.start.snapshot, job.env_seed, step_seconds)
            talks = {role: redrawn(talk.fork(), job.sampling) for role, talk in job.start.conversations.items()}
        episode.hint = await _hint_text(hosted, job, talks)
        episode.horizon = hosted.status.limit
        await play(hosted, agent, talks, job, episode, (observation, info), step_seconds, lockstep)
    except (BadConfig, EngineDead):  # every other episode would fail too
        raise
    except Fault as fault:
        episode.reason, episode.error, episode.success = fault.reason, str(fault), None
    except BaseException as error:
        if ends_more(error):
            raise
        # the rollout boundary: a bug in an environment or an agent ends that episode alone
        episode.reason, episode.error, episode.success = Reason.CRASH, traceback.format_exc(limit=8), None
    finally:
        if job.gate is not None:
            job.gate.left(job.attempt)
        for role in dict.fromkeys(turn.role for turn in episode.turns):
            if (engine := job.opponents.get(role, agent).engine) is not None:
                engine.abort(_session(job, role))
    return episode


async def play(
    hosted: HostedEnv,
    agent: Agent,
    talks: dict[str, Conversation],
    job: Job,
    episode: Episode,
    seen: tuple[str, Info],
    step_seconds: float,
    lockstep: Lockstep | None,
) -> None:
    """Play an episode from the current observation to its end, adding each turn to `episode`.

    `talks` are the conversations by role; `seen` is the current observation and info.
    """
    observation, info = seen
    first = job.opponents.get(hosted.status.role, agent)
    over, opening = False, partial(_opening, first, job.task, hosted.status.tools, observation, info)
    while not over:
        started = time.perf_counter()
        role, tools = hosted.status.role, hosted.status.tools
        actor, hint = (job.opponents[role], None) if role in job.opponents else (agent, episode.hint)
        talk = talks.get(role) or talks.setdefault(role, hinted(actor.begin(job.task, tools), hint))
        if job.moments is not None:
            forks = {name: forked(talk, info) for name, talk in talks.items()}
            job.moments.append(Start(await hosted.snapshot(step_seconds), forks))
        if job.gate is not None and not await job.gate.passes(job.attempt, episode, partial(_next, talk, observation, info)):
            episode.reason, episode.success = PRUNED, None
            break
        seed, session = job.turn_seed(len(episode.turns)), _session(job, role)
        turn_request = TurnRequest(observation, info, hosted.env, seed, session)
        turn, talks[role] = await take_turn(actor, talk, turn_request, opening, begun=bool(episode.turns))
        if turn.finish in ENDS:
            episode.reason, episode.success, episode.error = ENDS[turn.finish], False, turn.error
            break
        if "temperature" in job.sampling:  # the trainer has to divide by it
            for call in turn.calls:
                call.extra["temperature"] = agent.sampling.temperature
        if lockstep:
            await lockstep.wait()
        turn.record_observation(observation, info, role)
        observation, reward, terminated, truncated, info = await hosted.step(turn.action, step_seconds)
        turn.record_result(reward, info, time.perf_counter() - started)
        episode.add(turn)
        over = terminated or truncated
        if over:
            episode.reason, episode.success = info["reason"] or "", info["success"]
            episode.error = info["error"] if info["reason"] in (*FAULTS, Reason.FAILURE) else None
        if lockstep:
            await lockstep.wait()
    episode.final_observation, episode.final_state_key = observation, info["state_key"]
    episode.metrics = info["metrics"]
    episode.end(hosted.status.totals, hosted.status.outcomes)


async def _hint_text(hosted: HostedEnv, job: Job, talks: Mapping[str, Any]) -> Hint | None:
    """Return the job's hint with the text that the agent sees; None if there is no hint or its text is empty.

    For a job without a hint that starts at a branch point, return the hint that the conversations show already.

    Raises:
        BadConfig: the job has a hint, and conversations from a branch point.
    """
    if job.hint is None:
        return next((talk.hint for talk in talks.values() if getattr(talk, "hint", None)), None)  # from a branch point
    if talks:
        raise BadConfig(f"task {job.task.id!r} is to begin inside an episode and with a hint: leave one of the two out")
    words = await consult(hosted.env, hint_text, job.hint.level)
    text = "\n\n".join(part for part in (words, job.hint.text) if part)
    return replace(job.hint, text=text) if text else None


def blank(job: Job, horizon: int) -> Episode:
    """Return a new episode for a job, without turns."""
    task = job.task
    labels = {**({"type": str(task.data["type"])} if "type" in task.data else {}), "difficulty": str(task.difficulty)}
    return Episode(
        env=job.env,
        task_id=task.id,
        group_id=job.group_id,
        seed=job.env_seed,
        attempt=job.attempt,
        instruction=task.instruction,
        split=task.split,
        labels=labels,
        horizon=horizon,
    )


def _opening(agent: Agent, task: Task, tools: Mapping[str, Tool], observation: str, info: Info) -> object:
    """Return the first prompt of an episode: tokens, or messages."""
    talk: Any = agent.begin(task, tools)
    return talk.prompt(observation, info)


def _next(talk: Conversation, observation: str, info: Info) -> Sequence[int]:
    """Return the tokens of the agent's next prompt, without sampling."""
    fork: Any = talk.fork()
    return fork.prompt(observation, info)


def _session(job: Job, role: str) -> str:
    return f"{job.group_id}#{job.attempt}#{role}"
