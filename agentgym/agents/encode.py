"""Encodes text so that nothing the environment wrote can become a control token.

A chat template's rendering is split into control tokens and the runs of plain text between them. Runs are encoded
by a copy of the tokenizer that has no added tokens, so a run that spells `<|im_end|>` becomes the letters of it. On
text that spells no control token the result is what the tokenizer itself makes of the whole rendering.
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from agentgym.agents import borders
from agentgym.core.screen import storable
from agentgym.errors import BadConfig

_OPEN, _CLOSE = "\ue000", "\ue001"
MARK = re.compile(f"{_OPEN}([a-z0-9]+){_CLOSE}")
_LONG = 32768  # characters of a text whose encoding other threads should not wait for
_CACHED = 512  # characters or tokens; longer texts are not remembered, so that the caches stay small


class UntrustedText(str):
    """Text that the environment or the model wrote, as against the prompt's own: never read for control tokens."""

    __slots__ = ()


def mark(name: object) -> str:
    """Return the placeholder of a piece of text during rendering of the template."""
    return f"{_OPEN}{name}{_CLOSE}"


def marked_once(rendered: str, count: int) -> bool:
    """Return whether the placeholders 0 to `count` stand in a rendering, each once."""
    mark_counts = Counter(MARK.findall(rendered))
    return all(mark_counts[str(number)] == 1 for number in range(count))


def hide(pieces: Iterable[str], cores: list[str]) -> str:
    """Join pieces to one string with a mark for each foreign one; the marked texts are appended to `cores`.

    White space around a foreign text stays visible, so that a template which trims its messages trims these too.
    """
    parts: list[str] = []
    for piece in pieces:
        if not isinstance(piece, UntrustedText):
            parts.append(piece)
            continue
        core = piece.strip()
        if not core:
            parts.append(piece)
            continue
        start = piece.index(core)
        parts += (piece[:start], mark(len(cores)), piece[start + len(core) :])
        cores.append(core)
    return "".join(parts)


class Run(tuple[str | int, ...]):
    """Plain text with gaps, each the number of the text that belongs there; encoded as one."""

    __slots__ = ()


_Part = tuple[int, ...] | Run


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A rendering in tokens, with gaps: fixed ids, and runs of text that are encoded when their gaps are known."""

    parts: tuple[_Part, ...]
    encode: Callable[[str], tuple[int, ...]]

    @staticmethod
    def joined(parts: Iterable[_Part], encode: Callable[[str], tuple[int, ...]]) -> "Skeleton":
        """Make a skeleton of parts in order; neighbouring fixed ids become one."""
        built: list[_Part] = []
        fixed: list[int] = []  # gathered, since tuples that grow would take time in the square of a conversation's length
        for part in parts:
            if not isinstance(part, Run):
                fixed += part
            elif part:
                built += [tuple(fixed), part] if fixed else [part]
                fixed = []
        return Skeleton((*built, tuple(fixed)) if fixed else tuple(built), encode)

    def fill(self, cores: Sequence[str]) -> list[int]:
        """Return the ids with the gaps filled."""
        ids: list[int] = []
        for part in self.parts:
            if isinstance(part, Run):
                ids += self.encode("".join([cores[piece] if isinstance(piece, int) else piece for piece in part]))
            else:
                ids += part
        return ids

    def split(self, control: frozenset[int]) -> tuple[tuple[int, ...], "Skeleton"]:
        """Split after the first control token; the first half is empty if a placeholder precedes it."""
        head = self.parts[0] if self.parts else ()
        if not isinstance(head, Run):
            for place, id in enumerate(head, 1):
                if id in control:
                    return head[:place], Skeleton((head[place:], *self.parts[1:]), self.encode)
        return (), self


class Encoder:
    """Encodes renderings and plain text for one tokenizer of the Hugging Face kind (with `backend_tokenizer`)."""

    def __init__(self, tokenizer: Any) -> None:
        try:
            backend: Any = tokenizer.backend_tokenizer
        except AttributeError:
            raise BadConfig(
                f"tokenizer {type(tokenizer).__name__} has no backend_tokenizer: use a fast Hugging Face tokenizer "
                "(transformers.AutoTokenizer creates one), because only those can encode control tokens as plain text"
            ) from None
        unknown = getattr(tokenizer, "unk_token_id", None)
        added: dict[str, tuple[int, Any]] = {
            token.content: (int(id), token)
            for id, token in tokenizer.added_tokens_decoder.items()
            if token.content.strip() and id != unknown
        }
        self.control: dict[str, int] = {content: id for content, (id, _) in added.items()}
        """Id of every added or special string; added white space (Gemma has some) is text like any other, `<unk>` too."""
        self.control_ids = (frozenset(self.control.values()) | frozenset(tokenizer.all_special_ids)) - {unknown}
        self.names = {id: content for content, id in self.control.items()}
        self._left = {content for content, (_, token) in added.items() if token.lstrip}
        self._right = {content for content, (_, token) in added.items() if token.rstrip}
        longest_first = sorted(self.control, key=len, reverse=True)
        self._splitter = re.compile("|".join([MARK.pattern, *map(re.escape, longest_first)]))
        self._decode: Callable[..., str] = backend.decode
        source = _without_control_tokens(backend.to_str())
        self._plain: Any = backend.__class__.from_str(source)
        blank = {token.content: int(id) for id, token in tokenizer.added_tokens_decoder.items() if not token.content.strip()}
        self._moved: dict[int, int] = {self._plain.token_to_id(content): id for content, id in blank.items()}
        self._cached = functools.lru_cache(16384)(self._encode)
        self._word = functools.lru_cache(16384)(self._after_blank)
        self._border = borders.border(source, self._whole)
        self._remembered = functools.lru_cache(16384)(self._text)

    def plain(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text; none is a control token."""
        return self._cached(text) if len(text) <= _CACHED else self._encode(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, word by word from a cache if that gives the same result."""
        if self._border is None or len(text) >= _LONG:
            return self._whole(text)
        first, *words = self._border.split(text)
        if not words or max(map(len, words)) > _CACHED:
            return self._whole(text)
        return tuple(chain(self._whole(first), chain.from_iterable(map(self._word, words))))

    def _after_blank(self, word: str) -> tuple[int, ...]:
        return self._whole(" " + word)

    def _whole(self, text: str) -> tuple[int, ...]:
        encoded: list[int] = self._ids(text)
        if self._moved:
            encoded = [self._moved.get(id, id) for id in encoded]
        if self.control_ids.isdisjoint(encoded):
            return tuple(encoded)
        ids: list[int] = []  # the vocabulary itself holds a control string as one piece: spell it out
        for id, (start, end) in zip(encoded, self.offsets(text), strict=True):
            if id not in self.control_ids:
                ids.append(id)
            elif end - start > 1:
                ids.extend(i for letter in text[start:end] for i in self.plain(letter))
        return tuple(ids)

    def _ids(self, text: str) -> list[int]:
        if len(text) < _LONG:
            return self._parse(text).ids
        # Of the library's calls this one lets other threads run meanwhile; it gives no offsets.
        return self._plain.encode_batch_fast([storable(text)], add_special_tokens=False)[0].ids

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each token in the text, in characters."""
        return self._parse(text).offsets

    def _parse(self, text: str) -> Any:
        try:
            return self._plain.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            return self._plain.encode(storable(text), add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of tokens, control tokens spelled out."""
        return self._remembered(tuple(ids)) if len(ids) <= _CACHED else self._text(ids)

    def _text(self, ids: Sequence[int]) -> str:
        return self._decode(list(ids), skip_special_tokens=False)

    def compile(self, rendered: str) -> Skeleton:
        """Turn a rendering with marks into a skeleton; control strings outside the marks are control tokens."""
        parts: list[_Part] = []
        run: list[str | int] = []
        position, swallow = 0, False  # some control tokens swallow the white space that follows or precedes them
        for match in self._splitter.finditer(rendered):
            text = rendered[position : match.start()]
            text = text.lstrip() if swallow and not run else text
            text = text.rstrip() if match[0] in self._left else text
            run += [text] if text else []
            position = match.end()
            if match[1] is not None:
                run.append(int(match[1]))
                continue
            parts += [*self._runs(run), (self.control[match[0]],)]
            run, swallow = [], match[0] in self._right
        text = rendered[position:]
        run += [text.lstrip() if swallow and not run else text]
        return Skeleton.joined([*parts, *self._runs(run)], self.plain)

    def _runs(self, run: Sequence[str | int]) -> "list[_Part]":
        """Return a run in tokens as far as they do not depend on its gaps."""
        parts = borders.cut(run, self._border) if self._border else [run]
        return [
            Run(part)
            if any(isinstance(piece, int) for piece in part)
            else self._encode("".join(cast("Sequence[str]", part)))
            for part in parts
        ]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return sampled tokens as text: control tokens the model chose as they are, everything else foreign."""
        pieces: list[str] = []
        plain: list[int] = []
        for id in [*ids, None]:
            if id is None or id in self.control_ids:
                if plain:
                    pieces.append(UntrustedText(self._decode(plain, skip_special_tokens=False)))
                    plain = []
                if id is not None:
                    pieces.append(self.names.get(id, ""))
            else:
                plain.append(id)
        return pieces

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """Return the tokens of pieces that need no template: control strings count except in foreign ones."""
        cores: list[str] = []
        return self.compile(hide(pieces, cores)).fill(cores)


def _without_control_tokens(source: str) -> str:
    raw: dict[str, Any] = json.loads(source)
    blank = [token for token in raw["added_tokens"] if not token["content"].strip()]
    raw.update(added_tokens=blank, post_processor=None, truncation=None, padding=None)
    first: dict[str, Any] = raw.get("pre_tokenizer") or {}
    step: dict[str, Any]
    for step in [first, *first.get("pretokenizers", [])]:
        if step.get("prepend_scheme") == "first":  # runs stand after a control token, never at the start of the text
            step["prepend_scheme"] = "never"
    return json.dumps(raw, ensure_ascii=False)
