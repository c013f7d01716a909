"""A step of reinforcement learning whose rows share their prefixes, against the same step with every row by itself.

    python benchmarks/shared_prefixes.py [--rounds 6] [--threads 1] [--out tree.json]

Groups of eight siblings, each row `--tokens` long, of which the first share is the same for all. Both arms train the same
episodes from the same weights, in one process and in turn (A B B A ...); the time is that of `reinforce`, rows, credit and
optimizer included, by the clock and, since other work moves that, in seconds of CPU. Before anything is timed the norms of
both arms' gradients are compared.
"""

import argparse
import gc
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from transformers import Qwen3ForCausalLM

from agentgym.episodes.episode import Episode, Turn, groups
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.alone import reinforce
from agentgym.trainers.learners.step import Scorer, TrainedModel
from agentgym.trainers.model.policy import PolicySize, policy_shape

SIZES = {
    "default policy": PolicySize(),
    "19 M": PolicySize(width=512, layers=6, heads=8, feed_forward=1024, vocabulary=4000),
}
REPLY = 12  # tokens


def episodes(tokens: int, share: float, number: int, *, trained: bool, vocabulary: int, siblings: int = 8) -> list[Episode]:
    """Return groups of siblings whose rows have `tokens` tokens, the first `share` of them the same within a group.

    `trained`: whether the turns in what they share are sampled ones, as of branches; else they are one prompt.
    """
    rng = np.random.default_rng(0)
    found: list[Episode] = []
    for group in range(number):
        common = rng.integers(3, vocabulary, int(share * tokens)).tolist()
        for attempt in range(siblings):
            row = common + rng.integers(3, vocabulary, tokens - len(common)).tolist()
            turns = []
            for end in range(2 * REPLY if trained else len(common) + 2 * REPLY, tokens + 1, 2 * REPLY):
                logprobs = (-2 - rng.random(REPLY)).tolist()
                turns.append(Turn("o", prompt_ids=row[: end - REPLY], output_ids=row[end - REPLY : end], logprobs=logprobs))
            episode = Episode("e", f"t{group}", f"t{group}", attempt, turns=turns)
            episode.attempt, episode.success = attempt, attempt % 2 == 0
            episode.reward = turns[-1].reward = float(episode.success)
            found.append(episode)
    return found


class Arm:
    """One way to train, with a model of its own that begins with the same weights."""

    def __init__(self, size: PolicySize, played: list[Episode], config: TrainConfig, *, share: bool) -> None:
        torch.manual_seed(0)
        self.config = replace(config, share_prefixes=share)
        model = Qwen3ForCausalLM(policy_shape(size)).eval()
        scorer = Scorer(model, 1.0, config.attention, shared=share)
        self.learner = TrainedModel(Accelerator(cpu=True), scorer, [torch.optim.AdamW(model.parameters(), lr=0.0)])
        self.groups, self.credit = groups(played), resolve("grpo")
        rows = build(played)
        batches = pack(rows, token_weights(rows), config.batch_tokens, share=share)
        self.tokens = sum(sum(batch.lengths) for batch in batches)

    def step(self) -> tuple[float, float]:
        """Take a step and return its seconds, by the clock and of CPU."""
        gc.collect()
        start, busy = time.perf_counter(), time.process_time()
        self.metrics = reinforce(self.learner, self.groups, self.credit, self.config, 0)
        return time.perf_counter() - start, time.process_time() - busy


def compare(
    size: str, attention: Any, tokens: int, share: float, options: argparse.Namespace, *, trained: bool
) -> dict[str, Any]:
    """Return tokens and seconds of both arms."""
    config = TrainConfig(credit="grpo", minibatches=1, attention=attention, batch_tokens=options.batch_tokens)
    played = episodes(tokens, share, options.groups, trained=trained, vocabulary=SIZES[size].vocabulary)
    arms = [Arm(SIZES[size], played, config, share=share) for share in (False, True)]
    for arm in arms:
        arm.step()  # warm
    norms = [arm.metrics["grad_norm"] for arm in arms]
    assert abs(norms[1] / norms[0] - 1) < 1e-4, norms
    seconds: list[list[tuple[float, float]]] = [[], []]
    for turn in range(options.rounds):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            seconds[which].append(arms[which].step())
    clock, busy = ([alone[i] / together[i] for alone, together in zip(*seconds, strict=True)] for i in (0, 1))
    return {
        "model": size,
        "attention": attention,
        "tokens": tokens,
        "share": share,
        "trained": "branches" if trained else "prompt",
        "tokens_apart": arms[0].tokens,
        "tokens_together": arms[1].tokens,
        "fewer": arms[0].tokens / arms[1].tokens,
        "cpu_seconds": [statistics.median(one[1] for one in arm) for arm in seconds],
        "faster": statistics.median(clock),
        "range": [min(clock), max(clock)],
        "less_cpu": statistics.median(busy),
        "apart_in_norm": abs(norms[1] / norms[0] - 1),
    }


def main() -> None:
    """Run all comparisons and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--batch-tokens", type=int, default=8192)
    parser.add_argument("--only", default="", help="a model's name")
    parser.add_argument("--shares", type=float, nargs="*", default=[0.8, 0.5, 0.2, 0.1])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    cases = [(size, "small", 640, 0.8, trained) for size in SIZES for trained in (False, True)]
    cases += [("default policy", "split", 640, 0.8, False)]
    cases += [("default policy", "small", tokens, share, False) for tokens in (640, 160) for share in options.shares[1:]]
    found: list[dict[str, Any]] = []
    print("| model | attention | a row | shared | tokens apart | together | fewer | CPU apart | together | less | faster |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for size, attention, tokens, share, trained in cases:
        if options.only not in size:
            continue
        one = compare(size, attention, tokens, share, options, trained=trained)
        found.append(one)
        (low, high), (alone, together) = one["range"], one["cpu_seconds"]
        print(
            f"| {size} | {attention} | {tokens} | {share:.0%}, {one['trained']} | {one['tokens_apart']:,} "
            f"| {one['tokens_together']:,} | {one['fewer']:.2f} | {alone:.2f} s | {together:.2f} s | {one['less_cpu']:.2f} "
            f"| **{one['faster']:.2f}** ({low:.2f} to {high:.2f}) |",
            flush=True,
        )
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
