"""Cell a, does it compute right: doctor, the engine's conformance, packed attention against rows, engine against trainer."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.errors import BadConfig
from agentgym.trainers.model.attention import choose
from agentgym.trainers.model.logprobs import policy_logprobs
from gpu.cell import Parts
from gpu.machine import about, architecture, device, low, model_of
from gpu.rows import batch_of

TESTS = Path(__file__).parents[2] / "tests"
METHODS = ("flash", "split", "sdpa", "rows", "flex")  # the last is compiled, which takes longest
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}  # relative, of gradients; a GPU adds fp32 up in another order
LOGPROB = {"fp32": 1e-3, "bf16": 0.15}  # of a single token of a tiny model with large weights


def measure(parts: Parts) -> None:
    for part in ("fakes", "trainers/model"):
        sys.path.insert(0, str(TESTS / part))
    parts.run("machine", about)
    for precision in DTYPES:
        parts.run(f"conformance {precision}", lambda p=precision: conformance(p), 8)
    parts.run("mismatch", lambda: mismatch(parts.rehearse), 8)
    for method in METHODS:
        for precision in DTYPES:
            parts.run(f"attention {method} {precision}", lambda m=method, p=precision: attention(m, p), 3)
    parts.run("doctor", doctor, 10)


def doctor() -> dict[str, Any]:
    """Run `agentgym doctor`, which says what this machine lacks; its exit status is no failure of the cell."""
    command = [sys.executable, "-m", "agentgym", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=40, stdin=subprocess.DEVNULL)
    print(done.stdout, done.stderr)
    if "Traceback" in done.stderr:
        raise AssertionError("doctor raised an error")
    return {"exit": done.returncode, "lines": len(done.stdout.splitlines())}


def conformance(precision: str) -> dict[str, Any]:
    """Run the engine's conformance suite on the device; in bf16 against the library's model in fp32 of the same weights."""
    import conformance as suite
    import tiny

    failed: dict[str, str] = {}
    checks = list(suite.CHECKS) if precision == "fp32" else [suite.check_logprobs, suite.check_score, suite.check_shape]
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            here, other = tiny.folder(Path(folder) / "a"), tiny.folder(Path(folder) / "b", seed=1)
            model = transformers.AutoModelForCausalLM.from_pretrained(here, dtype=DTYPES[precision])
            engine = HFEngine(model.to(device()).eval(), tiny.ByteTokenizer(), slots=4, device=device())
            reference = transformers.AutoModelForCausalLM.from_pretrained(here, dtype=DTYPES[precision]).float()
            under_test = suite.EngineUnderTest(engine, reference=reference, other=other, tolerance=LOGPROB[precision])
            try:
                asyncio.run(check(under_test))
            except Exception as error:
                if "CUDA error" in str(error):
                    raise
                failed[check.__name__] = f"{type(error).__name__}: {error}"[:300]
    if failed:
        raise AssertionError(f"{len(failed)} of {len(checks)} checks failed: {failed}")
    return {"checks": len(checks)}


def attention(method: str, precision: str) -> dict[str, Any]:
    """Compare log-probabilities and gradients of packed rows with those of each row alone in fp32."""
    import test_attention as rows_test

    worst: dict[str, Any] = {}
    for name in ("llama", "qwen3", "mistral"):
        batch = rows_test.batch((40, 31, 17, 9, 3)).to(device())
        model = rows_test.make(name).to(device())
        expected = _gradient(model, policy_logprobs(model, batch, 0.7, choose(model, "rows")).logprobs)
        mine = rows_test.make(name).to(device(), DTYPES[precision])
        try:
            chosen = choose(mine, method)
        except BadConfig as refusal:  # flash in fp32, flex on a CPU: the reason is the result
            worst[f"{name} refused"] = str(refusal)[:200]
            continue
        gradient = _gradient(mine, policy_logprobs(mine, batch, 0.7, chosen).logprobs)
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


def mismatch(rehearse: bool) -> dict[str, Any]:
    """Return what the trainer says of sampled tokens minus what the engine said, for the shape of 0.5B, both in `low`.

    Random weights are sharpened (the head times 20), or all tokens would be alike and no difference would show.
    """
    model = model_of(architecture("0.5B", rehearse), low())
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(20)  # tied: the head is the same matrix
    number, prompt, reply = (4, 16, 8) if rehearse else (32, 200, 64)
    engine = HFEngine(model, None, slots=number, context=prompt + reply + 8, device=device())
    draws = torch.Generator().manual_seed(0)
    prompts = torch.randint(1, model.config.vocab_size, (number, prompt), generator=draws).tolist()

    async def play() -> list[Any]:
        samplings = [Sampling(max_tokens=reply, seed=i) for i in range(number)]
        return await asyncio.gather(
            *(engine.generate(p, s, str(i)) for i, (p, s) in enumerate(zip(prompts, samplings, strict=True)))
        )

    replies = asyncio.run(play())
    batch = batch_of([(p, r.ids, r.logprobs) for p, r in zip(prompts, replies, strict=True)]).to(device())
    method = choose(model)
    with torch.no_grad():
        gap = (policy_logprobs(model, batch, 1.0, method).logprobs - batch.logprobs).abs()
    found = {"attention": method, "mean": float(gap.mean()), "worst": float(gap.max())}
    found |= {"mean_logprob": float(batch.logprobs.mean()), "tokens": len(gap)}
    if not found["mean"] < 0.1:
        raise AssertionError(f"engine and trainer are apart: {found}")
    return found
