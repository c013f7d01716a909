"""A Gymnasium space of Unicode text, for observations and actions."""

import multiprocessing
from collections.abc import Sequence
from typing import Any, cast, overload

import gymnasium
import numpy as np
from gymnasium.vector.utils import shared_memory
from numpy.typing import NDArray

_SAMPLES = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;[](){}<>'\"\n"


class Unicode(gymnasium.spaces.Text):
    """All Unicode strings of up to `max_length` characters.

    Gymnasium's `Text` checks every character against a finite alphabet and so rejects ordinary sentences. This space
    inherits from it to work in vector environments, and checks only type and length.
    """

    def __init__(self, max_length: int = 65536, *, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=_SAMPLES, seed=seed)

    def contains(self, x: object) -> bool:
        """Return True if `x` is a string of at most `max_length` characters."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: object = None, probability: object = None) -> str:
        """Return random text of up to 40 characters."""
        length = int(self.np_random.integers(0, min(self.max_length, 40) + 1))
        return "".join(_SAMPLES[i] for i in self.np_random.integers(0, len(_SAMPLES), length))

    def __repr__(self) -> str:
        return f"Unicode({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unicode) and other.max_length == self.max_length


# Asynchronous vector environments pass observations through shared memory: code points, each plus one, ended by 0.


class SharedTexts(Sequence[str]):
    """The current observations of an asynchronous vector environment, decoded from shared memory on access.

    Gymnasium requests the observations once, while the memory is still empty, and copies the object after every step.
    This object is therefore a view of the memory, and a copy of it is an immutable tuple of strings.
    """

    def __init__(self, rows: NDArray[np.int32]) -> None:
        self._rows = rows  # [environments, characters]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._rows[index]
        codes = row[: int(np.count_nonzero(row))] - 1
        return codes.astype("<i4").tobytes().decode("utf-32-le", "surrogatepass")

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Sequence[object]", other))

    def __hash__(self) -> int:
        raise TypeError("a view of shared memory changes and has no hash: copy it first")

    def __copy__(self) -> tuple[str, ...]:
        return tuple(self)

    def __deepcopy__(self, memo: object) -> tuple[str, ...]:
        return tuple(self)

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[list[str]]]:
        return tuple, (list(self),)

    def __repr__(self) -> str:
        return repr(tuple(self))


def _create(space: Unicode, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array(np.dtype(np.int32).char, n * space.max_length)


def _read(space: Unicode, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(np.frombuffer(shared_memory.get_obj(), dtype=np.int32).reshape(n, space.max_length))


def _write(space: Unicode, index: int, values: str, shared_memory: Any) -> None:
    if len(values) > space.max_length:
        raise ValueError(f"an observation has {len(values)} characters; the space holds {space.max_length}")
    row = np.frombuffer(shared_memory.get_obj(), dtype=np.int32).reshape(-1, space.max_length)[index]
    row[: len(values)] = np.frombuffer(values.encode("utf-32-le", "surrogatepass"), dtype="<i4") + 1
    row[len(values) :] = 0


_vectors: Any = shared_memory  # its functions dispatch on the space; their types are only partly known
_vectors.create_shared_memory.register(Unicode)(_create)
_vectors.read_from_shared_memory.register(Unicode)(_read)
_vectors.write_to_shared_memory.register(Unicode)(_write)
