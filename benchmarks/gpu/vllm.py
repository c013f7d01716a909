"""Phase 6, vLLM, where it is: tokens a second against its own benchmark, and whole updates with weights sent to it."""

import importlib.util
from pathlib import Path
from typing import Any

import train_gpu

from gpu.machine import Cells, Lacking


def measure(cells: Cells, out: Path, before: Path | None) -> None:
    del before
    if not importlib.util.find_spec("vllm"):
        raise Lacking("there is no vLLM here; carry its CUDA wheel in parts, if its torch is the machine's")
    cells.run("vllm", lambda: whole(out / "vllm-whole.json"), 480)


def whole(file: Path) -> dict[str, Any]:
    import json

    train_gpu.main(file)
    if not file.exists():
        raise Lacking("vLLM needs a GPU for this phase")
    return json.loads(file.read_text(encoding="utf-8"))
