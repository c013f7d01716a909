"""The folder of a run: files written during the run, and resuming from them."""

import json
import math
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import torch
from torch import distributed

import agentgym
from agentgym.core import provenance
from agentgym.core.folders import alone, remove_parts, write_whole
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, BadData
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.config.train_config import STATE, TrainConfig, newest_checkpoint
from agentgym.trainers.run.preflight import RUN, check_free

OWN = {"init", "checkpoints", "metrics.jsonl", "episodes.jsonl", "config.toml", "manifest.json", ".lock"}
"""Files and folders that a run writes; some exist before the `Record` does."""
BEST = "best.json"
"""Name of the file in `checkpoints/best` with the step of the best checkpoint."""


class Record:
    """Metrics, episodes and checkpoints of one run. An interruption leaves the last complete checkpoint intact.

    With several processes, only the process with `writes=True` writes.
    """

    def __init__(self, folder: str | Path, config: TrainConfig, writes: bool = True) -> None:
        self.folder = Path(folder)
        self.config = config
        self.writes = writes
        self._unfinished = ""
        self.lock = ExitStack()
        self.foreign = {path.name for path in self.folder.iterdir()} - OWN if self.folder.is_dir() else set[str]()
        if writes:
            self.lock.enter_context(alone(self.folder, RUN))
        for name in (*OWN, "summary.json") if writes else ():  # links in a stranger's folder could redirect writes
            if (self.folder / name).is_symlink():
                self.lock.close()
                raise BadData(f"{self.folder / name} is a link; expected a run's own file: a run writes in its folder only")
        self.checkpoints = self.folder / "checkpoints"
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.best, self.old_best = self.checkpoints / "best", self.checkpoints / ".old-best"
        self.metrics = (self.folder / "metrics.jsonl").open("a", encoding="utf-8")
        self.episodes = (self.folder / "episodes.jsonl").open("a", encoding="utf-8")

    @classmethod
    def fresh(cls, config: TrainConfig, writes: bool = True, text: str | None = None) -> "Record":
        """Start a run in a folder without a run; an earlier run in the folder is an error and never overwritten.

        `text`: content of `config.toml` if it is not a configuration of `train`.

        Raises:
            BadConfig: the folder already has a run.
        """
        folder = Path(config.out)
        record = cls(folder, config, writes)
        if writes:
            try:
                check_free(folder)
            except BadConfig:
                record.close()
                raise
        if writes:  # last and atomic: a folder with a configuration can be resumed
            record.note_session(0, config.processes)
            write_whole(folder / "config.toml", to_toml(config) if text is None else text)
        return record

    @classmethod
    def resumed(
        cls,
        folder: str | Path,
        config: TrainConfig,
        writes: bool = True,
    ) -> tuple["Record", dict[str, Any] | None]:
        """Open an earlier run; return it with the newest checkpoint's state (None before the first checkpoint).

        `config`: the stored configuration, or an extended one, which then replaces the stored one. The files of metrics
        and episodes are truncated to the checkpoint. If `config` has more steps than a finished run, its final evaluation
        is removed.
        """
        path = Path(folder) / "config.toml"
        record = cls(folder, config, writes)
        record.tidy()
        if writes and path.read_text(encoding="utf-8") != (text := to_toml(config)):
            write_whole(path, text)
        state = record.newest_state()
        left = 0 if state is None else config.steps - (state["tally"]["position"] - config.sft_steps)
        if state is not None and left > 0 and "success_after" in state["results"]:
            del state["results"]["success_after"]  # the measured end is no longer the end
            state["offsets"] = state.get("end") or state["offsets"]
        record.rewind((0, 0) if state is None else state["offsets"])
        record.note_session(0 if state is None else state["tally"]["position"], config.processes)
        return record, state

    def newest_state(self) -> dict[str, Any] | None:
        """Return the state of the newest checkpoint, with its folder as `folder`; None before the first checkpoint."""
        newest = self.newest()
        return None if newest is None else {**_load(newest / STATE), "folder": str(newest)}

    def rewind(self, offsets: tuple[int, int]) -> None:
        """Truncate the files of metrics and episodes to earlier lengths in bytes; later steps will be repeated.

        Raises:
            BadData: a file is shorter than at the checkpoint.
        """
        for file, offset in zip((self.metrics, self.episodes), offsets, strict=True):
            if not self.writes:
                break
            if offset > os.fstat(file.fileno()).st_size:
                raise BadData(f"{file.name} is shorter than at the last checkpoint; it was cut or replaced")
            file.truncate(offset)
            file.seek(offset)

    def note_session(self, position: int, processes: int) -> None:
        """Add this session to `manifest.json`: time, command, versions, hardware, `processes` and `position`.

        At position 0, the file starts over.
        """
        if not self.writes:
            return
        path = self.folder / "manifest.json"
        before: list[Any] = json.loads(path.read_text(encoding="utf-8"))["sessions"] if position and path.exists() else []
        session = {**provenance.session(agentgym.__version__), "processes": processes, "position": position}
        provenance.write_json(path, {"format": 1, "sessions": [*before, session]})

    def note_pools(self, pools: dict[str, dict[str, object]]) -> None:
        """Record each environment's pool of tasks (number and hash) in this session's entry of `manifest.json`.

        Raises:
            BadData: an earlier session trained on another pool.
        """
        path = self.folder / "manifest.json"
        if not self.writes and not path.exists():  # a first session that the first process has not recorded yet
            return
        sessions: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["sessions"]
        for earlier in sessions[:-1]:
            if (before := earlier.get("pools", pools)) != pools:  # a session that ended before training recorded none
                raise BadData(
                    f"{self.folder} was trained on the pools {before} (tasks and hash by environment) and would go on with "
                    f"{pools}: the tasks changed, with their file or with the version of agentgym. Bring them back, or "
                    "start a new run"
                )
        if self.writes and pools:
            sessions[-1]["pools"] = pools
            provenance.write_json(path, {"format": 1, "sessions": sessions})

    def note_wordings(self, wordings: dict[str, list[str]]) -> None:
        """Record in this session's entry of `manifest.json` which wordings the environments use, if they have several."""
        if self.writes and wordings:
            path = self.folder / "manifest.json"
            sessions: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["sessions"]
            sessions[-1]["wordings"] = wordings
            provenance.write_json(path, {"format": 1, "sessions": sessions})

    def tidy(self) -> None:
        """Remove files that a killed session left incomplete, and undo half-done renames; every process must call this."""
        if self.writes:
            remove_parts(self.folder)
            if not self.best.exists() and self.old_best.exists():  # killed between two renames
                self.old_best.rename(self.best)
            for old in self.checkpoints.glob(".old-step-*"):
                if not (
                    final := self.checkpoints / old.name.removeprefix(".old-")
                ).exists():  # the same checkpoint, complete
                    old.rename(final)
            for path in (*self.checkpoints.glob(".*"), self.folder / ".reference"):
                shutil.rmtree(path, ignore_errors=True)
        if distributed.is_initialized():
            distributed.barrier()  # pyright: ignore[reportUnknownMemberType]  # else they could resume from different checkpoints

    def discard(self) -> None:
        """Delete the files that the start of a run made, including those of loggers, so that the folder is free again."""
        if self.writes:
            for path in self.folder.iterdir():
                if path.name in self.foreign:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
        self.close()
        if self.writes and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def newest(self) -> Path | None:
        """Return the folder of the newest complete checkpoint, or None."""
        return newest_checkpoint(self.folder)

    def log(self, metrics: dict[str, object]) -> None:
        """Append one step's metrics to `metrics.jsonl`."""
        self._append(self.metrics, [json.dumps(_finite(metrics))])

    def keep(self, episodes: list[Episode]) -> None:
        """Append episodes to `episodes.jsonl`."""
        self._append(self.episodes, [episode.to_json() for episode in episodes])

    def _append(self, file: IO[str], lines: list[str]) -> None:
        if not self.writes:
            return
        try:
            file.writelines(line + "\n" for line in lines)
            file.flush()
        except OSError as error:
            raise BadData(
                f"{file.name} could not be written ({error}). The checkpoints are intact: free some space, then resume with "
                f"--resume {self.folder}"
            ) from error

    def checkpoint(
        self, save: Callable[[Path], None], position: int, state: dict[str, object], *, together: bool = False
    ) -> None:
        """Write a checkpoint; it is incomplete, and no run resumes from it, until `finish` is called.

        `save` writes the model. `together`: every process calls `save`, not only the one that writes.

        Raises:
            BadData: the checkpoint cannot be written.
        """
        name = f"step-{position:08d}"
        draft, old, _ = self._places(name)
        if not self.writes:
            if together:
                save(draft)
            return
        for path in (draft, old):
            shutil.rmtree(path, ignore_errors=True)
        state = {**state, "offsets": self.offsets()}
        try:
            save(draft)
            torch.save(state, draft / STATE)
        except (OSError, RuntimeError, BadData) as error:  # torch raises RuntimeError on a full disk
            raise self._not_written(draft, error) from error
        self._unfinished = name

    def finish(self) -> None:
        """Complete the checkpoint that was written last, atomically, and delete all but the last two.

        Raises:
            BadData: the checkpoint cannot be moved to its final name.
        """
        name, self._unfinished = self._unfinished, ""
        if not name:
            return
        draft, old, final = self._places(name)
        try:
            if final.exists():  # made before an interruption, or as the previous last step
                final.rename(old)  # atomic: a half-deleted folder would look like the newest checkpoint
            draft.rename(final)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            raise self._not_written(draft, error) from error
        for stale in sorted(self.checkpoints.glob("step-*"))[:-2]:
            stale.rename(old)
            shutil.rmtree(old)

    def _places(self, name: str) -> tuple[Path, Path, Path]:
        """Return the paths of a checkpoint that is being written, of the one it replaces, and of the complete one."""
        return self.checkpoints / f".{name}", self.checkpoints / f".old-{name}", self.checkpoints / name

    def _not_written(self, draft: Path, error: Exception) -> BadData:
        """Remove an incomplete checkpoint and return the error to raise."""
        shutil.rmtree(draft, ignore_errors=True)
        return BadData(
            f"checkpoint {draft.with_name(draft.name.removeprefix('.'))} could not be written ({error}). The earlier ones "
            f"are intact: free some space, then continue with --resume {self.folder}"
        )

    def is_best(self, success: float) -> bool:
        """Return True if this process writes, and `success` is not nan and above every earlier validation success."""
        best = self.best_step() if self.writes else None
        return self.writes and not math.isnan(success) and (best is None or success > best["success_valid"])

    def keep_best(self, save: Callable[[Path], None], step: int, success: float, *, together: bool = False) -> None:
        """Save the model as `checkpoints/best` if `success` is the highest so far, all or nothing.

        `step`: number of steps taken. `together`: every process calls `save`, not only the one that writes.

        Raises:
            BadData: the model cannot be written.
        """
        draft = self.checkpoints / ".best"
        if not self.writes:
            if together:
                save(draft)
            return
        if not self.is_best(success):
            return
        for path in (draft, self.old_best):
            shutil.rmtree(path, ignore_errors=True)
        try:
            save(draft)
            write_whole(draft / BEST, json.dumps({"step": step, "success_valid": success}) + "\n")
            if self.best.exists():
                self.best.rename(self.old_best)  # `tidy` restores it after a kill before the next line
            draft.rename(self.best)
            shutil.rmtree(self.old_best, ignore_errors=True)
        except (OSError, RuntimeError, BadData) as error:
            raise self._not_written(draft, error) from error

    def best_step(self) -> dict[str, Any] | None:
        """Return `step` and `success_valid` of the best checkpoint; None if there is none."""
        path = self.best / BEST
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def offsets(self) -> tuple[int, int]:
        """Return the lengths of the files of metrics and episodes, in bytes."""
        return self.metrics.tell(), self.episodes.tell()

    def write(self, name: str, content: dict[str, object]) -> None:
        """Write a JSON file in the run's folder, all or nothing."""
        if not self.writes:
            return
        write_whole(self.folder / name, json.dumps(_finite(content), indent=2) + "\n")

    def close(self) -> None:
        """Close the files and unlock the folder."""
        self.metrics.close()
        self.episodes.close()
        self.lock.close()


def _finite(numbers: dict[str, object]) -> dict[str, object]:
    """Return numbers for JSON, with null in place of those that are not finite."""
    return {k: (None if isinstance(v, float) and not math.isfinite(v) else v) for k, v in numbers.items()}


def _load(path: Path) -> dict[str, Any]:
    try:
        return torch.load(path, weights_only=True, map_location="cpu")  # not all onto GPU 0: the receiver moves it
    except Exception as error:  # torch raises many types for a damaged file
        raise BadData(
            f"{path}: damaged checkpoint ({type(error).__name__}: {error}); remove its folder to use an earlier one"
        ) from error
