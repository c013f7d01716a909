"""Imitation of stored episodes: a training run without rollouts, with the same folder, progress and resuming."""

# accelerate is typed in parts only
# pyright: reportMissingTypeStubs=false

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import Accelerator

from agentgym.core.loops import own_loop
from agentgym.core.seeding import generator
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.trainers.config.imitation_config import ImitationConfig, read_imitation
from agentgym.trainers.data.stored import Encoder, digest, read_files, text_only
from agentgym.trainers.learners.sharded import local
from agentgym.trainers.loggers import interface as loggers
from agentgym.trainers.model import precision
from agentgym.trainers.run import preflight
from agentgym.trainers.run.interrupt import uninterrupted
from agentgym.trainers.run.record import Record
from agentgym.trainers.run.session import RunSession, Show, join_processes
from agentgym.trainers.run.stages import Stages

LINES = 20
"""Minimum number of progress lines of a run with at least as many updates; there may be almost twice as many."""


def sft(config: ImitationConfig, show: Show | None = None) -> dict[str, object]:
    """Imitate stored episodes in a fresh folder and return the summary; Ctrl-C leaves a checkpoint to resume from."""
    with own_loop():
        return Imitation.fresh(config, show).run_to_end()


def resume_sft(
    folder: str | Path, show: Show | None = None, *, settings: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Resume a run from its newest checkpoint; on a CPU the result is identical to that of an uninterrupted run.

    `settings` say where and how the run continues, by flag without dashes, as in `agentgym.trainers.resume`.
    """
    with own_loop():
        return Imitation.resumed(folder, show, settings).run_to_end()


def cautions(config: ImitationConfig, files: Sequence[list[Episode]]) -> list[str]:
    """Return warnings about settings that are allowed but rarely intended."""
    learning = replace(config.learning, steps=1, lr=config.lr)
    notes = preflight.cautions(learning)
    held_out = sum(episode.split == "test" for episodes in files for episode in episodes)
    if held_out:
        notes.append(
            f"{held_out} episodes are of the split 'test', which then measures nothing: --split train leaves them out"
        )
    return notes


def deal(lengths: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> list[tuple[int, int]]:
    """Return the (file, episode) indices of an epoch (from 0), as many as there are episodes; each file gets its share.

    `lengths`: episodes per file. `weights`: weight per file; empty means the number of episodes. Shares are rounded, so
    the number of indices may differ slightly. Each pass over a file has a new order, and an epoch continues where the
    previous one stopped. The result is a pure function of its arguments. Without weights, every episode occurs once per
    epoch.
    """
    total = sum(lengths)
    shares = [total * weight / sum(weights) for weight in weights or lengths] if weights else [float(n) for n in lengths]
    pairs: list[tuple[int, int]] = []
    for file, (length, share) in enumerate(zip(lengths, shares, strict=True)):
        for number in range(round(epoch * share), round((epoch + 1) * share)):
            order = generator("sft file", seed, file, number // length).permutation(length)
            pairs.append((file, int(order[number % length])))
    return [pairs[int(place)] for place in generator("sft epoch", seed, epoch).permutation(len(pairs))]


class Imitation(RunSession):
    """One session of an `agentgym sft` run."""

    command = "sft"

    def __init__(
        self,
        accelerator: Accelerator,
        record: Record,
        state: dict[str, Any] | None,
        config: ImitationConfig,
        files: list[list[Episode]],
        show: Show | None,
    ) -> None:
        super().__init__(accelerator, record, show)
        self.config = config
        self.done, self.seconds = (0, 0.0) if state is None else (state["position"], state["seconds"])
        self.nll = float("nan") if state is None else state["nll"]
        self.data = digest(files)
        model = Path(config.model if state is None else state["folder"])
        self.learner = local(accelerator, config.learning, model, state={"resumed": state is not None})
        try:
            self.files = self._with_tokens(files)
            self.draws = [
                pair
                for epoch in range(config.epochs)
                for pair in deal([len(file) for file in files], config.weights, config.seed, epoch)
            ]
            self.updates = -(-len(self.draws) // config.batch)
            self.learner.begin("sft", record.folder)
            if state is not None:
                self.learner.load_state_dict(state["learner"])
            chosen = Stages(config.learning).loggers
            self.loggers = loggers.start(chosen, config.learning, record.folder, accelerator.is_main_process)
        except BaseException:
            self.learner.close()
            raise

    @classmethod
    def fresh(cls, config: ImitationConfig, show: Show | None = None) -> "Imitation":
        """Start a run in a fresh folder; see `sft`."""
        accelerator = join_processes(config.processes, cls.command)
        preflight.check_free(Path(config.out))
        config = replace(config, model=preflight.model_folder(config.model))
        config = replace(config, precision=precision.resolve(config.precision, accelerator.device))
        files = read_files(config.files, config.which)
        if accelerator.is_main_process:
            for caution in cautions(config, files):
                warnings.warn(caution, stacklevel=2)
        record = Record.fresh(config.learning, accelerator.is_main_process, config.to_toml())
        try:
            return cls(accelerator, record, None, config, files, show)
        except BaseException:
            record.discard()
            raise

    @classmethod
    def resumed(
        cls, folder: str | Path, show: Show | None = None, settings: Mapping[str, object] | None = None
    ) -> "Imitation":
        """Resume a run from its newest checkpoint; see `resume_sft`.

        Raises:
            BadConfig: the files contain other episodes than at the start of the run.
        """
        config = read_imitation(folder, settings)
        accelerator = join_processes(config.processes, cls.command)
        files = read_files(config.files, config.which)
        record = Record(folder, config.learning, accelerator.is_main_process)
        try:
            record.tidy()
            state = record.newest_state()
            if state is not None and state["data"] != digest(files):
                raise BadConfig(
                    f"the files of {folder} ({', '.join(config.files)}) hold other episodes than at the start of the run: "
                    "a run must continue with the same ones; restore them, or start another run"
                )
            record.rewind((0, 0) if state is None else state["offsets"])
            record.note_session(0 if state is None else state["position"], config.processes)
            return cls(accelerator, record, state, config, files, show)
        except BaseException:
            record.close()
            raise

    def _with_tokens(self, files: list[list[Episode]]) -> list[list[Episode]]:
        """Return the episodes; text-only episodes are encoded with the model's tokenizer."""
        if not any(text_only(episode) for episodes in files for episode in episodes):
            return files
        encode = Encoder(self.config.learning.spec, self.learner.engine, self.learner.tokenizer)
        return [[encode(episode) for episode in episodes] for episodes in files]

    def run_to_end(self) -> dict[str, object]:
        """Take all remaining updates and return the summary."""
        with closing(self.record):
            with closing(self.learner), closing(self.loggers), self.stopping():
                while self.done < self.updates:
                    self._update()
                    self.updated(due=self.done % self.config.checkpoint_every == 0)
            return self.ended(self._summary())

    def _update(self) -> None:
        config, started = self.config, time.perf_counter()
        self.show("progress", {"what": "imitation, update", "done": self.done + 1, "total": self.updates})
        batch = self.draws[self.done * config.batch : (self.done + 1) * config.batch]
        mine = batch[self.accelerator.process_index :: self.accelerator.num_processes]
        with uninterrupted():
            lr = config.lr_at(self.done, self.updates)
            metrics = self.learner.imitate([self.files[file][number] for file, number in mine], lr)
            self.done += 1
            self.nll = metrics.get("nll", self.nll)
            took = time.perf_counter() - started
            self.seconds += took
            epoch = min(self.done * config.batch, len(self.draws)) * config.epochs / len(self.draws)
            row: dict[str, object] = {"step": self.done, "phase": "sft", **metrics, "lr": lr, "epoch": epoch}
            row |= {"seconds": took, "eta_seconds": self.seconds / self.done * (self.updates - self.done)}
            self.log(row)
            if self.done % max(1, self.updates // LINES) == 0 or self.done == self.updates:
                self.show("sft", {**row, "demonstrations_lost": 0})

    @property
    def position(self) -> int:
        """Number of updates so far."""
        return self.done

    def state_dict(self) -> dict[str, object]:
        """Return the state to resume from."""
        counted = {"position": self.done, "seconds": self.seconds, "nll": self.nll, "data": self.data}
        return {**counted, "learner": self.learner.state_dict()}

    def _summary(self) -> dict[str, object]:
        config = self.config
        return {
            "nll": self.nll,
            "episodes": sum(map(len, self.files)),
            "drawn": len(self.draws),
            "updates": self.updates,
            "epochs": config.epochs,
            "train_seconds": round(self.seconds, 1),
            "model": config.model,
            "checkpoint": str(self.record.newest() or ""),
            "seed": config.seed,
        }
