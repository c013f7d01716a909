"""Reader for the files of a training run or an evaluation, which may be large, damaged or missing."""

import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from agentgym.episodes.checks import FAULTS, check_verdict, digest, of_evaluation, repeated
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig, BadData
from agentgym.logs.foreign import SUFFIXES, NoLog, read_place

TRAINED = ("train", "hinted", "branched")
"""Parts of a training run that are not evaluations."""
LARGEST = 2**1000
"""Largest absolute value of an integer in metrics; a larger one may not fit a float and is read as None."""
DAMAGED = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
"""Exceptions that parsing a malformed line may raise."""


@dataclass(frozen=True, slots=True)
class Row:
    """An episode's position in its file, and its fields for lists and tables."""

    offset: int
    env: str
    task_id: str
    type: str
    difficulty: str
    part: str
    """In a training run: `train`, `hinted` (training with a hint), `branched` (training from inside another attempt) or
    `eval`. Otherwise empty.
    """
    step: str
    outcome: str
    """`succeeded`, `failed`, or `fault` if success is unknown."""
    group: str = ""
    """Group id, shared by the attempts that are compared with one another."""
    attempt: int = 0


@dataclass(frozen=True)
class RunFolder:
    """A run: a folder written by `train` or `eval`, a single file of episodes, or a log of another program."""

    name: str
    episodes: Path | None
    config: str | None
    manifest: dict[str, Any] | None
    summary: dict[str, Any] | None
    metrics: list[dict[str, Any]]
    page: Path
    """Path of the run's HTML report."""
    folder: Path | None = None
    """Folder of the run; None for a file of episodes or a log."""
    logged: bytes = b""
    """Episodes converted from another program's log, as JSON lines; empty if a file has the episodes."""

    def rows(self) -> Iterator[Row]:
        """Yield one row for each complete episode; a truncated last line is left out.

        Raises:
            BadData: another line is not an episode, or an evaluation contains the same attempt twice.
        """
        evaluation = self.episodes is not None and of_evaluation(self.episodes)
        seen: dict[tuple[object, ...], bytes] = {}
        with self._lines() as file:
            offset = 0
            for number, line in enumerate(file, 1):
                if line.strip():
                    try:
                        raw = json.loads(line)
                    except DAMAGED as error:
                        if line.endswith(b"\n"):
                            raise BadData(f"{self.episodes}, line {number}: not an episode ({error})") from error
                        return
                    try:
                        row = row_of(offset, raw, training=self.config is not None)
                        again = repeated(raw, digest(line), seen, evaluation=evaluation)
                    except DAMAGED as error:
                        raise BadData(f"{self.episodes}, line {number}: not an episode ({error})") from error
                    if not again:
                        yield row
                offset += len(line)

    def read(self, rows: list[Row]) -> Iterator[Episode]:
        """Yield the episodes of the given rows."""
        with self._lines() as file:
            for row in rows:
                file.seek(row.offset)
                yield Episode.from_json(file.readline().decode("utf-8"))

    def _lines(self) -> IO[bytes]:
        return self.episodes.open("rb") if self.episodes else io.BytesIO(self.logged)


def open_run(path: str | Path) -> RunFolder:
    """Return the run in a folder, in one file of episodes, or in a log of another program.

    Raises:
        BadConfig: the path has no episodes or metrics to show.
    """
    path = Path(path)
    if not path.exists():
        raise BadConfig(f"{path} does not exist: expected a run folder, a file of episodes, or a log of another program")
    episodes, metrics = path / "episodes.jsonl", path / "metrics.jsonl"
    page = path / "report.html" if path.is_dir() else path.with_suffix(".html")
    if path.is_file() and path.suffix not in SUFFIXES:
        return RunFolder(path.stem, path, None, None, None, [], page)
    if not episodes.exists() and not metrics.exists():
        try:
            lines = "".join(f"{episode.to_json()}\n" for episode in read_place(path))
        except NoLog as error:
            why = f"{path} is not a run: expected episodes.jsonl or metrics.jsonl in it, or a log"
            raise BadConfig(f"{why} ({error})") from error
        return RunFolder(path.resolve().name, None, None, None, None, [], page, logged=lines.encode())
    config = path / "config.toml"
    return RunFolder(
        name=path.resolve().name,
        episodes=episodes if episodes.exists() else None,
        config=config.read_text(encoding="utf-8", errors="replace") if config.exists() else None,
        manifest=read_object(path / "manifest.json"),
        summary=read_object(path / "summary.json"),
        metrics=read_metrics(metrics) if metrics.exists() else [],
        page=page,
        folder=path,
    )


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a `metrics.jsonl` in order of phase and step; the last row of a repeated step wins.

    Each row gets `x`, its position on the step axis: the step for reinforcement learning, and positions to the left of the
    first such step for the SFT warm start.

    Raises:
        BadData: a line other than a truncated last one is invalid.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.strip():
            continue
        try:
            rows.append(metrics_row(line))
        except DAMAGED as error:
            if line.endswith(b"\n"):
                raise BadData(f"{path}, line {number}: expected a JSON object with a number `step` ({error})") from error
    return in_order(rows)


def metrics_row(line: str | bytes) -> dict[str, Any]:
    """Parse a line of `metrics.jsonl`; integers beyond `LARGEST` become None; a bad line raises one of `DAMAGED`.

    Raises:
        ValueError: the step is not a finite number.
    """
    row = cast("dict[str, Any]", json.loads(line))
    if isinstance(row["step"], bool | str) or not math.isfinite(float(row["step"])):
        raise ValueError(f"step is {row['step']!r}")
    return {name: None if isinstance(value, int) and abs(value) > LARGEST else value for name, value in row.items()}


def in_order(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of metrics in order of phase and step, with `x`, as `read_metrics` does."""
    rows = {(str(row.get("phase", "rl")), float(row["step"])): row for row in lines}
    sft = {step: row for (phase, step), row in rows.items() if phase == "sft"}
    rest = {step: row for (phase, step), row in rows.items() if phase != "sft"}
    shift = max(sft) - min(rest) + 1 if sft and rest and min(rest) <= max(sft) else 0.0
    placed = [{**row, "x": step - shift} for step, row in sorted(sft.items())]
    return placed + [{**row, "x": step} for step, row in sorted(rest.items())]


def read_object(path: Path) -> dict[str, object] | None:
    """Return the JSON object in a file; None if the file is missing or has another type of JSON value.

    Raises:
        BadData: the file is not JSON.
    """
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path} is not JSON ({error})") from error
    return cast("dict[str, object]", content) if isinstance(content, dict) else None


def row_of(offset: int, raw: dict[str, Any], *, training: bool) -> Row:
    """Return the row of an episode from its parsed fields; `turns` may be missing."""
    reason, success = str(raw["reason"]), raw["success"]
    check_verdict(reason, success)
    outcome = "fault" if reason in FAULTS or success is None else "succeeded" if success else "failed"
    part, step = place(str(raw["group_id"])) if training else ("", "")
    if part == "train":
        part = "hinted" if raw.get("hint") else "branched" if raw.get("forks") else part
    labels = cast("dict[str, object]", raw.get("labels") or {})
    level = str(labels.get("difficulty", ""))
    group, attempt = str(raw["group_id"]), int(raw.get("attempt", 0))
    kind = str(labels.get("type", ""))
    env = str(labels.get("env", raw["env"]))  # the name in a run of several environments
    return Row(offset, env, str(raw["task_id"]), kind, level, part, step, outcome, group, attempt)


MEASURED = {
    # first part of the group ids of a training run's test evaluations: label on the page
    "success_before": "before training",
    "success_sft": "after the SFT warm start",
    "success_after": "after training",
}


def place(group_id: str) -> tuple[str, str]:
    """Return the part and step that a training run's group id encodes.

    `12/…` is training, `eval/12/…` is evaluation at a step, and `eval/sft/12/…` at an update of the SFT warm start.
    """
    first, when, *rest = [*group_id.split("/", 3), "", ""]
    if first == "eval":
        return "eval", f"SFT update {rest[0]}" if when == "sft" else when
    if first in MEASURED:
        return "eval", MEASURED[first]
    return ("train", first) if first.isdecimal() else ("", "")


def finite(value: object) -> object:
    """Return a JSON value with infinities and NaN, which JSON lacks, replaced by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in cast("list[object]", value)]
    return value
