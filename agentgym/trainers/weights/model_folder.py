"""Model folder written by several processes that each have a part of every tensor."""

# torch and transformers are typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
from pathlib import Path

from transformers import PreTrainedModel

from agentgym.engines.shards import SHARD_BYTES, parts, write
from agentgym.trainers.weights.checkpoint import Checkpoint
from agentgym.trainers.weights.gather import adapter


def write_model(source: Checkpoint, folder: Path, rank: int, processes: int, limit: int = SHARD_BYTES) -> None:
    """Write a model's weights as safetensors files of at most `limit` bytes (or one larger tensor), spread over processes.

    Every process must call it. Each process has at most one whole tensor at a time, or the tensors of one layer if the
    files combine them.
    """
    tensors, groups = iter(source), list(parts(source.metadata(), limit))
    names = [f"model-{number:05d}-of-{len(groups):05d}.safetensors" for number in range(1, len(groups) + 1)]
    names = names if len(names) > 1 else ["model.safetensors"]
    for number, (name, group) in enumerate(zip(names, groups, strict=True)):
        if number % processes == rank:
            write(folder / name, group, tensors)
        else:
            for _ in group:
                next(tensors)  # take part in gathering it
    if rank == 0 and len(groups) > 1:
        weight_map = {meta.name: name for name, group in zip(names, groups, strict=True) for meta in group}
        size = sum(meta.bytes for meta in source.metadata())
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def write_adapter(model: PreTrainedModel, folder: Path, rank: int) -> None:
    """Write a model's adapter from the first process; every process must call it, to gather the tensors."""
    whole = adapter(model)
    if rank == 0:
        model.save_pretrained(folder, state_dict=whole)
