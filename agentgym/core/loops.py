"""Event loops: functions that block, called where one is running already."""

# asyncio documents the functions used here for those who make event loops and tasks of their own.
# pyright: reportPrivateUsage=false

import asyncio
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def own_loop() -> Generator[None]:
    """Let a function that blocks start event loops where one is running already, as in a notebook: that one waits.

    The function stays in its thread, so that Ctrl-C reaches it as anywhere. Also a decorator: `@own_loop()`.
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
