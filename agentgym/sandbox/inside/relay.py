"""Relays connections in a sandbox over standard input and output. Runs inside the sandbox: standard library only.

Data of connections to a loopback port is sent as frames: connection number, kind, length, bytes. The first frame announces
the port. Only the program outside decides which server receives the data.
"""

import asyncio
import os
import struct
import sys
from typing import Dict  # noqa: UP035  read by Python 3.8

HEAD = struct.Struct("!IBI")
READY, OPEN, DATA, EOF, CLOSE = 0, 1, 2, 3, 4
PIECE = 1 << 15
MOST = 64
"""Maximum simultaneous connections."""
WAIT = 50
"""Tenths of a second that a new connection waits for another one to close."""


def say(number: int, kind: int, body: bytes = b"") -> None:
    """Write a frame to standard output, blocking until it is accepted."""
    left = memoryview(HEAD.pack(number, kind, len(body)) + body)
    while left:
        left = left[os.write(1, left) :]


class Relay:
    """Forwards bytes between connections and the frames on standard input and output."""

    def __init__(self) -> None:
        self.writers: Dict[int, asyncio.StreamWriter] = {}  # noqa: UP006
        self.last = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward the data of a new connection to the host until the client closes it."""
        for _ in range(WAIT):  # those whose client has gone are open until the server has closed them
            if len(self.writers) < MOST:
                break
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
        self.last += 1
        number = self.last
        self.writers[number] = writer
        say(number, OPEN)
        try:
            while True:
                piece = await reader.read(PIECE)
                if not piece:
                    break
                say(number, DATA, piece)
            say(number, EOF)
        except OSError:
            self.end(number)

    def end(self, number: int) -> None:
        """Close a connection, and send a frame that says so."""
        writer = self.writers.pop(number, None)
        if writer is not None:
            writer.close()
            say(number, CLOSE)

    async def hear(self, reader: asyncio.StreamReader) -> None:
        """Dispatch frames from the host to the connections until the input ends."""
        while True:
            try:
                number, kind, length = HEAD.unpack(await reader.readexactly(HEAD.size))
                body = await reader.readexactly(length)
            except asyncio.IncompleteReadError:
                return
            writer = self.writers.get(number)
            if writer is None:
                continue
            try:
                if kind == DATA:
                    writer.write(body)
                else:
                    self.end(number)
            except (OSError, RuntimeError):
                self.end(number)


async def main() -> None:
    """Listen on a free loopback port, announce it, and relay until the input ends."""
    relay = Relay()
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server = await asyncio.start_server(relay.connected, "127.0.0.1", 0)
    say(server.sockets[0].getsockname()[1], READY)
    await relay.hear(reader)


if __name__ == "__main__":
    asyncio.run(main())
