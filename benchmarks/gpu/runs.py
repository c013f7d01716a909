"""Phase 1, it runs: doctor, the conformance suite of the engine, rows kept apart by every attention, refusals."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from gpu.machine import Cells, device, limits, wait

TESTS = Path(__file__).parents[2] / "tests"
METHODS = ("flash", "flex", "split", "sdpa", "rows")
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}  # relative, of gradients; fp32 sums in another order on a GPU
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def measure(cells: Cells, out: Path, before: Path | None) -> None:
    del out, before
    cells.run("limits", lambda: limits(cells.rehearse))
    cells.run("doctor", doctor)
    for part in ("fakes", "trainers/model"):
        sys.path.insert(0, str(TESTS / part))
    for check in _checks():
        cells.run(f"conformance {check.__name__}", lambda check=check: conformance(check), 20)
    for method in METHODS:
        for precision in DTYPES:
            cells.run(f"attention {method} {precision}", lambda m=method, p=precision: attention(m, p), 60)
    cells.run("several lengths, compiled", lambda: attention("sdpa", "fp32", compiled=True), 90)


def doctor() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "agentgym", "doctor"], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    return {"exit": done.returncode, "lines": len(done.stdout.splitlines())}


def _checks() -> list[Any]:
    import conformance

    return list(conformance.CHECKS)


def conformance(check: Any) -> dict[str, Any]:
    """Run one check of the suite over the hf engine on the device, in fp32 and without tf32."""
    import tempfile

    import conformance as suite
    import tiny
    import transformers

    from agentgym.engines.hf.engine import HFEngine

    with tempfile.TemporaryDirectory() as scratch:
        here, other = tiny.folder(Path(scratch) / "a"), tiny.folder(Path(scratch) / "b", seed=1)
        engine = HFEngine(str(here), slots=4, device=device())
        reference = transformers.AutoModelForCausalLM.from_pretrained(here)
        asyncio.run(check(suite.EngineUnderTest(engine, reference=reference, other=other, tolerance=1e-3)))
    return {"ok": True}


def attention(method: str, precision: str, compiled: bool = False) -> dict[str, Any]:
    """Compare log-probabilities and gradients of packed rows with those of each row alone in fp32."""
    import test_attention as rows_test

    from agentgym.errors import BadConfig
    from agentgym.trainers.model.attention import choose
    from agentgym.trainers.model.logprobs import policy_logprobs

    batch = rows_test.batch((40, 31, 17, 9, 3)).to(device())
    worst = {}
    for name in ("llama", "qwen3", "mistral"):
        model = rows_test.make(name).to(device())
        wanted = policy_logprobs(model, batch, 0.7, choose(model, "rows"))
        expected = _gradient(model, wanted.logprobs)
        mine = rows_test.make(name).to(device(), DTYPES[precision])
        try:
            taken = choose(mine, method, compiled=compiled)
        except BadConfig as refusal:
            worst[f"{name} refused"] = str(refusal)
            continue
        mine = torch.compile(mine) if compiled else mine
        got = policy_logprobs(mine, batch, 0.7, taken)
        gradient = _gradient(mine, got.logprobs)
        wait()
        off = float((gradient - expected).norm() / expected.norm())
        worst[name] = off
        if not off < TOLERANCE[precision]:
            raise AssertionError(f"{method} in {precision} on {name}: the gradient is {off:.2e} off")
    return worst


def _gradient(model: Any, values: torch.Tensor) -> torch.Tensor:
    direction = torch.linspace(-1, 1, len(values), device=values.device)
    learned = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(values.float() @ direction, learned, allow_unused=True)
    return torch.cat([g.float().flatten() for g in found if g is not None])
