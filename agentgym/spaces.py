"""A Gymnasium space of Unicode text: what worlds print and what agents say."""

import multiprocessing
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import shared_memory

_SAMPLES = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;[](){}<>'\"\n"


class Unicode(gymnasium.spaces.Text):
    """Any Unicode string of up to `max_length` characters.

    Gymnasium's `Text` checks every character against a finite alphabet and so rejects ordinary sentences;
    this space inherits its place in the vector environments and checks type and length only.
    """

    def __init__(self, max_length: int = 65536, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=_SAMPLES, seed=seed)

    def contains(self, x: Any) -> bool:
        """Return whether `x` is a string that fits."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return random text of up to 40 characters."""
        length = int(self.np_random.integers(0, min(self.max_length, 40) + 1))
        return "".join(_SAMPLES[i] for i in self.np_random.integers(0, len(_SAMPLES), length))

    def __repr__(self) -> str:
        return f"Unicode({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and other.max_length == self.max_length


# Asynchronous vector environments pass observations through shared memory: code points, each plus one, ended by 0.


@shared_memory.create_shared_memory.register(Unicode)
def _create(space: Unicode, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array(np.dtype(np.int32).char, n * space.max_length)


@shared_memory.read_from_shared_memory.register(Unicode)
def _read(space: Unicode, shared_memory: Any, n: int = 1) -> tuple[str, ...]:
    rows = np.frombuffer(shared_memory.get_obj(), dtype=np.int32).reshape(n, space.max_length)
    return tuple("".join(chr(code - 1) for code in row[: int((row != 0).sum())].tolist()) for row in rows)


@shared_memory.write_to_shared_memory.register(Unicode)
def _write(space: Unicode, index: int, values: str, shared_memory: Any) -> None:
    row = np.frombuffer(shared_memory.get_obj(), dtype=np.int32).reshape(-1, space.max_length)[index]
    codes = np.array([ord(character) + 1 for character in values[: space.max_length]], dtype=np.int32)
    row[: len(codes)] = codes
    row[len(codes) :] = 0
