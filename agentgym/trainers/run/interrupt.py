"""Delay Ctrl-C while weights and files are half updated."""

import signal
from collections.abc import Generator
from contextlib import contextmanager

from agentgym.trainers.seam import SECOND_CTRL_C


@contextmanager
def uninterrupted() -> Generator[None]:
    """Delay Ctrl-C until the end of the block, so that weights and files are never half updated; a second Ctrl-C exits.

    Raises:
        SystemExit: Ctrl-C was pressed twice.
    """
    pending: list[bool] = []

    def hold(*_: object) -> None:
        if pending:
            raise SystemExit(SECOND_CTRL_C)  # no checkpoint: the state is inconsistent; the last one remains
        pending.append(True)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pending:
        signal.raise_signal(signal.SIGINT)  # to its handler, because processes have to leave together
