"""The current weights of a fleet, stored as files, so that a returning server can load them at any time."""

import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentgym.engines.adapters import ADAPTER, WEIGHTS, describe, is_adapter
from agentgym.engines.fleet.backend import Backend
from agentgym.errors import BadConfig


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """Weights as files. Files in a temporary folder are deleted together with the last reference to this object."""

    files: list[dict[str, Any]] = field(default_factory=lambda: list[dict[str, Any]]())
    adapter: str = ""
    place: "TemporaryDirectory[str] | None" = None


class StoredWeights:
    """The fleet's current weights: safetensors files in a folder that every server can read, or a LoRA adapter."""

    def __init__(self, folder: str | None) -> None:
        """Store weights in `folder`; None means shared memory, which only servers on this machine can read."""
        self._folder = folder
        self._run = secrets.token_hex(4)
        self._present = WeightFiles()
        self.fresh = True
        """True before the first `write`, and again after `close`."""

    @property
    def empty(self) -> bool:
        """True if no weights are stored, for example before the first update or after a `write` that failed."""
        return not (self._present.files or self._present.adapter)

    @property
    def where(self) -> str:
        """Location of the files, for messages."""
        return self._folder or "shared memory of this machine; another one is named with --engine.folder"

    def label(self, version: int) -> str:
        """Return the label for a version of the weights, unique to this run."""
        return f"{self._run}/{version}"

    def adapter(self, label: str) -> str:
        """Return the current adapter's name on the servers; empty if the weights are a whole model.

        The name contains the version's label, because vLLM looks up cached prefixes by adapter name.
        """
        return f"{ADAPTERS}{label.replace('/', '-')}" if self._present.adapter else ""

    def write(self, weights: "str | Path | Iterable[tuple[str, Any]]") -> WeightFiles:
        """Write an adapter's folder or named tensors to files, and return the files for `keep`; blocks.

        The files of a model folder are used where they are. The stored weights are deleted first, since both may not
        fit. From then until `keep` nothing is stored, even if writing fails or is abandoned.

        Raises:
            BadConfig: the weights are an adapter, and whole weights were sent before.
            BadData: the folder is damaged.
        """
        from agentgym.engines import shards

        adapter = Path(weights) if isinstance(weights, str | Path) and is_adapter(weights) else None
        if adapter and self._present.files:
            raise BadConfig(
                f"{weights} is an adapter, and the servers were sent whole weights before; an adapter belongs to the "
                "weights that servers start with: start them again and make a new engine"
            )
        self.close()
        self.fresh = False
        if adapter:
            describe(adapter)
        elif isinstance(weights, str | Path):
            return WeightFiles(shards.messages(Path(weights)))
        place = shards.place(self._folder)
        where = Path(place.name)
        if adapter:
            for name in (ADAPTER, WEIGHTS):
                shutil.copyfile(adapter / name, where / name)
            return WeightFiles(adapter=str(where.resolve()), place=place)
        named: Any = weights
        source = named if hasattr(named, "metadata") else shards.Named(named)
        return WeightFiles(shards.written(source, where), place=place)

    def keep(self, written: WeightFiles) -> None:
        """Make the result of `write` the stored weights."""
        self._present = written

    async def send(self, backend: Backend, label: str) -> None:
        """Send the stored weights to a server, unless it already has them or nothing is stored."""
        if self.empty or await backend.alive() == label:
            return
        present = self._present
        if present.adapter:
            await backend.adapt(present.adapter, label)
        else:
            await backend.update(present.files, label)

    def close(self) -> None:
        """Delete the stored weights; the next `write` counts as the first."""
        place, self._present, self.fresh = self._present.place, WeightFiles(), True
        if place is not None:
            place.cleanup()


ADAPTERS = "agentgym-"
"""Prefix of the names of adapters that a fleet loads into servers."""


def mean_difference(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the mean absolute difference between two lists of log-probabilities of one text.

    The result is infinite if the lists are empty or their lengths differ.
    """
    if len(a) != len(b) or not a:
        return float("inf")
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)
