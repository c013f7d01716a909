"""Event loops: functions that block, called where one is running already."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def own_loop() -> Generator[None]:
    """Let a function that blocks start event loops where one is running already, as in a notebook: that one waits.

    The function stays in its thread, so that Ctrl-C reaches it as anywhere. Also a decorator: `@own_loop()`.
    """
    running = asyncio._get_running_loop()  # pyright: ignore[reportPrivateUsage]  # documented, for who makes event loops
    asyncio._set_running_loop(None)  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        asyncio._set_running_loop(running)  # pyright: ignore[reportPrivateUsage]
