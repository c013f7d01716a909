"""Environments of the tests, and a real server of them on loopback, in a thread."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.env_server import App, Limits, Sessions
from agentgym.serving.server import serve

SECRET = "the-answer-is-walrus"


class Counter(TextEnv):
    """Count to three; the task holds a secret, and some actions fail in every way there is."""

    horizon = 20
    broken = False

    def generate(self, rng: Any, difficulty: int) -> Task:
        return Task(instruction="Say go three times.", data={"answer": SECRET, "n": int(rng.integers(1000))})

    def begin(self, task: Task) -> str:
        self.count = 0
        return task.instruction

    def act(self, action: str) -> str | Outcome:
        if Counter.broken:
            raise OSError(f"a disk is full, and {SECRET}")
        if action == "raise":
            raise RuntimeError(f"broken, and {SECRET}")
        if action == "hang":
            time.sleep(600)
        if action != "go":
            return self.invalid(f"{action[:20]!r} is not go")
        self.count += 1
        return self.win("three") if self.count == 3 else f"{self.count} of 3"

    def state(self) -> object:
        return self.count, SECRET

    def measures(self) -> dict[str, float]:
        return {"progress": self.count / 3}


class Blocking(Counter):
    """The same in worker processes."""

    blocking = True


@contextlib.contextmanager
def running(make: Any = Counter, *, token: str | None = None, limits: Limits | None = None, **options: Any) -> Iterator[Any]:
    """Serve an environment; yields its address and its sessions."""
    found: list[Any] = []
    there = threading.Event()

    async def main() -> None:
        stop = asyncio.Event()
        sessions = Sessions(make, limits or Limits())

        def ready(address: str) -> None:
            found.extend((address, sessions, asyncio.get_running_loop(), stop))
            asyncio.get_running_loop().call_later(0.05, there.set)

        app = App(sessions, name="test/Counter-v0", token=token, **options)
        try:
            await serve(app, "127.0.0.1", 0, ready, stop, ws="websockets-sansio", ws_max_size=app.body_bytes)
        finally:
            sessions.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert there.wait(60)
    try:
        yield found[0], found[1]
    finally:
        found[2].call_soon_threadsafe(found[3].set)
        thread.join(60)
        assert not thread.is_alive()
