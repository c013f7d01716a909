"""Log-probabilities of a large vocabulary: our chunked projection against TRL's and against all logits at once.

    python benchmarks/head.py [--tokens 1024] [--width 256] [--rounds 2]

Every arm runs in a process of its own, forwards and backwards on the same numbers: values, seconds, and how far the
process's peak memory rises above what it held before.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

import torch

from agentgym.trainers.model import logprobs

ARMS = ("ours", "trl", "whole")
VOCABULARY = 151_936  # of Qwen
TEMPERATURE = 0.7


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(arm: str, tokens: int, width: int) -> dict[str, float]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    head = torch.nn.Linear(width, VOCABULARY, bias=False)
    hidden, ids = torch.randn(tokens, width).requires_grad_(), torch.randint(0, VOCABULARY, (tokens,))
    if arm == "trl":
        from trl.kernels import ChunkedLogProbFunction
        from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE as CHUNK
    if arm == "whole":
        logprobs.CHUNK = 2**60
    before, started = peak(), time.perf_counter()
    if arm == "trl":
        options = (TEMPERATURE, CHUNK, None, 1.0, ("entropy",))
        chosen, entropy, *_ = ChunkedLogProbFunction.apply(hidden, head.weight, None, ids, *options)
    else:
        chosen, entropy = logprobs.project(head, hidden, ids, TEMPERATURE)
    forward = time.perf_counter() - started
    (chosen @ torch.linspace(-1, 1, tokens)).backward()
    values = {"logprob": chosen.mean(), "entropy": entropy.mean(), "by_hidden": hidden.grad.norm()}
    return {
        "forward": forward,
        "seconds": time.perf_counter() - started,
        "mebibytes": peak() - before,
        **{name: float(value.detach()) for name, value in values.items()},
        "by_weight": float(head.weight.grad.norm()),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--arm", choices=ARMS, help="measure one arm in this process")
    flags = parser.parse_args()
    if flags.arm:
        print(json.dumps(measure(flags.arm, flags.tokens, flags.width)))
        return
    for _ in range(flags.rounds):
        for arm in ARMS:
            command = [sys.executable, __file__, "--arm", arm, "--tokens", str(flags.tokens), "--width", str(flags.width)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found = json.loads(output.splitlines()[-1])
            print(f"{arm:6}", "  ".join(f"{name} {value:.6g}" for name, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
