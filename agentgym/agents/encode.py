"""Encoding of text in which untrusted parts can never become control tokens.

A chat template's rendering is split into control tokens and the runs of plain text between them. Runs are encoded by a
copy of the tokenizer without added tokens, so `<|im_end|>` in a run is encoded letter by letter. If no untrusted text
contains a control string, the result equals the tokenizer's encoding of the whole rendering.
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
    """Text from the environment or the model, as opposed to the prompt's own text; it never becomes a control token."""

    __slots__ = ()


def mark(name: object) -> str:
    """Return a placeholder for an untrusted text, to be used while the template is rendered."""
    return f"{_OPEN}{name}{_CLOSE}"


def marked_once(rendered: str, count: int) -> bool:
    """Return True if each of the placeholders 0 to `count` - 1 occurs exactly once in a rendering."""
    mark_counts = Counter(MARK.findall(rendered))
    return all(mark_counts[str(number)] == 1 for number in range(count))


def hide(pieces: Iterable[str], cores: list[str]) -> str:
    """Join pieces to one string with a placeholder for each untrusted text, and append these texts to `cores`.

    White space at the ends of an untrusted text is not replaced, so a template that trims messages trims it too.
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
    """Plain text to be encoded in one call; an int n is a gap for the n-th untrusted text."""

    __slots__ = ()


_Part = tuple[int, ...] | Run


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A rendering as tokens with gaps: fixed ids, and runs that are encoded once their gaps are filled."""

    parts: tuple[_Part, ...]
    encode: Callable[[str], tuple[int, ...]]

    @staticmethod
    def joined(parts: Iterable[_Part], encode: Callable[[str], tuple[int, ...]]) -> "Skeleton":
        """Make a skeleton from parts in order; adjacent fixed ids are merged."""
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
        """Return the token ids with the gaps filled by `cores`."""
        ids: list[int] = []
        for part in self.parts:
            if isinstance(part, Run):
                ids += self.encode("".join([cores[piece] if isinstance(piece, int) else piece for piece in part]))
            else:
                ids += part
        return ids

    def split(self, control: frozenset[int]) -> tuple[tuple[int, ...], "Skeleton"]:
        """Split after the first control token if it precedes the first run; otherwise the first half is empty."""
        head = self.parts[0] if self.parts else ()
        if not isinstance(head, Run):
            for place, id in enumerate(head, 1):
                if id in control:
                    return head[:place], Skeleton((head[place:], *self.parts[1:]), self.encode)
        return (), self


class Encoder:
    """Encodes renderings and plain text for a Hugging Face tokenizer (one with `backend_tokenizer`)."""

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
        """Ids of added and special tokens by their text. White space (as in Gemma) and `<unk>` count as plain text."""
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
        """Encode a text as plain text, so that the result contains no control tokens."""
        return self._cached(text) if len(text) <= _CACHED else self._encode(text)

    def _encode(self, text: str) -> tuple[int, ...]:
        """Encode a text, in separately cached words if that gives the same tokens."""
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
        """Return the (start, end) of each token in the text, in characters."""
        return self._parse(text).offsets

    def _parse(self, text: str) -> Any:
        try:
            return self._plain.encode(text, add_special_tokens=False)
        except (UnicodeEncodeError, TypeError):
            return self._plain.encode(storable(text), add_special_tokens=False)

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens to text, with control tokens spelled out."""
        return self._remembered(tuple(ids)) if len(ids) <= _CACHED else self._text(ids)

    def _text(self, ids: Sequence[int]) -> str:
        return self._decode(list(ids), skip_special_tokens=False)

    def compile(self, rendered: str) -> Skeleton:
        """Convert a rendering with placeholders to a skeleton; control strings elsewhere become control tokens."""
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
        """Encode the parts of a run that do not depend on its gaps."""
        parts = borders.cut(run, self._border) if self._border else [run]
        return [
            Run(part)
            if any(isinstance(piece, int) for piece in part)
            else self._encode("".join(cast("Sequence[str]", part)))
            for part in parts
        ]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Decode sampled tokens to pieces: each control token is its own piece, and all other text is untrusted."""
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
        """Encode pieces without a template; control strings become control tokens, except in untrusted text."""
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
