"""The hf engine's pass over prompts of uneven lengths, with less padding against the default.

    python benchmarks/prefill.py [--rounds 16] [--threads 1]

32 rows of the default policy go on from caches of 0 to 600 tokens; their new parts are log-normal (sigma 0.6) around 20
and 60 tokens. Both sides run in turn in one process, timed in seconds of CPU; the median ratio of the pairs is printed.
"""

import argparse
import statistics
import time

import numpy as np
import torch
from transformers import Qwen3ForCausalLM

from agentgym.engines.hf.slots import PADDING, Row, SlotModel
from agentgym.trainers.model.policy import PolicySize, policy_shape

ROWS, LONGEST = 32, 600


def seconds(slots: SlotModel, rows: list[Row], padding: int) -> float:
    """Run the rows once and return the seconds of CPU."""
    slots.padding = padding
    start = time.process_time()
    slots.forward(rows)
    return time.process_time() - start


def main() -> None:
    """Compare and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    slots, rng = SlotModel(Qwen3ForCausalLM(policy_shape(PolicySize())).eval(), ROWS, 1024), np.random.default_rng(0)
    print("| new tokens | padding | default | with it | faster |\n|---|---|---|---|---|")
    for middle in (20, 60):
        new = np.clip(rng.lognormal(np.log(middle), 0.6, ROWS), 2, 400).astype(int)
        starts = rng.integers(0, LONGEST, ROWS)
        rows = [Row(i, int(start), [5] * int(count)) for i, (start, count) in enumerate(zip(starts, new, strict=True))]
        for padding in (0, 15, 50):
            found: dict[int, list[float]] = {PADDING: [], padding: []}
            for turn in range(options.rounds):
                for which in (PADDING, padding) if turn % 2 else (padding, PADDING):
                    found[which].append(seconds(slots, rows, which))
            before, after = (statistics.median(found[which]) for which in (PADDING, padding))
            ratio = statistics.median(a / b for a, b in zip(found[PADDING], found[padding], strict=True))
            print(
                f"| about {middle} | {padding} % | {before * 1000:.1f} ms | {after * 1000:.1f} ms | **{ratio:.2f}** |",
                flush=True,
            )


if __name__ == "__main__":
    main()
