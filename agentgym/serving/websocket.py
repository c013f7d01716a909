"""uvicorn's WebSocket with a short way for whole text frames, which is what nearly every message of a client is."""

import asyncio
import struct
import time
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import apply_mask  # pyright: ignore[reportPrivateImportUsage]  # in C, where that was compiled

from agentgym.serving.asgi import ANSWER_AT_ONCE

_TEXT = 0x81  # a whole message of text: no fragment, no reserved bit
_HEADS = [bytes((_TEXT, size)) for size in range(126)]
_AHEAD = 1 << 16  # bytes read ahead of the application, and bytes of answers put together, before either side has to wait
_EACH = 64  # bytes that a queued message counts beside its text
_SLICE = 0.005  # seconds that what arrived together is answered at once, until other connections get their turn


class QuickWebSocket(WebSocketsSansIOProtocol):
    """A connection whose whole, masked text frames are read and answered without the general parser.

    The handshake and every other frame (fragments, pings, closes, what is malformed or too long) go to `websockets` as
    uvicorn has it; the general parser only ever sees whole frames, so that the two can take turns. Answers to messages that
    arrived together are written together. An application may have messages answered where they arrive (`ANSWER_AT_ONCE`).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held = bytearray()
        """The beginning of a frame of which the rest has not come yet."""
        self._wanted = 2
        """Bytes that must be held before it is worth looking again."""
        self._fragments = False
        """Whether a fragmented message has begun, of which the general parser keeps account."""
        self._general = False
        """Whether the general parser takes all from here on, since it may hold part of a frame."""
        self._queued = 0
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._answer: Callable[[str], str | None] | None = None
        self._waiting = False
        """Whether the application waits for the next message, so that all before it are answered."""
        self._until = 0.0

    async def run_asgi(self) -> None:
        """Run the application, which finds in its scope how to have messages answered at once."""
        extensions = cast("dict[str, Any]", self.scope.setdefault("extensions", {}))
        extensions[ANSWER_AT_ONCE] = self._answer_with
        await super().run_asgi()

    def _answer_with(self, answer: Callable[[str], str | None] | None) -> None:
        self._answer = answer

    # From the client

    def data_received(self, data: bytes) -> None:
        """Queue what whole messages there are."""
        if not self.handshake_complete:
            self._general = self.handshake_initiated  # frames before the handshake has ended
        if self._general or not self.handshake_complete:
            super().data_received(data)
            return
        if not self._held and data[0] == _TEXT and data[1:2] and self._answered_alone(data):
            return
        if self._held:
            self._held += data
            if len(self._held) < self._wanted:
                return
            data = bytes(self._held)
            self._held.clear()
        self._until = time.monotonic() + _SLICE
        place = self._frames(data)
        if self._waiting:
            self._flush()
        if place < len(data) and not self.transport.is_closing():
            if self._general:
                super().data_received(data[place:])
            else:
                self._held += data[place:]
        if self._queued > _AHEAD and not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _answered_alone(self, data: bytes) -> bool:
        """Answer `data` where it is one whole, short text frame, as it is from a client that waits for each answer."""
        if not 0x80 <= data[1] < 0xFE or len(data) != (data[1] & 0x7F) + 6 or self._fragments or not self._idle():
            return False
        try:
            text = apply_mask(data[6:], data[2:6]).decode()
        except UnicodeDecodeError:
            return False
        answer = self._answer(text) if self._answer else None
        if answer is None:
            return False
        self.transport.write(_framed(answer.encode()))
        return True

    def _frames(self, data: bytes) -> int:
        """Take the whole frames at the beginning of `data`; return where the first begins that is not all there."""
        place, most, at_once = 0, self.config.ws_max_size, self._idle()
        while len(data) - place >= 2:
            first, second = data[place], data[place + 1]
            size, start = second & 0x7F, place + 6 if second & 0x80 else place + 2
            if size > 125:
                wide = 2 if size == 126 else 8
                start += wide
                if len(data) < start:
                    self._wanted = start - place
                    return place
                size = int.from_bytes(data[place + 2 : place + 2 + wide], "big")
            if size > most:  # the general parser refuses it by its length alone
                self._general = True
                return place
            stop = start + size
            if len(data) < stop:
                self._wanted = stop - place
                return place
            if first == _TEXT and second & 0x80 and not self._fragments:
                at_once = self._text(data, place, start, stop, at_once)
            else:
                self._other(data[place:stop], first)
            place = stop
            if self.close_sent or self.transport.is_closing():
                return len(data)
        self._wanted = 2
        return place

    def _text(self, data: bytes, place: int, start: int, stop: int, at_once: bool) -> bool:
        """Answer or queue a text frame; return whether the next one may be answered at once, as this one if `at_once`."""
        try:
            text = apply_mask(data[start:stop], data[start - 4 : start]).decode()
        except UnicodeDecodeError:
            super().data_received(data[place:stop])  # which closes the connection with the right code
            return False
        if at_once and self._answer and time.monotonic() < self._until:
            answer = self._answer(text)
            if answer is not None:
                self._write(answer)
                return self.writable.is_set()
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        self._queued += stop - start + _EACH
        return False

    def _other(self, frame: bytes, first: int) -> None:
        opcode, last = first & 0x0F, bool(first & 0x80)
        if opcode in (0, 1, 2):
            self._fragments = not last
        super().data_received(frame)

    async def receive(self) -> Any:
        """Return the next message; answers are sent before it waits for one."""
        queue = self.queue
        if queue.empty():
            self._flush()
            self._waiting = True
            try:
                message = await queue.get()
            finally:
                self._waiting = False
        else:
            message = queue.get_nowait()
        if queue.empty():
            self._queued = 0
            if self.read_paused and not self.disconnected:
                self.read_paused = False
                self.transport.resume_reading()
        return message

    # To the client

    async def send(self, message: Any) -> None:
        """Send a message, with others where more of the client's are waiting; ClientDisconnected once it is closed."""
        if self.close_sent and self.handshake_complete:
            raise ClientDisconnected
        text = message.get("text")
        if text is None or message["type"] != "websocket.send" or not self._open():
            self._flush()
            await super().send(message)
            return
        if not self._out and not self.queue.empty():
            asyncio.get_running_loop().call_soon(self._flush)  # where the application waits for something else
        self._write(text)
        if self.queue.empty():
            self._flush()

    def _write(self, text: str) -> None:
        frame = _framed(text.encode())
        self._out.append(frame)
        self._out_bytes += len(frame)
        if self._out_bytes > _AHEAD:
            self._flush()

    def _idle(self) -> bool:
        """Whether all messages before are answered, and another answer may be written."""
        return self._waiting and self.queue.empty() and self._open()

    def _open(self) -> bool:
        return (
            self.handshake_complete
            and self.initial_response is None
            and not (self.close_sent or self.disconnected or self.transport.is_closing())
            and self.writable.is_set()
        )

    def _flush(self) -> None:
        if self._out:
            out = b"".join(self._out)
            self._out.clear()
            self._out_bytes = 0
            if not self.transport.is_closing():
                self.transport.write(out)

    def shutdown(self) -> None:
        """Say goodbye after what was answered."""
        self._flush()
        super().shutdown()


def _framed(payload: bytes) -> bytes:
    """Return a whole frame of text as servers send it."""
    size = len(payload)
    if size < 126:
        return _HEADS[size] + payload
    return (struct.pack("!BBH", _TEXT, 126, size) if size < 1 << 16 else struct.pack("!BBQ", _TEXT, 127, size)) + payload
