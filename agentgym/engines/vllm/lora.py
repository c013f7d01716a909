"""LoRA adapters in vLLM: served on top of the base weights, with a different number for each version."""

import importlib
import itertools
from pathlib import Path
from typing import Any

from agentgym.engines.adapters import base_of, describe, is_adapter
from agentgym.errors import BadConfig, Fault, Reason

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Adapter ranks that vLLM (0.32, `MaxLoRARanks`) can reserve; smaller adapters fit."""


def base_and_options(model: str | Path, rank: int) -> tuple[str, dict[str, object]]:
    """Return the base model for vLLM to load, and the engine arguments for adapters of `rank`.

    If `model` is an adapter's folder, the base model and the rank are the adapter's; `rank` must be equal or 0. For
    another model, rank 0 means no adapters.

    Raises:
        BadConfig: vLLM does not support the rank, or the rank differs from the adapter's.
        BadData: the adapter is damaged, or its base model is not on this machine.
    """
    base = str(model)
    if is_adapter(model):
        base, own = base_of(model), int(describe(model)["r"])
        if rank not in (0, own):
            raise BadConfig(f"lora_rank is {rank}, but the adapter in {model} has rank {own}")
        rank = own
    if not rank:
        return base, {}
    if not 1 <= rank <= RANKS[-1]:
        raise BadConfig(f"lora_rank is {rank}; vLLM serves adapters of rank 1 to {RANKS[-1]}")
    room = next(size for size in RANKS if size >= rank)
    return base, {"enable_lora": True, "max_lora_rank": room, "max_loras": 1}


class Adapter:
    """The active adapter: one at a time, never merged into the weights.

    vLLM keys its prefix cache by an adapter's name and path (not its number), and treats adapters with the same name as
    equal. So each version's name contains its number, and nothing computed under one version is reused under another.
    """

    def __init__(self, llm: Any, folder: Path | None) -> None:
        self._llm = llm
        self._numbers = itertools.count(1)
        self.request = None if folder is None else self._new(folder)
        """vLLM's LoRA request object, sent with every prompt; None for the base model alone."""

    async def swap(self, folder: Path) -> None:
        """Serve the adapter in a folder and drop the previous one; no request may be running.

        The folder may be deleted afterwards. If vLLM rejects the adapter, the previous one stays active.

        Raises:
            Fault: vLLM rejects the adapter, or does not drop the previous one.
        """
        old, new = self.request, self._new(folder)
        try:
            describe(folder)
            await self._llm.add_lora(new)
            self.request = new
            if old is not None:
                await self._llm.remove_lora(old.lora_int_id)
            left = sorted(await self._llm.list_loras())
        except Exception as error:
            raise Fault(f"vLLM could not take the adapter in {folder}: {error!r}", reason=Reason.ENGINE) from error
        if left != [new.lora_int_id]:
            raise Fault(f"vLLM holds adapters {left}; expected {new.lora_int_id} alone", reason=Reason.ENGINE)

    def _new(self, folder: Path) -> Any:
        number = next(self._numbers)
        request = importlib.import_module("vllm.lora.request").LoRARequest
        return request(lora_name=f"policy-{number}", lora_int_id=number, lora_path=str(folder.resolve()))
