"""Terminal view of runs: as much of the web page's contents as fits on the screen."""

import math
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from agentgym.core.screen import printable
from agentgym.episodes.episode import MOST_FAULTS
from agentgym.errors import BadData
from agentgym.report.plots import running_mean
from agentgym.report.watch.run import FollowedRun

COLOURS = ("blue", "yellow", "green", "magenta", "cyan", "red", "white", "bright_black")
MARKS = {"succeeded": ("●", "green"), "failed": ("○", "red"), "fault": ("■", "yellow")}
STATES = {"running": "green", "finished": "blue", "stopped": "yellow", "waiting": "yellow", "open": ""}
CURVES = (("reward", "reward"), ("turns", "turns"), ("entropy", "entropy"), ("tokens/s", "tokens_per_second"))
MORE = (
    *(("started", "success_started"), ("hinted", "success_hinted"), ("valid", "valid"), ("cut", "cut")),
    *(("reply", "reply_tokens"), ("reference kl", "reference_kl"), ("gradient", "grad_norm")),
)
"""(name, metric) of the curves that come after those in CURVES and those of the curriculum, if the screen has room."""
NAMED = 20
"""Maximum characters of a curve's name."""
SMOOTH = 5
HEIGHT, LISTED, WIDEST = 8, 6, 24  # rows of the chart, groups in the list, characters of an action
CHANGES = ("state", "generation", "version", "about_version", "problems")
IDLE = 10.0
"""Seconds after which an unchanged screen is redrawn, to update the time since the last write."""
TALL = 28
"""Minimum height, in rows, of a screen that shows the newest group turn by turn."""


def show(runs: Sequence[FollowedRun], console: Console, seconds: float) -> None:
    """Show the runs until Ctrl-C and update every `seconds`; show them only once if the output is not a terminal."""
    states = _states(runs)
    if not console.is_terminal:
        console.print(screen(runs, states, console.width, 60))
        return
    drawn: tuple[object, float] = (None, 0.0)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            news = ([(len(state["rows"]), *(state[name] for name in CHANGES)) for state in states], console.size)
            if news != drawn[0] or time.monotonic() - drawn[1] > IDLE:
                live.update(screen(runs, states, *console.size), refresh=True)
                drawn = news, time.monotonic()
            time.sleep(seconds)
            states = _states(runs)


def _states(runs: Sequence[FollowedRun]) -> list[dict[str, Any]]:
    for run in runs:
        run.look()
        while run.behind:
            run.look()
    return [run.state() for run in runs]


def screen(runs: Sequence[FollowedRun], states: Sequence[dict[str, Any]], width: int, height: int) -> RenderableType:
    """Return the contents of a screen with `width` columns and `height` rows."""
    parts: list[RenderableType] = [_table(states)]
    for state in states:
        name = f"{state['name']}: " if len(states) > 1 else ""
        if state["state"] == "waiting" or len(states) == 1:
            parts.append(Text(printable(name + state["said"]), style="dim"))
        if state["idle"]:
            parts.append(Text(printable(name + state["idle"]), style="red"))
        if (_share(state) or 0.0) > MOST_FAULTS:
            parts.append(Text(printable(f"{name}more than 1 % infrastructure errors: not comparable"), style="red"))
        parts += [Text(printable(problem), style="yellow") for problem in state["problems"]]
    if any(_points(state, "success_train") for state in states):
        parts += [Text("\nsuccess in training (line), held out (◆)", style="dim"), _chart(states, width)]
    room = max(0, height - TALL)
    if len(states) == 1:
        parts += (sparks := _sparks(states[0], width, len(CURVES) + room // 2))
        room -= max(0, len(sparks) - len(CURVES))
    parts += _groups(states, width)
    if height >= TALL:
        parts += _newest(runs, states, width, room + 4)
    parts += _errors(states, width)
    return Group(*parts)


def _table(states: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", expand=False)
    for place, name in enumerate(("run", "", "step", "success", "held out", "errors", "tok/s", "left", "episodes")):
        table.add_column(name, justify="left" if place < 2 else "right", no_wrap=place > 0)
    for place, state in enumerate(states):
        rows, episodes = state["rows"], state["episodes"]
        last: dict[str, Any] = rows[-1] if rows else {}
        steps = state["about"].get("facts", {}).get("steps")
        step = f"{last['step']:g}" if rows else "-"
        of = f" of {steps}" if isinstance(steps, int) and last.get("phase") != "sft" and rows else ""
        share = _share(state)
        left = last.get("eta_seconds") if state["state"] == "running" else None
        speed = _last(state, "tokens_per_second")
        table.add_row(
            Text(printable(state["name"]), style=f"bold {COLOURS[place % 8] if len(states) > 1 else ''}"),
            Text("" if state["state"] == "open" else state["state"], style=STATES[state["state"]]),
            step + of,
            _percent(_last(state, "success_train") if rows else _so_far(episodes)),
            _percent(_last(state, "success_valid")),
            Text(_percent(share), style="red" if (share or 0.0) > MOST_FAULTS else ""),
            "-" if speed is None else f"{speed:.0f}",
            "-" if left is None else f"{left / 60:.0f} min",
            f"{episodes['total']:,}",
        )
    return table


def _share(state: dict[str, Any]) -> float | None:
    """Return the share of infrastructure errors in the newest step, else in the whole file; None without episodes."""
    episodes, share = state["episodes"], _last(state, "fault_share")
    return episodes["faults"] / episodes["total"] if share is None and episodes["total"] else share


def _so_far(episodes: dict[str, Any]) -> float | None:
    """Return an evaluation's success rate so far; None without a finished episode."""
    succeeded, failed = (sum(part.get(name, 0) for part in episodes["parts"]) for name in ("succeeded", "failed"))
    return succeeded / (succeeded + failed) if succeeded + failed else None


def _chart(states: Sequence[dict[str, Any]], width: int) -> Text:
    """Return a chart of training success in Braille dots (2 by 4 per character), with marks for held-out success."""
    curves = [(_points(state, "success_train"), _points(state, "success_valid")) for state in states]
    places = [x for pair in curves for points in pair for x, _ in points]
    low, high = min(places), max(places)
    columns = max(10, width - 7)

    def at(x: float, units: int) -> int:
        return round((x - low) / (high - low or 1) * (units - 1))

    dots = [[0] * columns for _ in range(HEIGHT)]
    styles = [[""] * columns for _ in range(HEIGHT)]
    marks: dict[tuple[int, int], str] = {}
    for place, (train, valid) in enumerate(curves):
        style = COLOURS[place % 8]
        levels = _filled([(at(x, 2 * columns), y) for x, y in zip([x for x, _ in train], _smooth(train), strict=True)])
        for x, y in levels:
            down = round((1 - y) * (4 * HEIGHT - 1))
            dots[down // 4][x // 2] |= (0x01, 0x02, 0x04, 0x40)[down % 4] << (x % 2 * (3 if down % 4 < 3 else 1))
            styles[down // 4][x // 2] = style
        for x, y in valid:
            marks[round((1 - min(1.0, max(0.0, y))) * (HEIGHT - 1)), at(x, columns)] = style
    chart = Text()
    for row in range(HEIGHT):
        name = {0: "100 %", HEIGHT - 1: "0 %"}.get(row, "")
        chart.append(f"{name:>5} ", style="dim")
        for column in range(columns):
            if (row, column) in marks:
                chart.append("◆", style=marks[row, column])
            else:
                chart.append(chr(0x2800 + dots[row][column]) if dots[row][column] else " ", style=styles[row][column])
        chart.append("\n")
    ends = f"{low:g}", f"{high:g}"
    return chart.append(f"{'':6}{ends[0]}{'step':^{max(4, columns - len(ends[0]) - len(ends[1]))}}{ends[1]}", style="dim")


def _smooth(points: Sequence[tuple[float, float]]) -> list[float]:
    return running_mean([min(1.0, max(0.0, y)) for _, y in points], SMOOTH)


def _filled(points: Sequence[tuple[int, float]]) -> Iterable[tuple[int, float]]:
    """Yield (column, value) for every column from the first point to the last, linearly interpolated."""
    for (a, low), (b, high) in pairwise(points):
        for x in range(a, b):
            yield x, low + (high - low) * (x - a) / (b - a)
    if points:
        yield points[-1]


def _sparks(state: dict[str, Any], width: int, most: int) -> list[RenderableType]:
    """Return a line for each curve other than success: its name, a sparkline and the last value; at most `most` lines."""
    newest: dict[str, Any] = state["rows"][-1] if state["rows"] else {}
    curriculum = [(name.removeprefix("curriculum/"), name) for name in newest if name.startswith("curriculum/")]
    curves = [(name, values) for name, key in (*CURVES, *curriculum, *MORE) if len(values := _values(state, key)) > 1][:most]
    widest = min(NAMED, max((len(printable(name)) for name, _ in curves), default=0))
    lines: list[RenderableType] = []
    for name, values in curves:
        columns = max(10, min(len(values), width - widest - 14))
        drawn = [values[i * (len(values) - 1) // (columns - 1)] for i in range(columns)] if len(values) > columns else values
        low, high = min(drawn), max(drawn)
        bars = "".join("▁▂▃▄▅▆▇█"[round(7 * (value - low) / (high - low or 1))] for value in drawn)
        lines.append(Text.assemble((f"{printable(name)[:widest]:<{widest}} ", "dim"), (bars, "blue"), f" {values[-1]:.4g}"))
    return lines


def _values(state: dict[str, Any], key: str) -> list[float]:
    return [y for _, y in _points(state, key)]


def _groups(states: Sequence[dict[str, Any]], width: int) -> list[RenderableType]:
    lines: list[RenderableType] = []
    listed = [state["episodes"]["groups"][: max(2, LISTED // len(states))] for state in states]
    widest = max((len(_when(group)) for groups in listed for group in groups), default=0)
    for place, groups in enumerate(listed):
        if groups and not lines:
            lines.append(Text("\nnewest groups: ● succeeded  ○ failed  ■ infrastructure error", style="dim"))
        for group in groups:
            line = Text(no_wrap=True, overflow="ellipsis")
            if len(states) > 1:
                line.append("▌", style=COLOURS[place % 8])
            line.append(f"{_when(group):<{widest}} ", style="dim")
            for outcome in group["outcomes"][:16]:
                line.append(*MARKS[outcome])
            line.append(f" {group['outcomes'].count('succeeded')} of {len(group['outcomes'])}  ")
            line.append(printable(" ".join(group["task"].split())))
            line.truncate(width)
            lines.append(line)
    return lines


def _when(group: dict[str, Any]) -> str:
    """Return the training step or evaluation that a group belongs to, as a short label."""
    part = {"train": "step", "hinted": "hint", "branched": "branch", "eval": "eval"}.get(group["part"], "")
    return printable(f"{part} {group['step']:.16}") if part else ""


def _newest(runs: Sequence[FollowedRun], states: Sequence[dict[str, Any]], width: int, rows: int) -> list[RenderableType]:
    """Return a table of a group of the first run with episodes: its attempts side by side, turn by turn.

    The group is the newest one with several attempts, or else the newest one.
    """
    for run, state in zip(runs, states, strict=True):
        groups = state["episodes"]["groups"]
        several = [group for group in groups if len(group["outcomes"]) > 1]
        if not groups:
            continue
        try:
            episodes = run.group((several or groups)[0]["group"])["episodes"]
        except BadData as error:
            return [Text(printable(str(error)), style="yellow")]
        return _beside(episodes[: max(1, (width - 4) // (WIDEST + 2))], rows)
    return []


def _beside(episodes: Sequence[dict[str, Any]], rows: int) -> list[RenderableType]:
    if not episodes:
        return []
    size = max([abs(turn["advantage"] or 0.0) for episode in episodes for turn in episode["turns"]], default=0.0)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("turn", justify="right", style="dim")
    for episode in episodes:
        mark, style = MARKS[episode["outcome"]]
        table.add_column(
            Text.assemble((mark, style), f" attempt {episode['attempt']}, {episode['reward']:.2f}"), max_width=WIDEST
        )
    longest = max(len(episode["turns"]) for episode in episodes)
    for number in range(min(rows, longest)):
        cells = [
            _action(episode["turns"][number], size) if number < len(episode["turns"]) else Text("") for episode in episodes
        ]
        table.add_row(str(number + 1), *cells)
    title = f"\n{' '.join(episodes[0]['instruction'].split()) or episodes[0]['task']}"
    parts: list[RenderableType] = [Text(printable(title), no_wrap=True, overflow="ellipsis"), table]
    if longest > rows:
        parts.append(Text(f"     … {longest - rows} more turns", style="dim"))
    return [*parts, *_tokens(episodes)]


def _action(turn: dict[str, Any], size: float) -> Text:
    text = " ".join(str(turn["action"]).split())
    style = _heat(turn["advantage"], size) + ("" if turn["valid"] else " strike")
    return Text(printable(text[: WIDEST - 1] + "…" if len(text) > WIDEST else text), style=style.strip(), no_wrap=True)


def _tokens(episodes: Sequence[dict[str, Any]]) -> list[RenderableType]:
    """Return the first 120 tokens of the turn with the largest absolute advantage, each coloured by its own advantage."""
    turns = [(abs(t["advantage"] or 0.0), e, n) for e in episodes for n, t in enumerate(e["turns"]) if t["pieces"]]
    if not turns:
        return []
    _, episode, number = max(turns, key=lambda entry: entry[0])
    pieces = cast("list[list[Any]]", episode["turns"][number]["pieces"])[:120]
    size = max([abs(piece[2] or 0.0) for piece in pieces], default=0.0)
    line = Text.assemble((f"\ntokens of attempt {episode['attempt']}, turn {number + 1}, by advantage: ", "dim"))
    for text, _, advantage, _ in pieces:
        line.append(printable(str(text)).replace("\n", "↵").replace("\t", "→"), style=_heat(advantage, size))
    return [line]


def _heat(value: object, size: float) -> str:
    if not isinstance(value, (int, float)) or not math.isfinite(value) or abs(value) <= 1e-6 * size or not size:
        return ""
    strong = abs(value) > size / 2
    return ("bold " if strong else "") + ("green" if value > 0 else "red")


def _errors(states: Sequence[dict[str, Any]], width: int) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for state in states:
        for error in state["episodes"]["errors"][:2]:
            text = (
                f"{error['reason']}, {error['part']} {error['step']}: {' '.join((error['error'] or error['task']).split())}"
            )
            line = Text(printable(text), style="yellow", no_wrap=True, overflow="ellipsis")
            line.truncate(width)
            lines.append(line)
    return [Text("\ninfrastructure errors, the newest", style="dim"), *lines] if lines else []


def _points(state: dict[str, Any], key: str) -> list[tuple[float, float]]:
    rows = [(row["x"], row.get(key)) for row in state["rows"] if row.get("phase") != "sft"]
    return [(x, y) for x, y in rows if isinstance(y, (int, float)) and math.isfinite(y)]


def _last(state: dict[str, Any], key: str) -> float | None:
    values = [row[key] for row in state["rows"][::-1] if isinstance(row.get(key), (int, float)) and math.isfinite(row[key])]
    return values[0] if values else None


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
