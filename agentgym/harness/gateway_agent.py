"""Third-party agents trained through their base URL: they call the run's own gateway, which records the conversation."""

import asyncio
import inspect
import math
import secrets
import threading
import traceback
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol, cast

from agentgym.core.seeding import derive
from agentgym.core.tasks import Task
from agentgym.engines import TokenEngine
from agentgym.engines.scripted import ScriptedEngine
from agentgym.episodes.episode import Episode
from agentgym.gateway.app import App
from agentgym.gateway.gateway import Gateway
from agentgym.gateway.sessions import FOR_ROOM, Session
from agentgym.harness.gateway_repeats import BY_REPLIES, FaultJudge
from agentgym.rollout.collect import group_of
from agentgym.rollout.limits import ends_more
from agentgym.serving.server import serving


@dataclass(frozen=True, slots=True)
class Access:
    """Settings for a third-party agent's OpenAI client: all that it needs to reach the model."""

    base_url: str
    api_key: str
    """Key that is valid for this attempt only; it also identifies the attempt's session."""
    model: str


Play = Callable[[Task, Access], Any]
"""Plays one attempt at a task and returns its reward (above 0 is success), or (reward, success).

It is an async function, or a blocking one, which runs in a thread. If it raises or takes too long,
`agentgym.harness.gateway_repeats` finds out the cause: the model's replies (a failure of the model), or anything else (a
fault, which is never trained on).
"""


class CostLimit(Protocol):
    """Decides if an attempt may begin, like `agentgym.evaluate.spending.AttemptCosts`."""

    async def admit(self, attempt: Session, running: Collection[str], /) -> None: ...


@dataclass(frozen=True)
class GatewayAgent:
    """A third-party agent in a training run: the function `play` with an engine as its model.

    All replies are sampled at `temperature`; the agent's own setting is ignored. `turn_tokens` limits replies for which the
    agent sets no limit.
    """

    play: Play | None
    engine: TokenEngine
    tokenizer: Any
    temperature: float = 1.0
    turn_tokens: int = 1024
    seconds: float = 3600.0
    """Time limit of an attempt in seconds. Beyond it, the attempt is a failure or a fault, and its thread is abandoned."""
    costs: CostLimit | None = field(default=None, kw_only=True)
    """Limit on the total cost of all attempts."""

    raised_on: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that would hit every attempt; they end the whole collection."""

    async def collect(
        self,
        env: str,
        *,
        tasks: Sequence[Task],
        attempts: int = 1,
        seed: int = 0,
        concurrency: int = 64,
        group_prefix: str = "",
        repeats: Sequence[int] = (),
        skip: Collection[tuple[str, int]] = (),
        ended: Callable[[Episode], None] | None = None,
    ) -> list[Episode]:
        """Play each task `attempts` times, at most `concurrency` attempts at a time; return the episodes in task order.

        `repeats` has the number of earlier occurrences of each task (default: 0), for group ids. `skip` lists (task id,
        attempt) pairs to leave out; `ended` is called with each episode as soon as it ends. Raises MissingExtra if uvicorn
        is not installed.
        """
        gateway = self._gateway(self.engine, seed)
        repeats_of_faults = FaultJudge(self.limit(env))
        places, app = asyncio.Semaphore(concurrency), App(gateway, key=secrets.token_hex(16))
        running: set[str] = set()

        async def attempt(place: int, task: Task, again: int, number: int) -> Episode:
            name = str(derive("session", task.id, number, place, again))  # a task may come more than once
            async with places:
                if self.costs is not None:
                    await self.costs.admit(gateway.sessions.get(name), running)
                running.add(name)
                try:
                    return await played(name, task, again, number)
                finally:
                    running.discard(name)

        async def played(name: str, task: Task, again: int, number: int) -> Episode:
            access = Access(f"{address}/v1", app.session_key(name), gateway.name)
            play = self.attempted(env, gateway.sessions.get(name), task, access, number, seed)
            episode = await _ended(gateway, name, play, self.limit(env), self.raised_on)
            if await repeats_of_faults.judge(episode, task.id, partial(self._again, env, task, number, seed)):
                episode.success, episode.reason, episode.error = False, "failure", f"{BY_REPLIES}: {episode.error}"
            _label(episode, env.rpartition(":")[2], task, number)
            episode.group_id, episode.seed = group_of(group_prefix, task, again), seed
            if ended is not None:
                ended(episode)
            return episode

        async with serving(app) as address:
            pairs = enumerate(zip(tasks, repeats or [0] * len(tasks), strict=True))
            jobs = [
                attempt(place, task, again, n)
                for place, (task, again) in pairs
                for n in range(attempts)
                if (task.id, n) not in skip
            ]
            return list(await asyncio.gather(*jobs))

    def limit(self, env: str) -> float:
        """Return the number of seconds after which an attempt is abandoned."""
        return self.seconds

    async def attempted(
        self, env: str, session: Session, task: Task, access: Access, number: int, seed: int
    ) -> tuple[float, bool]:
        """Play one attempt and return its reward and success; `session` records its model calls."""
        play = self.play
        assert play is not None
        return _read(await (play(task, access) if inspect.iscoroutinefunction(play) else in_thread(play, task, access)))

    def _gateway(self, engine: TokenEngine, seed: int = 0) -> Gateway:
        return Gateway(
            engine,
            "policy",
            temperature=self.temperature,
            turn_tokens=self.turn_tokens,
            seed=seed,
            tokenizer=self.tokenizer,
        )

    async def _again(self, env: str, task: Task, number: int, seed: int, replies: Sequence[str]) -> None:
        """Play a task with prepared replies, the last one repeated as often as needed; exceptions of the agent propagate."""
        left = iter(replies)

        def reply(prompt: str, turn: int) -> str:
            return next(left, replies[-1])

        engine = ScriptedEngine(reply, self.tokenizer, context=self.engine.context)
        gateway = self._gateway(engine)
        app = App(gateway, key=secrets.token_hex(16))
        async with serving(app) as address:
            access = Access(f"{address}/v1", app.session_key("again"), gateway.name)
            await self.attempted(env, gateway.sessions.get("again"), task, access, number, seed)


def _label(episode: Episode, env: str, task: Task, number: int) -> None:
    episode.env, episode.task_id, episode.attempt = env, task.id, number
    episode.instruction, episode.split = task.instruction, task.split


async def in_thread(play: Callable[..., Any], *arguments: object) -> Any:
    """Run a blocking `play` in a daemon thread, because a third-party agent may never return; return its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def tell(result: object, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = play(*arguments)
        except StopIteration as raised:  # a future refuses StopIteration
            error = RuntimeError(f"the agent raised {raised!r}")
        except Exception as raised:
            error = raised
        except BaseException as raised:  # such as SystemExit, which must not end more than this attempt
            error = RuntimeError(f"the agent raised {raised!r}")
        with suppress(RuntimeError):  # the run has ended in the meantime
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, name="agent", daemon=True).start()
    return await future


def _read(result: object) -> tuple[float, bool]:
    pair = cast("tuple[object, ...]", result) if isinstance(result, tuple) else (result, None)
    reward: Any = pair[0] if len(pair) == 2 else None
    success: Any = pair[-1]
    if isinstance(reward, int | float) and math.isfinite(reward) and isinstance(success, bool | None):
        return float(reward), reward > 0 if success is None else success
    raise TypeError(f"the agent's function returned {result!r:.100}; expected the reward, or (reward, success)")


async def _ended(
    gateway: Gateway,
    name: str,
    played: Coroutine[object, object, tuple[float, bool]],
    seconds: float,
    raised_on: tuple[type[Exception], ...] = (),
) -> Episode:
    # The session becomes an episode: a fault if the attempt raised, took too long or sent no request.
    reward, success, error = 0.0, None, "the agent asked nothing of the base URL that it was given"
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            reward, success = await played
    except raised_on:
        raise
    except BaseException as raised:  # a third-party agent may raise anything
        if ends_more(raised):
            raise
        error = f"the agent took more than {seconds:g} s" if limit.expired() else traceback.format_exc()
    session = gateway.sessions.get(name)
    while session.running:  # a reply that the agent did not wait for
        await asyncio.sleep(0.01)
    episode = gateway.sessions.finish(name, reward, success if session.tokens else None)
    if episode.fault:
        error = FOR_ROOM if episode.error == FOR_ROOM else error
        reason = "timeout" if limit.expired() else "engine" if session.unanswered else "crash"
        episode.reason, episode.error = reason, error
    return episode
