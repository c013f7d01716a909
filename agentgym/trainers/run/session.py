"""One session of a run, with the logic that `agentgym train` and `agentgym sft` share."""

# accelerate is typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false

import atexit
import os
import signal
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import distributed

from agentgym.errors import BadConfig, EngineDead
from agentgym.trainers.learners.interface import Learner, PartitionedLearner
from agentgym.trainers.learners.step import CannotContinue
from agentgym.trainers.loggers import interface as loggers
from agentgym.trainers.run.launch import main_process
from agentgym.trainers.run.record import Record

T = TypeVar("T")
Show = Callable[[str, dict[str, Any]], None]
"""Function that displays progress: it gets the event (`start`, `progress`, `sft`, `step`, `eval` or `end`) and numbers."""


class RunSession(ABC):
    """A session of a run, from its start or a checkpoint: it logs, writes checkpoints and stops all processes together.

    Every process has a session, and all call the same methods in the same order.
    """

    command: str
    """Name of the command that resumes the run: `train` or `sft`."""
    loggers: loggers.Loggers
    learner: Learner

    def __init__(self, accelerator: Accelerator, record: Record, show: Show | None) -> None:
        self.accelerator, self.record = accelerator, record
        self.show: Show = show if show and accelerator.is_main_process else _silent
        self.interrupted = False
        torch.manual_seed(record.config.seed)

    @property
    @abstractmethod
    def position(self) -> int:
        """Number of SFT updates and training steps so far."""

    @abstractmethod
    def state_dict(self) -> dict[str, object]:
        """Return the state to resume from; every process must call this."""

    @contextmanager
    def stopping(self) -> Generator[None]:
        """Run updates in the block; write a checkpoint at its end and at Ctrl-C, and add the resume command to errors.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
            BadConfig: the run cannot continue.
            EngineDead: the engine is permanently unavailable.
        """
        if self.accelerator.num_processes > 1:  # processes stop together, at the end of an update
            signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield
        except KeyboardInterrupt:
            self.checkpoint()
            raise
        except (CannotContinue, EngineDead) as error:
            raise (BadConfig if isinstance(error, CannotContinue) else EngineDead)(
                f"training stopped at update {self.position + 1}: {error}. The last good checkpoint is "
                f"{self.record.newest() or 'none'}; continue with: agentgym {self.command} --resume {self.record.folder}"
            ) from error
        self.checkpoint()

    def updated(self, *, due: bool) -> None:
        """After an update, stop if any process was interrupted.

        Else complete the checkpoint in progress if all processes have written their parts, and begin another if `due`.

        Raises:
            KeyboardInterrupt: a process was interrupted.
        """
        written = not isinstance(self.learner, PartitionedLearner) or self.learner.parts_written()
        states = self.gather([(self.interrupted, written)])
        if any(interrupted for interrupted, _ in states):
            raise KeyboardInterrupt
        if all(written for _, written in states):
            self.record.finish()
        if due:
            self.checkpoint(wait=False)

    def checkpoint(self, *, wait: bool = True) -> None:
        """Write a checkpoint; without `wait`, return while sharded parts are still being written."""
        together = isinstance(self.learner, PartitionedLearner)
        self._finish()
        self.record.checkpoint(self._save, self.position, self.state_dict(), together=together)
        if wait or not together:
            self._finish()

    def _finish(self) -> None:
        """Wait for the checkpoint that is being written, and complete it."""
        if isinstance(self.learner, PartitionedLearner):
            self.learner.parts_written(wait=True)
            self.accelerator.wait_for_everyone()
        self.record.finish()

    def _save(self, folder: Path) -> None:
        self.learner.save(folder)
        if isinstance(self.learner, PartitionedLearner):
            self.learner.save_parts(folder)

    def log(self, row: dict[str, object]) -> None:
        """Write a row of metrics and pass it to the loggers."""
        self.record.log(row)
        self.loggers.log(self.position, row)

    def ended(self, summary: dict[str, object]) -> dict[str, Any]:
        """Write and return the summary of the finished run."""
        self.record.write("summary.json", summary)
        if self.accelerator.num_processes > 1:  # a process that leaves early would crash those that still listen
            self.accelerator.wait_for_everyone()
            self.accelerator.end_training()
        return summary

    def gather(self, items: list[T]) -> list[T]:
        """Return the items of all processes, in the order of the processes."""
        return items if self.accelerator.num_processes == 1 else gather_object(items)

    def _interrupt(self, signal: int, frame: FrameType | None) -> None:
        self.interrupted = True


def join_processes(processes: int, command: str) -> Accelerator:
    """Join the processes of a run and return the accelerator; `command` is named in the error.

    Raises:
        BadConfig: the number of started processes is not `processes`.
    """
    ignore_fsdp_settings()
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")  # else products round differently with the alignment of memory
    accelerator = Accelerator(cpu=not torch.cuda.is_available())  # else accelerate does not join processes on a CPU
    if accelerator.num_processes != processes:
        raise BadConfig(
            f"processes is {processes}, but {accelerator.num_processes} were started: run it with `agentgym {command}`, "
            f"which starts them, or with `accelerate launch --num_processes {processes} -m agentgym {command} …`"
        )
    if accelerator.mixed_precision != "no":
        ignore_mixed_precision(accelerator)
    if processes > 1:
        atexit.register(_leave_process_group)
    return accelerator


def ignore_fsdp_settings() -> None:
    """Turn off FSDP in the launcher's configuration, with a warning; call it before a model is loaded.

    Otherwise accelerate would wrap the model, and transformers would read the weights in the first process only and
    leave it to the wrapper to send them to the others.
    """
    if os.environ.pop("ACCELERATE_USE_FSDP", "false").lower() == "true" and main_process():
        warnings.warn("accelerate's FSDP settings are ignored: --sharding says what this run shards", stacklevel=3)


def ignore_mixed_precision(accelerator: Accelerator) -> None:
    """Turn off the autocast that accelerate would add to the model.

    The setting is global to the process: it comes from `accelerate config`, from the launcher, or from another trainer
    in the process (TRL defaults to bf16). The engine would not use it, and --precision would not show it.

    Raises:
        BadConfig: the setting cannot be turned off.
    """
    setting = accelerator.mixed_precision
    if setting != "bf16":
        raise BadConfig(
            f"accelerate's mixed precision is {setting!r} here (from `accelerate config`, `accelerate launch "
            "--mixed_precision`, or another trainer in this process): set it to 'no', and use --precision"
        )
    warnings.warn("accelerate's mixed precision 'bf16' is ignored: --precision says what this run computes in", stacklevel=3)
    accelerator.native_amp = False


def _leave_process_group() -> None:
    """Close the connections between processes while Python still runs.

    If interpreter shutdown closes a transport, it may find the other process gone and abort (signal 6), and that signal
    would hide the run's exit code.
    """
    if distributed.is_initialized():
        distributed.destroy_process_group()


def _silent(kind: str, numbers: dict[str, object]) -> None:
    del kind, numbers
