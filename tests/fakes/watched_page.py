"""A server of a run's page and what it answers."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentgym.report.watch.run import FollowedRun
from agentgym.report.watch.server import PageServer, Watch


@contextmanager
def serving(*paths: Path, host: str = "127.0.0.1", token: str | None = None) -> Iterator[PageServer]:
    server = PageServer(Watch([FollowedRun(path) for path in paths]), host, 0, token)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "this never came about"
        time.sleep(0.05)
