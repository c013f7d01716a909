"""How long the server of a page waits for its clients, and who gives way where there are too many."""

import io
import socket
import threading
import time
from contextlib import suppress


class TimedReader(io.RawIOBase):
    """Reads a socket until a deadline, which moves to `seconds` after the first byte of a request."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self.expect(seconds)

    def expect(self, seconds: float) -> None:
        """Wait so long for the first byte of the next request."""
        self._deadline, self._begun = time.monotonic() + seconds, False

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read what there is; TimeoutError after the deadline."""
        self._connection.settimeout(max(self._deadline - time.monotonic(), 1e-3))
        count = self._connection.recv_into(buffer)
        if not self._begun:
            self._deadline, self._begun = time.monotonic() + self._seconds, True
        elif time.monotonic() > self._deadline:
            raise TimeoutError("the request did not arrive in time")
        return count


class Places:
    """Places for connections. Where all are taken, the one that has waited longest for a request gives its place up."""

    def __init__(self, number: int) -> None:
        self._free = threading.BoundedSemaphore(number)
        self._lock = threading.Lock()
        self._idle: dict[socket.socket, None] = {}

    def take(self, seconds: float) -> bool:
        """Take a place; False where all are busy."""
        if self._free.acquire(blocking=False):
            return True
        with self._lock:
            longest = next(iter(self._idle), None)
            if longest is not None:
                del self._idle[longest]
                with suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)  # which ends its thread
        return longest is not None and self._free.acquire(timeout=seconds)

    def give(self) -> None:
        """Give a place back."""
        self._free.release()

    def idle(self, connection: socket.socket) -> None:
        """Note that a connection waits for a request from now on."""
        with self._lock:
            self._idle[connection] = None

    def busy(self, connection: socket.socket) -> None:
        """Note that a connection waits no more."""
        with self._lock:
            self._idle.pop(connection, None)
