"""What all phases share: the machine, its two limits, models of published shapes, and cells that are measured once."""

import json
import platform
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers

from agentgym.planner.shapes import published

MINUTES = 8.5
TINY = {
    "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 2048, "model_type": "qwen2", "tie_word_embeddings": True,
}  # fmt: skip


class Lacking(Exception):
    """What the machine has not: the phase says it in one sentence and ends."""


@dataclass
class Cells:
    """Results by cell, in a file: what is in it is not measured again."""

    file: Path
    rehearse: bool
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    started: float = field(default_factory=time.monotonic)
    failed: int = 0

    @classmethod
    def of(cls, phase: str, out: Path, before: Path | None, rehearse: bool) -> "Cells":
        """Begin with the cells of an earlier call."""
        cells = cls(out / f"{phase}.json", rehearse)
        earlier = before / f"{phase}.json" if before else cells.file
        if earlier.exists():
            read = json.loads(earlier.read_text(encoding="utf-8"))
            cells.results = {name: cell for name, cell in read.items() if "error" not in cell}
        cells.results["machine"] = about()
        cells.write()
        return cells

    def run(self, name: str, work: Callable[[], dict[str, Any]], seconds: float = 60.0) -> None:
        """Measure a cell, unless it was, or would end after the call's time; a failure is a result too."""
        if name in self.results:
            print(f"{name}: measured before")
            return
        left = MINUTES * 60 - (time.monotonic() - self.started)
        if seconds > left:
            print(f"{name}: left to the next call ({left:.0f} s left, it takes about {seconds:.0f})")
            return
        began = time.monotonic()
        try:
            found = work()
        except Exception as error:
            traceback.print_exc()
            found = {"error": f"{type(error).__name__}: {error}"[:2000]}
            self.failed += 1
        free()
        self.results[name] = {**found, "seconds_of_the_cell": round(time.monotonic() - began, 1)}
        self.write()
        print(f"{name}: " + ", ".join(f"{key} {shown(value)}" for key, value in self.results[name].items()))

    def write(self) -> None:
        """Keep what is known."""
        self.file.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")


def shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:300]


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def free() -> None:
    """Give back what the last cell held."""
    import gc

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def wait() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def about() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    found = {"python": platform.python_version(), "torch": torch.__version__, "transformers": transformers.__version__}
    found |= {"commit": commit.strip() or "unknown", "device": "cpu"}
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "memory_gib": str(round(properties.total_memory / 2**30, 1))}
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
        wait()
        began = time.perf_counter()
        work()
        wait()
        if number >= 3:
            found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2]


def architecture(size: str, rehearse: bool) -> Any:
    """Return the shape of Qwen2.5 of a size (0.5B, 1.5B, 7B); rehearsed, a tiny one of the same kind."""
    shape = dict(TINY if rehearse else published(f"Qwen/Qwen2.5-{size}") or {})
    return transformers.AutoConfig.for_model(**shape)


def model_of(config: Any, dtype: torch.dtype) -> Any:
    """Return a model of random weights on the device, never held in fp32 where that is not asked for."""
    torch.manual_seed(0)
    with default_dtype(dtype), torch.device(device()):
        return transformers.AutoModelForCausalLM.from_config(config).eval()


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def parameters(model: Any) -> int:
    return sum(p.numel() for p in model.parameters())
