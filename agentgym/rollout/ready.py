"""Many environments for a custom loop: send actions to some, receive the answers that are ready first (like EnvPool)."""

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
class EnvAnswer:
    """An environment's answer to an action or to a reset."""

    number: int
    """Index of the environment, from 0."""
    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: Info

    @property
    def over(self) -> bool:
        """True if the episode has ended; then the next action, with any text, starts another episode."""
        return self.terminated or self.truncated


class ReadyEnvs:
    """Environments that step in threads, each at its own pace; `recv` returns the answers that are ready first.

    A slow step (a sandbox, a browser) does not delay other environments. The seed of the k-th episode of environment
    i is a function of `seed`, i and k; the order of answers depends on timing. Use this object in a `with` block, or call
    `close`. Source of the interface: EnvPool, arXiv 2206.10558.
    """

    def __init__(self, env: str, number: int, *, ready: int = 1, seed: int = 0, **options: object) -> None:
        """Make `number` environments and start an episode in each; `ready` is the number of answers that `recv` waits for.

        Raises:
            BadConfig: a number is out of range.
        """
        if number < 1 or not 1 <= ready <= number:
            raise BadConfig(
                f"number is {number} and ready is {ready}; expected at least 1 environment, and ready from 1 to number"
            )
        self.ready, self.seed = ready, seed
        self.envs: list[TextEnv] = [make(env, **options) for _ in range(number)]
        self.episodes = [0] * number
        self._over = [True] * number
        self._threads = ThreadPoolExecutor(number, thread_name_prefix="ready-env")
        self._running: dict[Future[EnvAnswer], int] = {}
        self._finished: deque[Future[EnvAnswer]] = deque()
        self.send(range(number), [""] * number)

    def send(self, numbers: Iterable[int], actions: Sequence[str]) -> None:
        """Let each of these environments execute an action, or start its next episode if the last one has ended.

        Raises:
            BadConfig: an environment does not exist, or its last answer was not received yet.
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

    def recv(self, ready: int | None = None) -> list[EnvAnswer]:
        """Wait for `ready` answers (default: the constructor's `ready`) and return them; raise an environment's error.

        Answers that were ready before an error are returned by the next calls.

        Raises:
            BadConfig: `ready` is below 1, or fewer environments have an action without a received answer.
        """
        count = self.ready if ready is None else ready
        if not 1 <= count <= len(self._running):
            raise BadConfig(f"recv waits for {count} environments, and {len(self._running)} have an action; send some first")
        ended: list[Future[EnvAnswer]] = []
        try:
            while len(ended) < count:
                if not self._finished:
                    wait(self._running.keys() - {*ended}, return_when=FIRST_COMPLETED)
                    continue
                ended.append(self._finished.popleft())
                ended[-1].result()
        except BaseException:  # of an environment, or Ctrl-C during the wait
            if ended and ended[-1].exception():
                del self._running[ended.pop()]
            self._finished.extendleft(reversed(ended))
            raise
        for future in ended:
            del self._running[future]
        return [future.result() for future in ended]

    def _step(self, number: int, action: str) -> EnvAnswer:
        env: Any = self.envs[number]
        if self._over[number]:
            episode = self.episodes[number]
            self.episodes[number] += 1
            observation, info = env.reset(seed=derive("ready", self.seed, number, episode) % 2**31)
            self._over[number] = False
            return EnvAnswer(number, observation, 0.0, False, False, info)
        answer = EnvAnswer(number, *env.step(action))
        self._over[number] = answer.over
        return answer

    def close(self) -> None:
        """Wait for running steps, and close every environment, ignoring errors."""
        self._threads.shutdown(cancel_futures=True)
        for env in self.envs:
            with suppress(Exception):
                env.close()

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the environments."""
        self.close()
