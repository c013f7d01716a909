"""How near a training step on a CPU comes to this machine's matrix multiplication, and where its time goes.

    python benchmarks/cpu_step.py --model FOLDER [--steps 6] [--recipe household]

Steps of a recipe by one process of one thread, from a policy that has had its SFT warm start (`agentgym sft`, or a run's
checkpoint). Operations that are needed: 2 a parameter and token for a forward pass, three times that for the update, and
attention's two products over what each token sees; padding and what is computed twice are not counted. The limit is a
float32 product of two matrices of 1,024 x 1,024, measured before, between and after the steps. Seconds are those of the
processor, so that what else the machine does counts as little as it can. Tokens of a rollout are those that the engine
computes: equal attempts of a group count once. The time per sampled token counts each.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from agentgym.trainers.config.recipe_files import read_recipe
from agentgym.trainers.data.minibatches import MiniBatch
from agentgym.trainers.loop import Loop
from agentgym.trainers.run.preflight import check_run

SIDE = 1024


def limit(rounds: int = 20) -> float:
    """Return operations a second of a large matrix product, the best of some."""
    left, right = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE)
    seconds = []
    for _ in range(rounds):
        started = time.process_time()
        left @ right
        seconds.append(time.process_time() - started)
    return 2 * SIDE**3 / min(seconds)


class Counted:
    """Counts what the steps of a run need, by wrapping its engine's and its learner's methods."""

    def __init__(self, loop: Loop) -> None:
        learner: Any = loop.learner
        self.engine = learner.engine
        config = self.engine.model.config
        self.layers, self.width = config.num_hidden_layers, config.num_attention_heads * config.head_dim
        embedded = self.engine.model.get_input_embeddings().weight.numel()
        self.head = embedded  # the projection onto the vocabulary, of the same size, where tied too
        self.body = sum(p.numel() for p in self.engine.model.parameters()) - embedded
        self.operations = {"rollout": 0.0, "update": 0.0}
        self.seconds = {"rollout": 0.0, "engine": 0.0, "update": 0.0}
        self.tokens = {"rollout": 0, "update": 0}
        backend, update = self.engine._backend, learner.update
        forward = backend.forward

        def counted_forward(rows: Any) -> Any:
            started = time.process_time()
            result = forward(rows)
            self.seconds["engine"] += time.process_time() - started
            for row in rows:
                self._add("rollout", row.start, len(row.ids), row.requested)
            return result

        def counted_update(minibatch: MiniBatch, *arguments: Any) -> Any:
            started = time.process_time()
            result = update(minibatch, *arguments)
            self.seconds["update"] += time.process_time() - started
            for row in minibatch.rows:
                self._add("update", 0, len(row), row.trained, times=3)
            return result

        backend.forward, learner.update = counted_forward, counted_update

    def _add(self, part: str, start: int, fresh: int, prompt_tokens: int, times: int = 1) -> None:
        seen = fresh * start + fresh * (fresh + 1) / 2
        needed = 2 * self.body * fresh + 2 * self.head * prompt_tokens + 4 * self.layers * self.width * seen
        self.operations[part] += times * needed
        self.tokens[part] += fresh


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a policy after its SFT warm start")
    parser.add_argument("--recipe", default="household")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--share-prefixes", action="store_true", help="override the recipe")
    parser.add_argument("--batch-tokens", type=int, default=None, help="override the recipe")
    options = parser.parse_args()
    torch.set_num_threads(1)
    limits, ends, aside = [limit()], [0.0], 0.0
    with tempfile.TemporaryDirectory() as folder:
        config = replace(
            read_recipe(options.recipe), model=options.model, out=str(Path(folder) / "run"), steps=options.steps,
            sft_episodes=0, eval_every=0, test_tasks=0, processes=1, threads=1, checkpoint_every=10_000,
        )  # fmt: skip
        if options.share_prefixes:
            config = replace(config, share_prefixes=True)
        if options.batch_tokens:
            config = replace(config, batch_tokens=options.batch_tokens)

        def show(kind: str, numbers: dict[str, Any]) -> None:
            nonlocal aside
            if kind == "step":
                ends.append(time.process_time())
                limits.append(limit())
                aside += time.process_time() - ends[-1]

        loop = Loop.fresh(check_run(config), show)
        counted = Counted(loop)
        started = ends[0] = time.process_time()
        loop.run_to_end()
        if not counted.seconds["update"]:
            raise SystemExit(
                "no group of these steps could be trained on: give a policy after its warm start, or more --steps"
            )
        whole = time.process_time() - started - aside
    measured = statistics.median(limits)
    counted.seconds["rollout"] = whole - counted.seconds["update"]
    total = sum(counted.operations.values())
    print(f"{options.recipe}, {options.steps} steps, {whole:.1f} s of CPU; the limit is {measured / 1e9:.1f} GFLOP/s")
    for part in ("rollout", "update"):
        share, rate = counted.seconds[part] / whole, counted.operations[part] / counted.seconds[part] / measured
        print(f"{part}: {share:.0%} of the time, {counted.tokens[part]:,} tokens, {rate:.1%} of the limit")
    engine = counted.seconds["engine"]
    print(
        f"forward passes of the engine: {engine / whole:.0%} of the time, "
        f"{counted.operations['rollout'] / engine / measured:.1%} of the limit"
    )
    sampled = counted.engine.decoded
    print(f"{sampled:,} sampled tokens, {1e6 * counted.seconds['rollout'] / sampled:.1f} us of rollout each")
    print(f"whole step: {total / whole / measured:.1%} of the limit")


if __name__ == "__main__":
    main()
