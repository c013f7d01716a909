"""A harness as the agent of a run or an evaluation: each attempt has its own sandbox, and each model call is a turn."""

import asyncio
import dataclasses
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agentgym import registry
from agentgym.core.env import TextEnv
from agentgym.core.seeding import derive
from agentgym.core.tasks import Task
from agentgym.engines import Sampling
from agentgym.episodes.episode import FAULTS, Episode, append_episodes
from agentgym.errors import BadConfig, BadData, Fault, MissingExtra, Reason, UnknownName
from agentgym.gateway.sessions import Budget, Session
from agentgym.harness.description import Harness
from agentgym.harness.gateway_agent import Access, GatewayAgent, in_thread
from agentgym.harness.lent import Run
from agentgym.harness.solution import SolutionEngine
from agentgym.sandbox.docker.changes import Changes
from agentgym.sandbox.env import SandboxEnv

PULSE = 0.2
"""Seconds between checks of an attempt's budget."""
STARTING = 600.0
"""Seconds allowed for starting a container, including building the image layer with the harness."""


@dataclass(frozen=True)
class HarnessAgent(GatewayAgent):
    """A harness with an engine as its model: it works in the task's container, and the environment judges its files.

    Each model call is a turn, with a hash of the container's files as `state_key`. Calls outside the main conversation,
    such as those of sub-agents, are separate rows, trained on unless `side_calls` is False. Errors of the harness are
    the policy's failures. A container that fails, or a harness that never calls the model, is an infrastructure error.
    """

    raised_on: ClassVar[tuple[type[Exception], ...]] = (BadConfig, BadData, MissingExtra, UnknownName)
    harness: Harness = field(kw_only=True)
    options: Mapping[str, object] = field(default_factory=dict[str, object], kw_only=True)
    """Options of the environment."""
    budget: Budget = field(default=Budget(), kw_only=True)
    side_calls: bool = field(default=True, kw_only=True)
    _envs: dict[str, list[TextEnv]] = field(default_factory=lambda: defaultdict(list), init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def limit(self, env: str) -> float:
        """Return the time limit of an attempt in seconds: starting the container, the harness's time, and judging.

        Raises:
            BadConfig: the environment has no sandbox.
        """
        made = self._take(env)
        if not isinstance(made.unwrapped, SandboxEnv):
            raise BadConfig(f"a harness works in a sandbox, and {type(made.unwrapped).__name__} has none")
        self._give_back(env, made)
        return self.seconds + self.harness.grace + 2 * made.step_seconds + STARTING

    @property
    def sampling(self) -> Sampling:
        """Sampling options of the model's replies."""
        return Sampling(temperature=self.temperature, max_tokens=self.turn_tokens)

    async def attempted(
        self, env: str, session: Session, task: Task, access: Access, number: int, seed: int
    ) -> tuple[float, bool]:
        """Play one attempt in a separate sandbox and return its reward and success; `session` records its model calls."""
        watch: list[Changes] = []

        def watched(changes: Changes | None) -> None:
            watch[:] = [] if changes is None else [changes]

        async def state() -> str | None:
            return await asyncio.to_thread(watch[0].key) if watch else None

        session.budget, session.side_calls = self.budget, self.side_calls
        session.state = state
        run = Run(self.harness, access, "", self.seconds, self.turn_tokens, self.engine.context, watched)
        playing = asyncio.ensure_future(
            in_thread(self._play, env, run, task, derive("world", seed, task.id, number), session)
        )
        try:
            while not (await asyncio.wait([playing], timeout=PULSE))[0]:
                if session.used_up:
                    run.stop("budget")
            return await playing
        finally:
            session.state = None
            if not playing.done():  # its time is up
                run.stop("timeout")

    def _play(self, env_id: str, run: Run, task: Task, seed: int, session: Session) -> tuple[float, bool]:
        env = self._take(env_id)
        try:
            result = self._judged(env, run, task, seed, session)
        except BaseException:
            env.close()
            raise
        self._give_back(env_id, env)
        return result

    def _give_back(self, env_id: str, env: TextEnv) -> None:
        with self._lock:
            self._envs[env_id].append(env)

    def _judged(self, env: TextEnv, run: Run, task: Task, seed: int, session: Session) -> tuple[float, bool]:
        place: Any = env.unwrapped
        env.reset(seed=seed, options={"task": task})
        over, reward, info = False, 0.0, place.info()
        while not over:
            run.instruction = place.briefing()
            before = session.requests
            if isinstance(self.engine, SolutionEngine):
                self.engine.tell(session.name, place.solution_commands())
            place.lend(run.work)
            if session.requests == before:
                raise Fault(
                    f"harness {run.harness.name!r} asked the model nothing ({run.reason}, exit code {run.exit_code}): "
                    f"{run.tail[-1000:]}",
                    reason=Reason.CRASH,
                )
            turn = env.turn
            _, paid, terminated, truncated, info = env.step(place.handing_in())
            reward += paid
            over = terminated or truncated or bool(session.used_up) or not info["valid"] or env.turn == turn
        if info["reason"] in FAULTS:
            raise Fault(info["error"] or "the environment failed", reason=Reason(str(info["reason"])))
        session.measures = {**info["metrics"], "exit_code": float(run.exit_code)}
        return reward, info["success"] is True

    def _take(self, env_id: str) -> TextEnv:
        with self._lock:
            if self._envs[env_id]:
                return self._envs[env_id].pop()
        return registry.make(env_id, **self.env_options())

    def env_options(self) -> dict[str, Any]:
        """Return the environment's options (default backend: `docker`), with the harness installed on the task's image."""
        options: dict[str, Any] = {"backend": "docker", **self.options}
        own: Mapping[str, object] = options.get("backend_options") or {}
        room = {"processes": 64, "open_files": 1024, "disk": 256 << 20, "files": 20_000, **self.harness.room}
        options["backend_options"] = {**own, "install": self.harness.install, "room": room}
        return options

    def with_options(self, options: Mapping[str, object]) -> "HarnessAgent":
        """Return a copy of this agent with other environment options."""
        return dataclasses.replace(self, options=options)

    async def play_into(
        self,
        path: Path,
        env: str,
        tasks: Sequence[Task],
        attempts: int,
        seed: int,
        concurrency: int,
        skip: Collection[tuple[str, int]],
        ended: Callable[[Episode], None],
    ) -> None:
        """Play tasks and append each episode to a file as soon as it ends; close the environments afterwards."""
        with append_episodes(path) as file, closing(self):

            def over(episode: Episode) -> None:
                file.write(episode.to_json() + "\n")
                file.flush()
                ended(episode)

            await self.collect(
                env, tasks=tasks, attempts=attempts, seed=seed, concurrency=concurrency, skip=skip, ended=over
            )

    def close(self) -> None:
        """Close the environments."""
        with self._lock:
            envs, self._envs[""] = [env for kind in self._envs.values() for env in kind], []
            self._envs.clear()
        for env in envs:
            env.close()
