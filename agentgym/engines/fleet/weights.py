"""The present weights of a fleet, kept as files, so that a server that comes back can have them at any time."""

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any


class Kept:
    """Safetensors files in a folder that every server sees; those of one version at a time."""

    def __init__(self, folder: str | None) -> None:
        """`folder`: where they lie; None for shared memory, which servers of this machine see."""
        self._folder = folder
        self._place: TemporaryDirectory[str] | None = None
        self._run = secrets.token_hex(4)
        self.files: list[dict[str, Any]] = []
        """A message for each, as vLLM's weight-transfer calls take it."""
        self.fresh = True
        """Whether there were none yet."""

    @property
    def where(self) -> str:
        """Where they lie, for a reader."""
        return self._folder or "shared memory of this machine; another one is named with --engine.folder"

    def label(self, version: int) -> str:
        """Return what weights of a version are called: of no other run are they called so."""
        return f"{self._run}/{version}"

    def write(self, weights: "str | Path | Iterable[tuple[str, Any]]") -> None:
        """Let the files of a model folder, or of named tensors, take the place of those before; blocks."""
        from agentgym.engines import shards

        self.close()
        self.fresh = False
        if isinstance(weights, str | Path):
            self.files = shards.messages(Path(weights))
            return
        source: Any = weights if hasattr(weights, "metadata") else shards.Named(weights)
        self._place = shards.place(self._folder)
        self.files = shards.written(source, Path(self._place.name))

    def close(self) -> None:
        """Remove them; what is written next is as the first."""
        self.files, self.fresh = [], True
        if self._place is not None:
            self._place.cleanup()
            self._place = None


def apart(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the mean difference of two scores of one text; infinite where they are of texts of other lengths."""
    if len(a) != len(b) or not a:
        return float("inf")
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)
