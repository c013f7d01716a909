"""What all cells share: the machine and its two limits, models of published shapes, and clocks that wait for the device."""

import gc
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers

from agentgym.planner.shapes import published

TINY = {
    "vocab_size": 1024, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 4096, "model_type": "qwen2", "tie_word_embeddings": True,
}  # fmt: skip
ROOM = 0.9
"""Share of the card's memory that a part may plan with."""


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def low() -> torch.dtype:
    """Return what models compute in: bf16 on a GPU."""
    return torch.bfloat16 if torch.cuda.is_available() else torch.float32


def free() -> None:
    """Give back what the last part left."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def now() -> float:
    """Return the time once the device has done what it was asked to."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def peak() -> int | None:
    """Return the most bytes that tensors took since `free`; None on a CPU."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None


def memory() -> float:
    """Return the bytes of the card; on a CPU no limit."""
    return float(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else float("inf")


def about() -> dict[str, Any]:
    """Return what the numbers were measured on, and what compilers need."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout if shutil.which("git") else ""
    found: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__}
    found |= {"transformers": transformers.__version__, "commit": commit.strip() or "unknown", "cores": os.cpu_count()}
    found |= {"compiler": shutil.which("cc") or shutil.which("gcc") or "none: nothing can be compiled", "device": "cpu"}
    if Path("/dev/shm").exists():
        found["shared_memory_gib"] = shutil.disk_usage("/dev/shm").free / 2**30
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "memory_gib": properties.total_memory / 2**30, "cuda": torch.version.cuda}
        found |= {"free_gib": torch.cuda.mem_get_info()[0] / 2**30, "bf16": torch.cuda.is_bf16_supported()}
        found["tf32"] = torch.backends.cuda.matmul.allow_tf32
    return found


def limits(rehearse: bool) -> dict[str, float]:
    """Return what the device does at most: bytes a second copied (read and written), and bf16 operations a second."""
    side, size = (256, 2**22) if rehearse else (8192, 2**32)
    a, b = (torch.randn(side, side, device=device(), dtype=torch.bfloat16) for _ in range(2))
    source = torch.empty(size, dtype=torch.uint8, device=device()).random_()
    target = torch.empty_like(source)
    products = median(lambda: torch.mm(a, b))
    copies = median(lambda: target.copy_(source))
    return {"operations_per_second": 2 * side**3 / products, "bytes_per_second": 2 * size / copies}


def median(work: Callable[[], Any], times: int = 20) -> float:
    """Return the median seconds of some work, after three runs to warm up."""
    found: list[float] = []
    for number in range(times + 3):
        began = now()
        work()
        if number >= 3:
            found.append(now() - began)
    return sorted(found)[len(found) // 2]


def architecture(size: str, rehearse: bool) -> Any:
    """Return the shape of Qwen2.5 of a size (0.5B, 1.5B); rehearsed, a tiny one of the same kind."""
    shape = dict(TINY if rehearse else published(f"Qwen/Qwen2.5-{size}") or {})
    return transformers.AutoConfig.for_model(**shape)


def model_of(config: Any, dtype: torch.dtype) -> Any:
    """Return a model of random weights on the device, never in fp32 where that is not asked for."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device()):
            return transformers.AutoModelForCausalLM.from_config(config).eval()
    finally:
        torch.set_default_dtype(before)


def cache_bytes(config: Any, slots: int, tokens: int, item: int = 2) -> int:
    """Return the bytes of keys and values of so many slots of so many tokens, in a type of `item` bytes."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return slots * tokens * 2 * config.num_hidden_layers * config.num_key_value_heads * head * item


def sampling_bytes(config: Any, slots: int, tokens: int, parameters: int, item: int = 2) -> int:
    """Return the most bytes that sampling takes: weights, caches while they grow to twice, and what a draw computes.

    A draw has logits of `item` and of 4 bytes, log-probabilities of 4, and twice 8 bytes for the cumulative sum.
    """
    caches = cache_bytes(config, slots, tokens, item)
    return parameters * item + caches + caches // 2 + slots * config.vocab_size * (item + 4 + 4 + 8 + 8)


def check_room(wanted: float, what: str) -> None:
    """Refuse a part that would not fit the card."""
    if wanted > ROOM * memory():
        raise MemoryError(f"{what} takes {wanted / 1e9:.1f} GB; the card has {memory() / 1e9:.1f} GB")


def parameters(model: Any) -> int:
    return sum(p.numel() for p in model.parameters())


@contextmanager
def scratch(out: Path, name: str) -> Iterator[Path]:
    """Give a folder for what is too large to bring back, which a second call finds again."""
    folder = out.resolve() / "scratch" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    yield folder
