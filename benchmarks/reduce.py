"""Gradients reduced once an update against after every micro-batch, by two processes on this machine.

    python benchmarks/reduce.py [--rounds 6] [--model "default policy"]

Both processes take steps on their own rows, in turn one way and the other (A B B A ...), one thread each. Printed: seconds
of the clock of a step, and of CPU of the first process, medians, and the median ratio of the pairs.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import torch
from accelerate import Accelerator
from shared_prefixes import SIZES, episodes
from transformers import Qwen3ForCausalLM

from agentgym.episodes.episode import groups
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.model.policy import policy_shape

WAYS = ("micro-batch", "update")


def work(options: argparse.Namespace) -> None:
    """Take the steps as one of the processes; the first prints."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator, size = Accelerator(cpu=True), SIZES[options.model]
    model = Qwen3ForCausalLM(policy_shape(size)).eval()
    scorer = accelerator.prepare(Scorer(model, 1.0))
    learner = TrainedModel(accelerator, scorer, [torch.optim.AdamW(model.parameters(), lr=0.0)])
    config = TrainConfig(credit="grpo", minibatches=1, batch_tokens=options.batch_tokens, processes=2)
    played, credit = groups(episodes(400, 0.5, 4, trained=False, vocabulary=size.vocabulary)), resolve("grpo")
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for turn in range(-1, options.rounds):
        for way in WAYS if turn % 2 else reversed(WAYS):
            start, busy = time.perf_counter(), time.process_time()
            reinforce(learner, played, credit, replace(config, gradient_reduction=way), 0)
            if turn >= 0:
                found[way].append((time.perf_counter() - start, time.process_time() - busy))
    if accelerator.is_main_process:
        clock, busy = (statistics.median(a[i] / b[i] for a, b in zip(*found.values(), strict=True)) for i in (0, 1))
        rows = [f"{statistics.median(one[i] for one in found[way]):.2f} s" for i in (0, 1) for way in WAYS]
        print(
            f"| {options.model} | {options.batch_tokens:,} | {' | '.join(rows)} | **{clock:.2f}** | {busy:.2f} |", flush=True
        )


def main() -> None:
    """Start two processes and wait for them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--model", default="default policy", choices=list(SIZES))
    parser.add_argument("--batch-tokens", type=int, default=1600)
    options = parser.parse_args()
    if "RANK" in os.environ:
        return work(options)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    print("| model | a micro-batch | clock, each | clock, once | CPU, each | CPU, once | clock | CPU |", flush=True)
    print("|---|---|---|---|---|---|---|---|", flush=True)
    shared = {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    ranks = [{**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    running = [subprocess.Popen([sys.executable, *sys.argv], env=environment) for environment in ranks]
    sys.exit(max(process.wait() for process in running))


if __name__ == "__main__":
    main()
