"""The SFT warm start's packed imitation step against TRL's SFTTrainer, on the same rows of tokens in the same batches.

    python benchmarks/sft.py [--rounds 5] [--updates 20] [--out sft.json]

The default small policy, demonstrations of Household `tiny`, 16 episodes an update, AdamW at a constant rate and
clipping in both arms, float32, nothing recomputed. SFTTrainer gets the rows as `input_ids` and `labels`, in order and
unshuffled. Each round trains both arms from the same weights; making demonstrations and trainers is not timed, laying
out rows and padding is. The losses of both arms are compared update by update.
"""

import argparse
import asyncio
import copy
import json
import statistics
import tempfile
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
import trl
from accelerate import Accelerator

from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import Episode
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.data.segments import build
from agentgym.trainers.learners.optimizers import optimizers
from agentgym.trainers.learners.step import Scorer, TrainedModel, imitate
from agentgym.trainers.model.policy import init_policy, load_policy
from agentgym.trainers.run.demonstrations import Demonstrations
from agentgym.trainers.run.rollouts import Rollouts

BATCH = 16
CONFIG = TrainConfig(env_options={"preset": "tiny"}, prompt="bare", turn_tokens=16, sft_muon=False, sft_lr=1e-3)

Run = tuple[float, list[float]]
"""Rows per second, and the loss of each update."""


def demonstrations(model: Any, tokenizer: Any, updates: int) -> list[list[Episode]]:
    """Return a batch of demonstrations for each update, as the SFT warm start makes them."""
    with closing(Rollouts(CONFIG, HFEngine(model, tokenizer, slots=1), tokenizer)) as rollouts, asyncio.Runner() as loop:
        (source,) = rollouts.sources()
        draws = [source.at(range(update * BATCH, (update + 1) * BATCH), "demonstrations") for update in range(updates)]
        return [loop.run(Demonstrations(rollouts).batch(batch, update)) for update, batch in enumerate(draws)]


def speed(finished: list[float]) -> float:
    """Return rows per second from the times at which updates were finished; the first update warms up."""
    return BATCH * (len(finished) - 1) / (finished[-1] - finished[0])


def ours(model: Any, batches: list[list[Episode]]) -> Run:
    learner = TrainedModel(Accelerator(cpu=True), Scorer(model, 1.0), optimizers(model, CONFIG.sft_lr, muon=False))
    losses: list[float] = []
    finished: list[float] = []
    for batch in batches:
        losses.append(imitate(learner, batch, CONFIG)["nll"])
        finished.append(time.perf_counter())
    return speed(finished), losses


class Recorder(trl.SFTTrainer):
    """SFTTrainer that keeps the loss of each update."""

    losses: list[float]

    def compute_loss(self, *arguments: Any, **options: Any) -> Any:
        loss = super().compute_loss(*arguments, **options)
        self.losses.append(float(loss.detach()))
        return loss


class Clock(transformers.TrainerCallback):
    """Notes when updates are finished."""

    def __init__(self) -> None:
        self.finished: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.finished.append(time.perf_counter())


def theirs(model: Any, tokenizer: Any, rows: datasets.Dataset, folder: Path) -> Run:
    clock = Clock()
    arguments = trl.SFTConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=BATCH,
        num_train_epochs=1,
        train_sampling_strategy="sequential",
        shuffle_dataset=False,
        max_length=None,
        learning_rate=CONFIG.sft_lr,
        lr_scheduler_type="constant",
        weight_decay=0.0,
        max_grad_norm=CONFIG.grad_clip,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Recorder(model, arguments, train_dataset=rows, processing_class=tokenizer, callbacks=[clock])
    trainer.losses = []
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return speed(clock.finished), trainer.losses


def labelled(batches: list[list[Episode]]) -> datasets.Dataset:
    """Return the rows of all batches with the labels of the tokens that are trained."""
    rows: list[dict[str, list[int]]] = []
    for batch in batches:
        segments = build(batch)
        assert len(segments) == BATCH, "an episode did not become one row"
        for segment in segments:
            labels = [int(i) if m else -100 for i, m in zip(segment.ids, segment.mask, strict=True)]
            rows.append({"input_ids": segment.ids.tolist(), "labels": labels})
    return datasets.Dataset.from_list(rows)


def compare(folder: Path, updates: int, rounds: int) -> dict[str, Any]:
    """Train both arms in turn, the first of each round alternating."""
    init_policy(CONFIG.env, folder / "policy", env_options=CONFIG.env_options)
    model, tokenizer = load_policy(folder / "policy")
    batches = demonstrations(copy.deepcopy(model), tokenizer, updates)
    rows = labelled(batches)
    speeds: dict[str, list[float]] = {"packed": [], "SFTTrainer": []}
    losses: dict[str, list[float]] = {}
    for round in range(rounds):
        for arm in sorted(speeds, reverse=round % 2 == 1):
            fresh = copy.deepcopy(model).train()
            rate, losses[arm] = ours(fresh, batches) if arm == "packed" else theirs(fresh, tokenizer, rows, folder)
            speeds[arm].append(rate)
    ratios = [a / b for a, b in zip(*speeds.values(), strict=True)]
    differences = [abs(a - b) for a, b in zip(*losses.values(), strict=True)]
    lengths = [len(row) for row in rows["input_ids"]]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "rows_per_second": {arm: statistics.median(values) for arm, values in speeds.items()},
        "first_loss": {arm: values[0] for arm, values in losses.items()},
        "last_loss": {arm: values[-1] for arm, values in losses.items()},
        "largest_loss_difference": max(differences),
        "tokens_of_a_row": [min(lengths), statistics.median(lengths), max(lengths)],
        "parameters": model.num_parameters(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="where to write the result as JSON")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as folder:
        result = compare(Path(folder), options.updates, options.rounds)
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    rate, first, tokens = result["rows_per_second"], result["first_loss"], result["tokens_of_a_row"]
    low, high = min(result["ratios"]), max(result["ratios"])
    print(f"the packed step is {result['ratio']:.2f} times SFTTrainer ({low:.2f} to {high:.2f})")
    print(f"  rows a second  {rate['packed']:.1f} and {rate['SFTTrainer']:.1f}")
    print(f"  first loss     {first['packed']:.6f} and {first['SFTTrainer']:.6f}")
    print(f"  largest difference of losses in {options.updates} updates  {result['largest_loss_difference']:.1e}")
    print(f"  tokens of a row {tokens[0]} to {tokens[2]}, median {tokens[1]:g}; {result['parameters']} parameters")
    print(f"  {options.threads} threads, torch {torch.__version__}, trl {trl.__version__}")
    if abs(first["packed"] - first["SFTTrainer"]) > 1e-4:
        raise SystemExit("the arms do not see the same first loss")


if __name__ == "__main__":
    main()
