"""Attribution of a fault to the agent or to the infrastructure.

A policy that could turn its failures into faults would never be trained on them, and its success rate would exclude
them. So a step that faults is repeated in fresh environments (in separate processes, if they block):

1. Control: the same task and seed, with a harmless action in place of each action of the agent, then the environment's
   `health_check`. If this also faults, the fault is an infrastructure error.
2. Repetition: the agent's own actions. If this faults again, the agent's actions caused the fault. If not, the fault
   was chance, and the episode continues in a third environment in the same state.

If the environment has already made such a control itself (`errors.RULED_OUT`), its fault is an infrastructure error.
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
"""Maximum chance faults in one episode; the next fault ends the episode, which is then replayed in isolation."""
CAUSED = "the agent's actions caused a "
"""Prefix of the error message for a fault that the agent caused; a description of the fault follows."""
LOST = 5
"""Maximum number of lost worker machines that one episode survives; the next loss is treated like any fault."""
REPLY = 16
"""Maximum tokens of the reply that tests if an engine answers."""


Begin = Callable[[HostedEnv], Awaitable[tuple[str, Info]]]
"""Starts an episode in an environment by `reset` or `restore`."""


Trial = Callable[[HostedEnv, float], Awaitable[Exception | None]]
"""Tries actions in an environment, with a time limit in seconds per step, and returns the fault, if any."""


async def _not_begun(hosted: HostedEnv) -> tuple[str, Info]:
    raise RuntimeError("step() before reset()")


class RetryingEnv:
    """An environment that repeats steps that fault, so that no policy can cause a fault on purpose.

    `make` makes an environment like the others; `alone` makes an isolated environment to judge a fault. `hosted` is the
    first environment to use, if it exists already. If the agent caused the fault, the episode ends with success False,
    reason `failure`, and an error message.
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
        """Object that policies query in place of the environment; None before the first episode."""
        return self.hosted.env if self.hosted else None

    @property
    def usable(self) -> bool:
        """Always True, since a broken environment is replaced at the next reset or restore."""
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
        """Execute one action; if it faults, repeat the episode's actions to find the cause, see `_judged`.

        The agent is responsible for all effects of its actions, including time and memory.
        """
        assert self.hosted is not None
        self._actions.append(action)
        result, fault = await _tried(self.hosted.step(action, seconds))
        return await self._judged(result, fault, seconds)

    def step_here(self, action: str, seconds: float) -> StepResult | Coroutine[object, object, StepResult]:
        """Execute one action in an environment of this process; after a fault, return an awaitable of the result.

        Without a fault it makes no coroutine, which would cost as much as a step of a small environment.
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
        """Return the result of the last action; after a fault, determine the cause.

        If the cause is the agent, the episode ends as a failure. If the cause is chance, the episode's actions are
        repeated in another environment. If it is the infrastructure, the fault is returned or raised.
        """
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
        """Return True if a fault is only the loss of a worker machine, and not more than `LOST` were lost; count losses."""
        self._lost += isinstance(fault, WorkerLost)
        return isinstance(fault, WorkerLost) and self._lost <= LOST

    async def _alone_with(self, trial: Trial, seconds: float) -> Exception | None:
        """Run a trial in an isolated environment and return its fault; if the worker machine is lost, run it again."""
        while True:
            async with self._alone() as hosted:
                try:
                    fault = await trial(hosted, seconds)
                finally:
                    hosted.close()
            if fault is None or not self._outlived(fault):
                return fault

    async def _control(self, hosted: HostedEnv, seconds: float) -> Exception | None:
        """Return the fault that occurs with harmless actions in place of the agent's; None if there is none."""
        _, fault = await _tried(self._replay(hosted, [HARMLESS] * len(self._actions), seconds))
        return fault or (await _tried(hosted.check(seconds)))[1]

    async def _repetition(self, hosted: HostedEnv, seconds: float) -> Exception | None:
        """Return the fault that occurs when the agent's actions are repeated; None if there is none."""
        return (await self._repeated_in(hosted, seconds))[1]

    async def _repeated_in(self, hosted: HostedEnv, seconds: float) -> tuple[StepResult | None, Exception | None]:
        """Repeat the agent's actions; return the last result, and the fault or None.

        Everything except the agent's programs is repeatable. So if the episode ends before the last action, the programs
        are the cause, and this counts as a fault.
        """
        result, fault = await _tried(self._replay(hosted, self._actions, seconds))
        if result is None and fault is None:
            fault = Fault("the episode was over earlier when the same actions were repeated")
        return result, fault

    async def _replay(self, hosted: HostedEnv, actions: list[str], seconds: float) -> StepResult | None:
        """Play actions from the start of the episode; return the last result, or None if the episode ends too early."""
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
        """Check the health of the services and tools that the environment needs."""
        assert self.hosted is not None
        await self.hosted.check(seconds)

    def close(self) -> None:
        """Close the current environment, if any."""
        hosted, self.hosted = self.hosted, None
        if hosted:
            hosted.close()


async def _tried(work: Awaitable[StepResult | None]) -> tuple[StepResult | None, Exception | None]:
    """Await a step; return its result and its fault: an exception, or the fault with which the episode ended."""
    try:
        result = await work
    except Exception as error:  # the rollout boundary: any error, whose cause is then determined
        return None, error
    return result, None if result is None else _fault_of(result)


def _fault_of(result: StepResult) -> Fault | None:
    """Return the fault with which a step ended the episode, or None."""
    reason = result[4]["reason"]
    return Fault(str(result[4]["error"]), reason=reason) if reason is not None and reason in FAULTS else None


def _or_raise(result: StepResult | None, fault: Exception) -> StepResult:
    if result is None:
        raise fault
    return result


@dataclasses.dataclass(frozen=True, slots=True)
class TurnRequest:
    """Arguments for `Conversation.take`."""

    observation: str
    info: Info
    env: Any
    seed: int
    session: str

    async def of(self, talk: Conversation) -> Turn:
        """Return the conversation's answer to this request.

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
    """Return the agent's next turn and the conversation after it; if the engine fails, try once more.

    `first` makes the episode's first prompt, which contains no text of the agent; `begun` is True if the agent has had
    a turn already. If the engine fails twice but answers that prompt (over plain chat, also with harmless turns after
    it), the agent's own text is the cause, and the turn has `finish == "refused"`. If the engine does not answer that
    prompt, or raises a Fault at the first turn, the error is raised.

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
    """Return True if the engine answers the first prompt; over plain chat, harmless turns follow that prompt."""
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
    """Return the message of a Fault, or the end of another exception's traceback."""
    return str(error) if isinstance(error, Fault) else "".join(traceback.format_exception(error, limit=-8)).strip()
