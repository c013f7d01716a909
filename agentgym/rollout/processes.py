"""A worker that is a spawned process on this machine."""

import contextlib
import multiprocessing
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from agentgym.core.beside import safe_start, started
from agentgym.core.env import TextEnv
from agentgym.errors import BadConfig
from agentgym.registry import script
from agentgym.rollout.env_threads import EnvThreads, Key, Packed, Request, as_bytes, packed_reply, sendable
from agentgym.rollout.pending import Pending
from agentgym.rollout.spawning import GUARD, defined_in_script, spawned


class ProcessWorker(Pending):
    """One worker process and its open requests."""

    def __init__(self, makes: Sequence[Callable[[], TextEnv]], alone: bool = False) -> None:
        super().__init__()
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._imports_script, self._answers = script() is not None and defined_in_script(makes), False
        self.process = context.Process(target=_work, args=(theirs, self._packed("the environment", makes)), daemon=True)
        with _allowed_children(), safe_start(), spawned(script=self._imports_script):
            self.process.start()
        theirs.close()
        self._loop.add_reader(self.connection.fileno(), self._read_replies)

    def usable(self) -> bool:
        """Return True if new environments may be placed here."""
        return not self.condemned and self.process.is_alive()

    async def begun(self) -> None:
        """Do nothing: requests wait in the pipe until the process has started."""

    def _send(self, env: Key, request: Request) -> None:
        """Send a request at once, because a policy in this process may block the event loop for long afterwards."""
        packed = self._packed(request[0], request)
        try:
            self.connection.send((env, packed))
        except OSError as error:  # it died or was killed
            self._ended(f"the worker process is gone: {error}")

    def _packed(self, what: str, value: object) -> bytes:
        return sendable(what, value, partial(as_bytes, script=self._imports_script))

    def _read_replies(self) -> None:
        if self.connection.closed:
            return
        try:
            while self.connection.poll():
                for reply in self.connection.recv():
                    self._answers = True
                    self._heard(reply)
        except (EOFError, OSError):
            self._loop.remove_reader(self.connection.fileno())
            self._ended(self._end())

    def _end(self) -> str | BadConfig:
        """Return the reason for the worker's end: its process died, or failed to import the script and printed an error."""
        self.process.join(1)
        if self._answers or not self._imports_script or self.process.exitcode != 1:
            return "the worker process died"
        return BadConfig(f"a worker process imports this script, where the environment is defined, and failed: {GUARD}")

    def kill(self) -> None:
        """Kill the process."""
        self.condemned = True
        if not self.connection.closed:
            self._loop.remove_reader(self.connection.fileno())
            self.connection.close()
        self.process.kill()
        self.process.join()


@contextlib.contextmanager
def _allowed_children() -> Generator[None]:
    """Allow a daemonic process, such as one of `multiprocessing.Pool`, to start a worker.

    Python normally forbids this, because the child would be orphaned; a worker ends when its pipe is closed.
    """
    settings: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    daemonic = settings.pop("daemon", None)
    try:
        yield
    finally:
        if daemonic is not None:
            settings["daemon"] = daemonic


def _work(connection: Connection, makes: bytes) -> None:
    """Serve requests until the pipe is closed; the main function of a worker process."""
    started()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    envs, replies = EnvThreads(pickle.loads(makes)), _Replies(connection)
    while True:
        try:
            packed: Packed = connection.recv()
        except (EOFError, OSError):
            return
        envs.ask(packed, partial(replies.send, packed[0]))


class _Replies:
    """Sends the replies of many threads: a thread that finds the pipe free sends all accumulated replies together."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()
        self._ready: deque[Packed] = deque()

    def send(self, env: Key, ok: bool, value: object) -> None:
        """Queue one reply, and send it unless another thread is sending."""
        self._ready.append(packed_reply(env, ok, value))
        while self._ready and self._lock.acquire(blocking=False):  # else the lock's holder checks again when it is done
            try:
                batch = [self._ready.popleft() for _ in range(len(self._ready))]
                if batch:
                    with contextlib.suppress(OSError):  # the parent is gone, and this process ends
                        self._connection.send(batch)
            finally:
                self._lock.release()
