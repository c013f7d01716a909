"""An engine with scripted replies: deterministic and lightweight, for tests and examples."""

import asyncio
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from agentgym.engines.in_flight import AdmissionGate, check_prompt
from agentgym.engines.protocol import Completion, Request, TokenEngine, Watch
from agentgym.errors import BadData, Fault, MissingExtra, Reason, how_to_install

if TYPE_CHECKING:
    from torch import Tensor

Reply = Callable[[str, int], str]


class ScriptedEngine(AdmissionGate, TokenEngine):
    """Replies from a list (one per turn, equal in every session), a list per session, a function, or a file.

    A function is called with the prompt's text and the session's turn, from 0. A file contains one JSON string per
    line. A session that runs out of replies raises a Fault. Every token has log-probability `logprob` (default -1). `pace`
    is the number of event loop iterations per token (default 0): with 1 or more, longer replies end later, without a
    clock.
    """

    def __init__(
        self,
        replies: Sequence[str] | Mapping[str, Sequence[str]] | Reply | Path | str,
        tokenizer: object = None,
        *,
        context: int = 1_000_000,
        logprob: float = -1.0,
        pace: int = 0,
    ) -> None:
        super().__init__()
        self.tokenizer: Any = ByteTokenizer() if tokenizer is None else tokenizer
        self.policy_version = 0
        self.context = context
        self._logprob, self._pace = logprob, pace
        self._replies = read_replies(Path(replies)) if isinstance(replies, str | Path) else replies
        self._turns: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._aborted: set[str] = set()
        self._closed = False

    async def complete(self, request: Request) -> Completion:
        """Return the session's next reply, cut after its first stop token, at `max_tokens` or at the end of the context.

        Stop tokens are `sampling.stop_ids` (default: the tokenizer's end token). To a reply without a stop token, the
        first of `stop_ids` is appended.

        Raises:
            BadConfig: the prompt is empty or contains an invalid id.
            Fault: the engine was closed, or the script has no more replies.
        """
        prompt_ids, sampling, session = request.prompt_ids, request.sampling, request.session
        check_prompt(prompt_ids)
        if self._closed:
            raise Fault("the scripted engine was closed", reason=Reason.ENGINE)
        if not await self._entered(session):
            return Completion([], [], "abort", self.policy_version)
        version = self.policy_version
        room = request.room(self.context)
        if room < 1:
            return Completion([], [], "length", version)
        turn = self._turns.get(session, 0)
        text = self._reply(prompt_ids, session, turn)
        self._turns[session] = turn + 1
        ids = [int(i) for i in self.tokenizer.encode(text, add_special_tokens=False)]
        stops = sampling.stop_ids or (self.tokenizer.eos_token_id,)
        ends = next((i for i, id in enumerate(ids) if id in stops), None)
        ids = ids[: ends + 1] if ends is not None else [*ids, int(stops[0])]
        finish = "stop" if len(ids) <= room else "length"
        ids = ids[:room]
        done, ended = await self._spend(session, ids, request.watch)
        finish = "stop" if ended else finish if done == len(ids) else "abort"
        ids = ids[:done]
        return Completion(ids, [self._logprob] * len(ids), finish, version)

    async def _entered(self, session: str) -> bool:
        """Wait until requests may start; return False if the session was aborted."""
        if self.is_open:
            return True
        self._waiting[session] = self._waiting.get(session, 0) + 1
        while not self.is_open and self._waiting.get(session):
            await asyncio.sleep(0)
        waits = self._waiting.pop(session, 0) - 1
        if waits > 0:
            self._waiting[session] = waits
        return waits >= 0

    async def _spend(self, session: str, ids: Sequence[int], watch: Watch | None) -> tuple[int, bool]:
        """Emit tokens one by one; return the number emitted, and True if `watch` ended the reply."""
        self._running[session] = self._running.get(session, 0) + 1
        try:
            for done, id in enumerate(ids):
                for _ in range(self._pace):
                    await asyncio.sleep(0)
                if session in self._aborted:
                    return done, False
                if watch is not None and watch(id, self._logprob):
                    return done + 1, True
            return len(ids), False
        finally:
            self._running[session] -= 1
            if not self._running[session]:
                del self._running[session]
                self._aborted.discard(session)

    def _reply(self, prompt_ids: Sequence[int], session: str, turn: int) -> str:
        if callable(self._replies):
            return self._replies(self.tokenizer.decode(list(prompt_ids)), turn)
        lines = self._replies.get(session, ()) if isinstance(self._replies, Mapping) else self._replies
        if turn >= len(lines):
            raise Fault(
                f"the script has {len(lines)} replies for session {session!r}; turn {turn + 1} was asked",
                reason=Reason.ENGINE,
            )
        return lines[turn]

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the constant log-probability for each token after the first, [tokens - 1]."""
        return [self._logprob] * (len(ids) - 1)

    def abort(self, session: str) -> None:
        """End the session's requests with finish `abort`."""
        self._waiting.pop(session, None)
        if session in self._running:
            self._aborted.add(session)

    async def drained(self) -> None:
        """Wait until no request is running."""
        while self._running:
            await asyncio.sleep(0)

    async def load_weights(self, weights: str | Path | Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Set a new version number after running requests have finished; there are no weights."""
        with self._blocked():
            await self.drained()
            self.policy_version = version

    def close(self) -> None:
        """Abort running and waiting requests, and refuse further ones."""
        self._closed = True
        for session in [*self._running, *self._waiting]:
            self.abort(session)


def read_replies(path: Path) -> list[str]:
    """Read replies, one JSON string per line; empty lines are skipped.

    Raises:
        BadData: the file cannot be read, or a line is not a JSON string; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise BadData(f"script {path} cannot be read: {error}; expected a file with one JSON string a line") from error
    replies: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            reply = json.loads(line)
        except ValueError:
            reply = None
        if not isinstance(reply, str):
            raise BadData(f'{path}, line {number}: expected a JSON string such as "look", found {line[:60]!r}')
        replies.append(reply)
    return replies


class ByteTokenizer:
    """A tokenizer with one token per byte and three ChatML control tokens; it has the methods that agents use."""

    eos_token = "<|im_end|>"
    eos_token_id = 258
    pad_token_id = 256
    all_special_ids: Sequence[int] = (256, 257, 258)
    control: Mapping[str, int] = {"<|endoftext|>": 256, "<|im_start|>": 257, "<|im_end|>": 258}
    chat_template = (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )

    def __len__(self) -> int:
        return 259

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Return one id per byte; control strings in the text become their tokens."""
        ids: list[int] = []
        while text:
            position, name = min((text.find(name) % (len(text) + 1), name) for name in self.control)  # the end if not found
            ids += text[:position].encode("utf-8", "replace")
            if position < len(text):
                ids.append(self.control[name])
            text = text[position + len(name) :]
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Return the decoded text; invalid UTF-8 becomes replacement characters."""
        names = {id: b"" if skip_special_tokens else name.encode() for name, id in self.control.items()}
        return b"".join(names.get(id) or (bytes([id]) if id < 256 else b"") for id in ids).decode("utf-8", "replace")

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        *,
        tokenize: bool = False,
        add_generation_prompt: bool = False,
        **_: object,
    ) -> str | list[int]:
        """Return the conversation in ChatML, as text or ids, without using a template engine."""
        text = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in conversation)
        text += "<|im_start|>assistant\n" if add_generation_prompt else ""
        return self.encode(text) if tokenize else text

    @property
    def added_tokens_decoder(self) -> dict[int, object]:
        """Control tokens by id."""
        return {id: SimpleNamespace(content=name, lstrip=False, rstrip=False) for name, id in self.control.items()}

    @functools.cached_property
    def backend_tokenizer(self) -> object:
        """The same tokenizer as an object of the `tokenizers` library (extra `train`).

        Raises:
            MissingExtra: the library is not installed.
        """
        try:
            from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
        except ImportError as error:
            raise MissingExtra(f"agents over tokens need the `tokenizers` library: {how_to_install('train')}") from error
        backend = cast(
            "Any", Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(_byte_symbols())}, merges=[]))
        )
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
        backend.add_special_tokens([AddedToken(name, special=True) for name in self.control])
        return backend


def _byte_symbols() -> list[str]:
    """Return the visible character that byte-level tokenizers use for each byte (GPT-2's table)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(hidden)) for byte in range(256)]
