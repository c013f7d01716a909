"""Attribution of a fault: the agent's failure, or an infrastructure error.

A policy that could turn its failures into faults would never be trained on them, and its success would be counted over
the rest. So a step that faults is repeated in fresh environments, in separate processes if they block. Control: the same
task and seed, a harmless action for each of the agent's, then the environment's `health_check`. Repetition: the agent's
own actions. A control that faults too shows an infrastructure error; otherwise a repetition that faults again shows that
the agent's actions caused it; otherwise it was chance, and the episode continues in a third environment in the same
state. A fault whose environment has made such a control itself (`errors.RULED_OUT`) is an infrastructure error.
"""

import dataclasses
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

from agentgym.agents.base import Agent, Conversation
from agentgym.core.env import Snapshot
from agentgym.core.outcome import Finish, Info, broken_off
from agentgym.episodes.episode import FAULTS, Turn
from agentgym.errors import RULED_OUT, BadConfig, EngineDead, Fault, Reason
from agentgym.rollout.hosted import HostedEnv, LocalEnv, Status, StepResult
from agentgym.rollout.workers import WorkerLost

HARMLESS = ""
"""An action that is invalid in every environment."""
MOST = 5
"""Maximum repetitions without a fault in one episode; after these it ends as a fault and is replayed in isolation."""
CAUSED = "the agent's actions caused a "
"""Prefix of the error of a fault that the agent caused; the failure follows after a colon."""
LOST = 5
"""Maximum number of lost worker machines that one episode survives; the next loss is a normal fault."""
REPLY = 16
"""Tokens of the reply that tests an engine."""


Begin = Callable[[HostedEnv], Awaitable[tuple[str, Info]]]
"""Starts an episode in an environment."""


Trial = Callable[[HostedEnv, float], Awaitable[Exception | None]]
"""Tries something in an environment, with a time limit per step, and returns the fault."""


async def _not_begun(hosted: HostedEnv) -> tuple[str, Info]:
    raise RuntimeError("step() before reset()")


class RetryingEnv:
    """An environment of a rollout whose faulting steps are repeated, so that no policy can choose a fault.

    `make` makes an environment like the others, `alone` one in isolation; `hosted` is the first one, if any. A step whose
    fault the agent caused ends the episode: success False, reason `failure`, and the error.
    """

    def __init__(
        self,
        make: Callable[[], HostedEnv],
        alone: Callable[[], AbstractAsyncContextManager[HostedEnv]],
        hosted: HostedEnv | None = None,
    ) -> None:
        self._make, self._alone, self.hosted = make, alone, hosted
        self._begin: Begin = _not_begun
        self._task = ""
        self._actions: list[str] = []
        self._repeated = self._lost = 0
        self._metrics: dict[str, float] = {}
        self.status = Status()

    @property
    def env(self) -> Any:
        """Object that agents query instead of the environment."""
        return self.hosted.env if self.hosted else None

    @property
    def usable(self) -> bool:
        """True if another episode may be played here."""
        return True

    async def reset(self, seed: int, options: dict[str, object], seconds: float) -> tuple[str, Info]:
        """Start an episode, in a fresh environment if the last one is broken."""
        return await self._begun(lambda hosted: hosted.reset(seed, options, seconds))

    async def restore(self, state: Snapshot, seed: int | None, seconds: float) -> tuple[str, Info]:
        """Continue from a snapshot, in a fresh environment if the last one is broken."""
        return await self._begun(lambda hosted: hosted.restore(state, seed, seconds))

    async def _begun(self, begin: "Begin") -> tuple[str, Info]:
        if self.hosted and not self.hosted.usable:
            self.close()
        self._begin, self._actions, self._repeated, self._lost = begin, [], 0, 0
        while True:
            self.hosted = self.hosted or self._make()
            try:
                result = await begin(self.hosted)
                break
            except WorkerLost as lost:
                self.close()
                if not self._outlived(lost):
                    raise
        self._task = result[1]["task_id"]
        self._take_over(self.hosted, result[1])
        return result

    async def snapshot(self, seconds: float) -> Snapshot:
        """Return everything that `restore` needs to continue from here."""
        assert self.hosted is not None
        return await self.hosted.snapshot(seconds)

    async def step(self, action: str, seconds: float) -> StepResult:
        """Execute one action; its effects, including time and memory, are the agent's responsibility."""
        assert self.hosted is not None
        self._actions.append(action)
        result, fault = await _tried(self.hosted.step(action, seconds))
        return await self._judged(result, fault, seconds)

    def step_here(self, action: str, seconds: float) -> StepResult | Coroutine[object, object, StepResult]:
        """Execute one action in an environment of this process; after a fault, return an awaitable of the result.

        It avoids the coroutines of `step`, which would take as long as a step of a small environment.
        """
        hosted = self.hosted
        assert isinstance(hosted, LocalEnv)
        self._actions.append(action)
        try:
            result = hosted.step_here(action, seconds)
        except Exception as error:  # as in _tried
            return self._judged(None, error, seconds)
        info = result[4]
        if info["reason"] in FAULTS:
            return self._judged(result, _fault_of(result), seconds)
        self._take_over(hosted, info)
        return result

    async def _judged(self, result: StepResult | None, fault: Exception | None, seconds: float) -> StepResult:
        """Return the result of the last action, which is repeated after a fault."""
        while fault is not None:
            self.close()
            if not self._outlived(fault):
                ruled_out = isinstance(fault, Fault) and str(fault).startswith(RULED_OUT)
                if ruled_out or self._repeated == MOST or await self._alone_with(self._control, seconds):
                    return _or_raise(result, fault)
                again = await self._alone_with(self._repetition, seconds)
                if again is not None:
                    return self._failed(again)
                self._repeated += 1
            self.hosted = self._make()
            result, fault = await self._repeated_in(self.hosted, seconds)
        assert result is not None and self.hosted is not None
        self._take_over(self.hosted, result[4])
        return result

    def _outlived(self, fault: Exception) -> bool:
        """Return True if a fault is only a lost worker machine, within the limit."""
        self._lost += isinstance(fault, WorkerLost)
        return isinstance(fault, WorkerLost) and self._lost <= LOST

    async def _alone_with(self, trial: Trial, seconds: float) -> Exception | None:
        """Return the fault of a trial in an isolated environment; lost worker machines are retried."""
        while True:
            async with self._alone() as hosted:
                try:
                    fault = await trial(hosted, seconds)
                finally:
                    hosted.close()
            if fault is None or not self._outlived(fault):
                return fault

    async def _control(self, hosted: HostedEnv, seconds: float) -> Exception | None:
        """Return the fault that occurs without the agent's actions."""
        _, fault = await _tried(self._replay(hosted, [HARMLESS] * len(self._actions), seconds))
        return fault or (await _tried(hosted.check(seconds)))[1]

    async def _repetition(self, hosted: HostedEnv, seconds: float) -> Exception | None:
        """Return the fault that the agent's actions cause again, if they do."""
        return (await self._repeated_in(hosted, seconds))[1]

    async def _repeated_in(self, hosted: HostedEnv, seconds: float) -> tuple[StepResult | None, Exception | None]:
        """Return the result of the agent's repeated actions; a difference is due to its programs: all else is repeatable."""
        result, fault = await _tried(self._replay(hosted, self._actions, seconds))
        if result is None and fault is None:
            fault = Fault("the episode was over earlier when the same actions were repeated")
        return result, fault

    async def _replay(self, hosted: HostedEnv, actions: list[str], seconds: float) -> StepResult | None:
        """Play actions from the start; return None if the episode ends before the last of them."""
        await self._begin(hosted)
        result = None
        for place, action in enumerate(actions):
            result = await hosted.step(action, seconds)
            if result[4]["reason"] in FAULTS:
                break
            if (result[2] or result[3]) and place + 1 < len(actions):
                return None
        return result

    def _failed(self, fault: Exception) -> StepResult:
        error = f"{CAUSED}{getattr(fault, 'reason', 'crash')} twice, and others cause none: {error_text(fault)}"
        info = broken_off(self._task, valid=False, error=error, reason=Reason.FAILURE)
        return "", 0.0, True, False, {**info, "metrics": self._metrics, "success": False}

    def _take_over(self, hosted: HostedEnv, info: Info) -> None:
        self.status, self._metrics = hosted.status, info["metrics"]

    async def check(self, seconds: float) -> None:
        """Check the health of the environment's dependencies."""
        assert self.hosted is not None
        await self.hosted.check(seconds)

    def close(self) -> None:
        """Close the environment."""
        hosted, self.hosted = self.hosted, None
        if hosted:
            hosted.close()


async def _tried(work: Awaitable[StepResult | None]) -> tuple[StepResult | None, Exception | None]:
    """Return a result and its fault: raised, or the reason why the environment ended the episode."""
    try:
        result = await work
    except Exception as error:  # the rollout boundary: any error, whose cause is then determined
        return None, error
    return result, None if result is None else _fault_of(result)


def _fault_of(result: StepResult) -> Fault | None:
    """Return the fault that ended an episode, if any."""
    reason = result[4]["reason"]
    return Fault(str(result[4]["error"]), reason=reason) if reason is not None and reason in FAULTS else None


def _or_raise(result: StepResult | None, fault: Exception) -> StepResult:
    if result is None:
        raise fault
    return result


@dataclasses.dataclass(frozen=True, slots=True)
class TurnRequest:
    """Arguments of `Conversation.take`."""

    observation: str
    info: Info
    env: Any
    seed: int
    session: str

    async def of(self, talk: Conversation) -> Turn:
        """Return the turn of a conversation.

        Raises:
            Fault: the engine aborted the request.
        """
        turn = await talk.take(self.observation, self.info, env=self.env, seed=self.seed, session=self.session)
        if turn.finish == Finish.ABORT:
            raise Fault("the engine aborted the request", reason=Reason.ENGINE)
        return turn


async def take_turn(
    agent: Agent, talk: Conversation, request: TurnRequest, first: Callable[[], object], *, begun: bool
) -> Any:
    """Return the agent's turn and the conversation after it; a request that its engine refuses is repeated once.

    `first` makes the episode's first prompt, which contains nothing of the agent's; `begun`: the agent has had a turn
    already. A turn that failed twice, while the engine answers that prompt, and over plain chat also as many turns of the
    same kind, has `finish == "refused"`: the agent's own text caused it.

    Raises:
        BadConfig: no episode could be played with this configuration.
        EngineDead: the engine is permanently unavailable.
    """
    if agent.engine is None:
        return await request.of(talk), talk
    before = talk.fork()
    try:
        return await request.of(talk), talk
    except (BadConfig, EngineDead):
        raise
    except Exception as error:
        if (isinstance(error, Fault) and not begun) or not await _answers(agent, before, first, request.session):
            raise
    try:
        return await request.of(before), before
    except Exception as error:
        if not await _answers(agent, before, first, request.session):
            raise
        why = f"the agent's own text failed twice, and the engine answers others: {error_text(error)}"
        return Turn(request.observation, parsed=False, finish=Finish.REFUSED, error=why), before


async def _answers(agent: Agent, talk: Any, first: Callable[[], object], session: str) -> bool:
    """Return True if the first prompt can be made and the engine answers it, for plain chat with harmless turns after it."""
    engine: Any = agent.engine
    sampling = dataclasses.replace(agent.sampling, max_tokens=REPLY)
    try:
        if hasattr(engine, "chat"):
            opening = first()
            messages = talk.harmless(opening) if hasattr(talk, "harmless") else opening
            done = await engine.chat(messages, getattr(talk, "offer", ()), sampling, f"{session}#check")
        else:
            done = await engine.generate(first(), sampling, f"{session}#check")
    except Exception:  # after any error, it does not answer
        return False
    finally:
        engine.abort(f"{session}#check")
    return done.finish != Finish.ABORT


def error_text(error: Exception) -> str:
    """Return the text of an exception: the message of a Fault, else the end of the traceback."""
    return str(error) if isinstance(error, Fault) else "".join(traceback.format_exception(error, limit=-8)).strip()
