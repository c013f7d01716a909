"""Ctrl-C held back while weights and files stand half updated."""

import signal
from collections.abc import Generator
from contextlib import contextmanager

from agentgym.trainers.seam import SECOND_CTRL_C


@contextmanager
def uninterrupted() -> Generator[None]:
    """Hold Ctrl-C back until the block is done, so that weights and files never stand half updated; a second one ends it."""
    pending: list[bool] = []

    def hold(*_: object) -> None:
        if pending:
            raise SystemExit(SECOND_CTRL_C)  # no checkpoint: the state is not whole; the last one stands
        pending.append(True)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pending:
        signal.raise_signal(signal.SIGINT)  # to whoever handles it: of several processes none may leave alone
