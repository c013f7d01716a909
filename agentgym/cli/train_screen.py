"""Terminal output of `agentgym train`: one line per step, and the current activity in between."""

import math
import time
from typing import Any

from rich.console import Console
from rich.status import Status

from agentgym.episodes.episode import MOST_FAULTS
from agentgym.report.updates import PATIENCE, advice, no_update
from agentgym.trainers.config.train_config import TrainConfig

JsonObject = dict[str, Any]

AGAIN = 10
"""Number of consecutive steps without an update after which the advice is repeated."""
QUIET = 60.0
"""Minimum seconds between two progress lines if the output is not a terminal."""


class Screen:
    """Prints a line per step; in between, a changing line in a terminal, or at most a progress line a minute in a file."""

    def __init__(self, console: Console, config: TrainConfig, folder: str) -> None:
        self.console, self.config, self.folder = console, config, folder
        self._printed_at = time.monotonic()
        self._status: Status | None = None
        self._idle: list[JsonObject] = []
        """Rows of the latest consecutive steps without an update."""

    def __call__(self, kind: str, numbers: dict[str, object]) -> None:
        """Show a report of the training loop."""
        getattr(self, f"_{kind}")(numbers)

    def begin(self, line: str, *, printed: bool = False) -> None:
        """Show the next activity at once, unless the launching process has `printed` it."""
        if self.console.is_terminal:
            self._status = self.console.status(line, refresh_per_second=4)
            self._status.start()
        elif not printed:
            self._print(line)

    def close(self) -> None:
        """Remove the progress line."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _print(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=not self.console.is_terminal)  # a terminal gets whole words
        self._printed_at = time.monotonic()

    def _progress(self, n: dict[str, object]) -> None:
        line = f"{n['what']} {n['done']:,} of {n['total']:,}"
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._printed_at > QUIET:
            self._print(line)

    def _start(self, n: JsonObject) -> None:
        where = f", continuing after update {n['position']}" if n["position"] else ""
        trained = f", {n['trained'] / 1e6:.2f} M of them in adapters trained," if self.config.lora_rank else ""
        known = "parameters" in n  # a custom learner may not report it
        size = f"{n['parameters'] / 1e6:.2f} M parameters{trained}" if known else f"learner {self.config.learner}"
        self._print(f"{self.folder}: {size} on {self.config.where}{where}")
        self._print(f"{n['sft_steps']} updates of imitation, then {n['steps']} of {self.config.credit}")
        if facts := [f"{name} {n[name]}" for name in ("precision", "attention") if name in n]:
            self._print(", ".join(facts))
        if n["correction"] is not None:
            self._print(
                f"engine {self.config.engine_kind.name} rounds differently from the trainer: the loss of every token is "
                f"weighted by min(trainer / engine, {n['correction']:g})"
            )

    def _eval(self, n: JsonObject) -> None:
        if not n["tasks"]:
            return
        what = {"success_before": "untrained", "success_sft": "after the SFT warm start", "success_after": "at the end"}
        self._print(
            f"success {what[n['name']]}: {n['success']:.1%} of {n['tasks']} {n['split']} tasks{_faults(n['faults'])}"
        )

    def _sft(self, n: JsonObject) -> None:
        lost = (
            f"  {n['demonstrations_lost']} demonstrations lost to infrastructure errors" if n["demonstrations_lost"] else ""
        )
        valid = f"  held out {n['success_valid']:.0%}" if "success_valid" in n else ""
        self._print(f"sft {n['step']:>5}  loss {n.get('nll', math.nan):.3f}{valid}{lost}  {duration(n['eta_seconds'])} left")

    def _step(self, n: JsonObject) -> None:
        self._print(one_line(step_cells(n, self.config.differs), self.console.width if self.console.is_terminal else None))
        reason = no_update(n)
        self._idle = [*self._idle, n] if reason else []
        if reason:
            self._print(f"  {reason}")
        if len(self._idle) == PATIENCE or (self._idle and not len(self._idle) % AGAIN):
            self._print(f"  {advice(self._idle)}")

    def _end(self, n: dict[str, object]) -> None:
        del n


def step_cells(n: JsonObject, differs: bool) -> list[str]:
    """Return the cells of a step's line, most important first; `differs` adds the mismatch of engine and trainer."""
    several = [f"{key.partition('/')[2]} {_rate(value)}" for key, value in n.items() if key.startswith("success_train/")]
    others = [f"{name} {_rate(n[f'success_{name}'])}" for name in ("started", "hinted") if f"success_{name}" in n]
    times = "/".join(f"{100 * n[f'share_{part}']:.0f}" for part in ("rollout", "train", "env"))
    mismatch = [f"ess {n.get('mismatch_ess', 1):.2f}"] if differs else []
    kinds = (("reference kl", "reference_kl", ".1e"), ("engine kl", "mismatch_kl", ".1e"), ("entropy", "entropy", ".2f"))
    updated = [f"{name} {n[key]:{form}}" for name, key, form in kinds if key in n]  # a step without an update has none
    errors = f"infrastructure errors {n['fault_share']:.1%}{' (not comparable)' if n['fault_share'] > MOST_FAULTS else ''}"
    return [
        f"step {n['step']:>4}",
        f"success {_rate(n['success_train']):>4}",
        *([errors] if n["fault_share"] > MOST_FAULTS else []),  # next to the number it belongs to, at any width
        f"held out {_rate(n.get('success_valid')):>4}",
        f"valid/parsed/cut {'/'.join(_whole(n.get(name)) for name in ('valid', 'parsed', 'cut'))}%",
        f"{duration(n['eta_seconds'])} left",
        *others,
        *several,
        f"reward {n['reward']:.2f}",
        f"{_whole(n.get('reply_tokens'), 1)} tokens/reply",
        f"turns {n['turns']:4.1f}",
        f"{n['tokens_per_second']:5.0f} tok/s",
        *updated,
        *mismatch,
        *(f"{name.removeprefix('curriculum/')} {value:g}" for name, value in n.items() if name.startswith("curriculum/")),
        f"dropped {n['groups_dropped']:>2} of {n.get('groups', '-')}",
        *([] if n["fault_share"] > MOST_FAULTS else [errors]),
        f"roll/train/env {times} %",
    ]


def _rate(value: float | None) -> str:
    """Return a rate in whole percent; a dash if it was not measured."""
    return "-" if value is None or math.isnan(value) else f"{value:.0%}"


def _whole(value: float | None, scale: int = 100) -> str:
    return "-" if value is None or math.isnan(value) else f"{scale * value:.0f}"


def _faults(share: float) -> str:
    """Return a note on the share of infrastructure errors; empty if there are none."""
    return f", {share:.1%} infrastructure errors{': not comparable' if share > MOST_FAULTS else ''}" if share else ""


def one_line(cells: list[str], width: int | None) -> str:
    """Return one line of the first cells that fit the width; all cells if the width is None."""
    line = cells[0]
    for cell in cells[1:]:
        if width is not None and len(line) + 2 + len(cell) > width:
            break
        line += f"  {cell}"
    return line


def duration(seconds: float) -> str:
    """Return a duration as m:ss, or in hours from 90 minutes on."""
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
