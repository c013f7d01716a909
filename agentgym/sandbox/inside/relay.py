"""One address in a sandbox that leads out over this program's own input and output. Runs inside: standard library only.

Connections to a port of loopback become frames: the number of the connection, a kind, a length, bytes. The first frame
out is the port. The reader outside alone decides where the frames go.
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


def say(number: int, kind: int, body: bytes = b"") -> None:
    """Write a frame; wait until it is accepted."""
    left = memoryview(HEAD.pack(number, kind, len(body)) + body)
    while left:
        left = left[os.write(1, left) :]


class Relay:
    """Forwards bytes from and to connections."""

    def __init__(self) -> None:
        self.writers: Dict[int, asyncio.StreamWriter] = {}  # noqa: UP006
        self.last = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until both sides have ended."""
        if len(self.writers) >= MOST:
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
        """Close a connection, and report it."""
        writer = self.writers.pop(number, None)
        if writer is not None:
            writer.close()
            say(number, CLOSE)

    async def hear(self, reader: asyncio.StreamReader) -> None:
        """Dispatch frames until the input ends."""
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
    """Listen on a free port of loopback."""
    relay = Relay()
    reader = asyncio.StreamReader(limit=1 << 20)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server = await asyncio.start_server(relay.connected, "127.0.0.1", 0)
    say(server.sockets[0].getsockname()[1], READY)
    await relay.hear(reader)


if __name__ == "__main__":
    asyncio.run(main())
