"""What a trainer hands to vLLM servers for one version: all weights, or the adapter alone."""

# torch and transformers are typed in parts only
# pyright: reportUnknownMemberType=false

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from torch import Tensor
from transformers import PreTrainedModel

from agentgym.engines.shards import TensorMeta, shared_memory
from agentgym.trainers.weights.gather import adapter

if TYPE_CHECKING:
    from agentgym.trainers.weights.checkpoint import Checkpoint


class Outgoing(Protocol):
    """The trained weights of a model. Of several processes the first offers them while all others gather."""

    def offered(self) -> AbstractAsyncContextManager["OnePass | str"]:
        """Return what an engine's `load_weights` takes. On leaving, this process has gathered all that others gather."""
        ...

    def gather(self) -> None:
        """Take part in gathering what the first process offers; blocks."""
        ...


def outgoing(model: PreTrainedModel) -> Outgoing:
    """Return the adapter of a model that has one, else all of its weights."""
    return AdapterWeights(model) if has_adapter(model) else AllWeights(model)


def has_adapter(model: PreTrainedModel) -> bool:
    """Return whether a model's own weights stay and an adapter is trained."""
    return bool(getattr(model, "peft_config", None))


class AllWeights:
    """Every tensor of a checkpoint, gathered one at a time."""

    def __init__(self, model: PreTrainedModel) -> None:
        from agentgym.trainers.weights.checkpoint import Checkpoint

        self._source = Checkpoint(model)

    @asynccontextmanager
    async def offered(self) -> AsyncGenerator["OnePass"]:
        """Yield the tensors as a source that is gone through to its end, whatever becomes of its reader."""
        source = OnePass(self._source)
        try:
            yield source
        finally:  # or the others would wait in a gathering that this process left, or never began
            await asyncio.to_thread(source.finish)

    def gather(self) -> None:
        """Go through the tensors as the first process does."""
        for _ in self._source:
            pass


class AdapterWeights:
    """A LoRA adapter as a folder in peft's form."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model

    @asynccontextmanager
    async def offered(self) -> AsyncGenerator[str]:
        """Yield a folder in shared memory that is gone afterwards."""
        tensors = await asyncio.to_thread(adapter, self._model)
        with adapter_folder(self._model, tensors) as folder:
            yield folder

    def gather(self) -> None:
        """Gather the adapter's tensors."""
        adapter(self._model)


@contextmanager
def adapter_folder(model: PreTrainedModel, tensors: dict[str, Tensor]) -> Generator[str]:
    """Write these tensors of a model's adapter into a folder in shared memory for as long as the block runs."""
    with TemporaryDirectory(dir=shared_memory()) as folder:
        model.save_pretrained(folder, state_dict=tensors)
        yield folder


class OnePass:
    """A source that is gone through once, to its end, whatever becomes of its reader: other processes gather with it."""

    def __init__(self, source: "Checkpoint") -> None:
        self._source, self._tensors = source, iter(source)

    def metadata(self) -> list[TensorMeta]:
        """Return what iteration yields."""
        return self._source.metadata()

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return self._tensors

    def finish(self) -> None:
        """Go through what is left."""
        for _ in self._tensors:
            pass
