"""Weights that a trainer sends to vLLM servers for a policy version: all of them, or only the adapter."""

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
    """The trained weights of a model. With several processes, the first offers them while all others gather."""

    def offered(self) -> AbstractAsyncContextManager["SinglePass | str"]:
        """Return a context with the argument of an engine's `load_weights`; leaving it gathers the remaining tensors."""
        ...

    def gather(self) -> None:
        """Take part in gathering the weights that the first process offers; blocks."""
        ...


def outgoing(model: PreTrainedModel) -> Outgoing:
    """Return the outgoing weights of a model: its adapter if it has one, else all weights."""
    return AdapterWeights(model) if has_adapter(model) else AllWeights(model)


def has_adapter(model: PreTrainedModel) -> bool:
    """Return True if a model trains an adapter instead of all its weights."""
    return bool(getattr(model, "peft_config", None))


class AllWeights:
    """Every tensor of a checkpoint, gathered one at a time."""

    def __init__(self, model: PreTrainedModel) -> None:
        from agentgym.trainers.weights.checkpoint import Checkpoint

        self._source = Checkpoint(model)

    @asynccontextmanager
    async def offered(self) -> AsyncGenerator["SinglePass"]:
        """Yield the tensors as a source; on exit the source is iterated to its end, even if the engine failed."""
        source = SinglePass(self._source)
        try:
            yield source
        finally:  # else the others would wait for this process in a gather
            await asyncio.to_thread(source.finish)

    def gather(self) -> None:
        """Iterate over the tensors, as the first process does."""
        for _ in self._source:
            pass


class AdapterWeights:
    """A LoRA adapter, sent as a folder in peft's format."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model

    @asynccontextmanager
    async def offered(self) -> AsyncGenerator[str]:
        """Yield a folder in shared memory with the adapter; it is deleted on exit."""
        tensors = await asyncio.to_thread(adapter, self._model)
        with adapter_folder(self._model, tensors) as folder:
            yield folder

    def gather(self) -> None:
        """Take part in gathering the adapter's tensors."""
        adapter(self._model)


@contextmanager
def adapter_folder(model: PreTrainedModel, tensors: dict[str, Tensor]) -> Generator[str]:
    """Yield a folder in shared memory with these tensors of a model's adapter; it is deleted on exit."""
    with TemporaryDirectory(dir=shared_memory()) as folder:
        model.save_pretrained(folder, state_dict=tensors)
        yield folder


class SinglePass:
    """A source that is iterated once, and to its end even if its reader fails, because other processes gather too."""

    def __init__(self, source: "Checkpoint") -> None:
        self._source, self._tensors = source, iter(source)

    def metadata(self) -> list[TensorMeta]:
        """Return name, dtype and full shape of every tensor, in the order of iteration."""
        return self._source.metadata()

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return self._tensors

    def finish(self) -> None:
        """Iterate over the remaining tensors, so that no other process waits."""
        for _ in self._tensors:
            pass
