"""Many environments for a loop of your own: send actions to some, receive whichever are ready first (as EnvPool does)."""

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.seeding import derive
from agentgym.errors import BadConfig
from agentgym.registry import make


@dataclass(frozen=True, slots=True)
class Ready:
    """What an environment answered: to an action, or to its reset."""

    number: int
    """Which environment, from 0."""
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: Info

    @property
    def over(self) -> bool:
        """Whether the episode has ended: the next action, whatever it says, begins another."""
        return self.terminated or self.truncated


class ReadyEnvs:
    """Environments that step in threads, each at its own pace: `recv` returns the first ones that are ready.

    A slow step (a sandbox, a browser) then delays nobody else. The k-th episode of environment i is a function of `seed`, i
    and k; the order in which they come is that of the clock. Use it in a `with` block, or call `close`.
    Source of the interface: EnvPool, arXiv 2206.10558.
    """

    def __init__(self, env: str, number: int, *, ready: int = 1, seed: int = 0, **options: object) -> None:
        """Make `number` environments and begin an episode in each; `ready`: how many `recv` waits for."""
        if number < 1 or not 1 <= ready <= number:
            raise BadConfig(
                f"number is {number} and ready is {ready}; expected at least 1 environment, and ready from 1 to number"
            )
        self.ready, self.seed = ready, seed
        self.envs: list[TextEnv] = [make(env, **options) for _ in range(number)]
        self.episodes = [0] * number
        self._over = [True] * number
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="ready-env")
        self._running: dict[Future[Ready], int] = {}
        self._finished: deque[Future[Ready]] = deque()
        self.send(range(number), [""] * number)

    def send(self, numbers: Iterable[int], actions: Sequence[str]) -> None:
        """Let each of the named environments take an action, or begin its next episode where one has ended.

        BadConfig for an environment whose last answer was not received yet.
        """
        pairs = list(zip(numbers, actions, strict=True))
        busy = {*self._running.values()}
        for number, _ in pairs:
            if number in busy or not 0 <= number < len(self.envs):
                raise BadConfig(
                    f"environment {number} has no answer that was received; expected one of recv's numbers, each once"
                )
            busy.add(number)
        for number, action in pairs:
            future = self._threads.submit(self._step, number, action)
            self._running[future] = number
            future.add_done_callback(self._finished.append)

    def recv(self, ready: int | None = None) -> list[Ready]:
        """Wait for so many environments (by default as many as the constructor said) and return the first ones that are.

        An error of an environment is raised here. BadConfig where fewer have an action to answer.
        """
        wanted = self.ready if ready is None else ready
        if not 1 <= wanted <= len(self._running):
            raise BadConfig(
                f"recv waits for {wanted} environments, and {len(self._running)} have an action; send some first"
            )
        answers: list[Ready] = []
        while len(answers) < wanted:
            if not self._finished:
                wait(self._running, return_when=FIRST_COMPLETED)
                continue
            future = self._finished.popleft()
            del self._running[future]
            answers.append(future.result())
        return answers

    def _step(self, number: int, action: str) -> Ready:
        env: Any = self.envs[number]
        if self._over[number]:
            episode = self.episodes[number]
            self.episodes[number] += 1
            observation, info = env.reset(seed=derive("ready", self.seed, number, episode) % 2**31)
            self._over[number] = False
            return Ready(number, observation, 0.0, False, False, info)
        answer = Ready(number, *env.step(action))
        self._over[number] = answer.over
        return answer

    def close(self) -> None:
        """Wait for the steps that are under way, and close every environment."""
        self._threads.shutdown(cancel_futures=True)
        for env in self.envs:
            with suppress(Exception):
                env.close()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()
