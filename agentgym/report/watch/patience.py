"""Timeouts for the page server's connections, and eviction of idle connections if there are too many."""

import io
import socket
import threading
import time
from contextlib import suppress


class TimedReader(io.RawIOBase):
    """Socket reader with a deadline; after the first byte of a request, the rest must arrive within `seconds`."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self.expect(seconds)

    def expect(self, seconds: float) -> None:
        """Set the time limit for the first byte of the next request."""
        self._deadline, self._begun = time.monotonic() + seconds, False

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` requires."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read the available bytes into the buffer and return their number.

        Raises:
            TimeoutError: the deadline has passed.
        """
        self._connection.settimeout(max(self._deadline - time.monotonic(), 1e-3))
        count = self._connection.recv_into(buffer)
        if not self._begun:
            self._deadline, self._begun = time.monotonic() + self._seconds, True
        elif time.monotonic() > self._deadline:
            raise TimeoutError("the request did not arrive in time")
        return count


class Places:
    """Connection slots; if all are taken, the connection that has been idle longest is closed."""

    def __init__(self, number: int) -> None:
        self._free = threading.BoundedSemaphore(number)
        self._lock = threading.Lock()
        self._idle: dict[socket.socket, None] = {}

    def take(self, seconds: float) -> bool:
        """Acquire a slot, if necessary by closing the connection that has been idle longest.

        Return False if all connections are busy, or if the closed connection's slot is not free within `seconds`.
        """
        if self._free.acquire(blocking=False):
            return True
        with self._lock:
            longest = next(iter(self._idle), None)
            if longest is not None:
                del self._idle[longest]
                with suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)  # this ends its thread
        return longest is not None and self._free.acquire(timeout=seconds)

    def give(self) -> None:
        """Release a slot."""
        self._free.release()

    def idle(self, connection: socket.socket) -> None:
        """Mark a connection as waiting for a request."""
        with self._lock:
            self._idle[connection] = None

    def busy(self, connection: socket.socket) -> None:
        """Mark a connection as no longer waiting."""
        with self._lock:
            self._idle.pop(connection, None)
