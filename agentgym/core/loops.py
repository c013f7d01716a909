"""Run blocking functions that start event loops inside a running event loop, as in a notebook."""

# asyncio documents the functions used here for custom event loops and tasks.
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def own_loop() -> Generator[None]:
    """Let a blocking function start event loops inside the block although a loop is running; the running loop waits.

    The function runs in the same thread, so Ctrl-C reaches it as usual. It can also be used as a decorator:
    `@own_loop()`.
    """
    running = asyncio._get_running_loop()
    task = None if running is None else asyncio.current_task(running)
    if running is not None and task is not None:  # from Python 3.14 on a thread has one current task, whatever its loops
        asyncio.tasks._leave_task(running, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)
        if running is not None and task is not None:
            asyncio.tasks._enter_task(running, task)
