"""Prompt tokens, stored as a prefix of a list that all prompts of an episode share."""

from collections.abc import Iterator, Sequence
from typing import Any, cast, overload


class Prompt(Sequence[int]):
    """A prefix of a growing list of token ids, so that a prompt that extends another stores only the added tokens.

    It behaves like an immutable list of ints: slices and sums are lists, and it equals a list with the same ids.
    """

    __slots__ = ("_length", "_tokens")

    def __init__(self, tokens: list[int], length: int) -> None:
        self._tokens, self._length = tokens, length

    def extended(self, ids: list[int]) -> "Prompt":
        """Return a prompt of the tokens `ids`; it shares this prompt's list if `ids` extend the whole list."""
        tokens, length = self._tokens, self._length
        if len(tokens) == length and ids[:length] == tokens:
            tokens.extend(ids[length:])
            return Prompt(tokens, len(ids))
        return Prompt(ids, len(ids))

    def continued(self, stored: Any, reply: list[int]) -> "Prompt":
        """Return the prompt that is stored as (number, ids): `number` tokens of this prompt and `reply`, then `ids`.

        It shares this prompt's list if it extends this prompt.

        Raises:
            ValueError: the number exceeds the tokens of this prompt and the reply.
            TypeError: `ids` is not a list of token ids.
        """
        common, added = stored
        if type(added) is not list or (added and type(sum(cast("list[int]", added))) is not int):  # sum() checks each entry
            raise TypeError(f"a prompt ends with {str(cast('object', added))[:40]!r}; expected a list of ids")
        tokens, length = self._tokens, self._length
        if common == length == 0 and not added:  # from an agent without tokens
            return self
        if type(common) is not int or not 0 <= common <= length + len(reply):
            raise ValueError(f"a prompt begins with {common!r} tokens of the {length + len(reply)} before it")
        if len(tokens) == length <= common:
            tokens += reply[: common - length]
            tokens += added
            return Prompt(tokens, len(tokens))
        own = [*tokens[: min(common, length)], *reply[: max(common - length, 0)], *cast("list[int]", added)]
        return Prompt(own, len(own))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return self._tokens[start:stop:step] if step > 0 else list(self)[index]
        return self._tokens[range(self._length)[index]]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens[: self._length])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | Prompt) and list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # as a list's

    def __add__(self, other: list[int]) -> list[int]:
        return [*self, *other]

    def __radd__(self, other: list[int]) -> list[int]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))


def shared(before: Sequence[int], ids: Sequence[int]) -> Prompt:
    """Return `ids` as a prompt that shares the list of `before`, the previous call's prompt, if it extends that prompt."""
    if not ids and isinstance(before, Prompt) and not before:  # an agent without tokens
        return before
    plain = list(ids)  # a separate list, which will grow
    return before.extended(plain) if isinstance(before, Prompt) else Prompt(plain, len(plain))
