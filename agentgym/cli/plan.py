"""Output of `agentgym train … --plan`: bytes by part, seconds by phase, and whether the run fits."""

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.cli.image_disk import training_images
from agentgym.core.screen import printable
from agentgym.planner.duration import Rates, Seconds
from agentgym.planner.fitting import gib
from agentgym.planner.forecast import Forecast, forecast
from agentgym.planner.plan import PHASES, MemoryPlan, Workload, has_tokenizer, recomputed_token
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.memory import named
from agentgym.trainers.run.stages import FreshRun

WIDE = 110
"""Minimum width of the terminal, in columns, for the column of notes."""
TIMES = ("rollout", "env", "train", "sync", "evaluation")


def show(run: FreshRun, console: Console, *, on: str = "", as_json: bool = False) -> int:
    """Print the plan of a run and return the exit code: 0 if the run fits into memory, else 1.

    `on` names GPUs of another machine; then nothing is timed.
    """
    config = run.config
    estimate = forecast(config, named(on) if on else None, timed=not on)
    workload, plan = estimate.workload, estimate.plan
    if as_json:
        print(json.dumps(_numbers(estimate), indent=2))
        return 0 if plan.fits else 1
    _print(console, f"{config.model} on {config.where}, {_layout(config, plan)}")
    console.print()
    console.print(bytes_table(plan, notes=console.width >= WIDE))
    if plan.host:
        _print(console, f"main memory while loading: at most {gib(plan.host)} for each process")
    console.print()
    _print(console, _activations(config, estimate))
    if estimate.rates is None or estimate.seconds is None:
        for line in _untimed(config, workload, plan):
            _print(console, line)
    else:
        console.print(seconds_table(config, estimate.seconds))
        _print(console, _source(config, workload, estimate.rates))
    for line in (*left_out(run), *training_images(config)):
        _print(console, line)
    console.print()
    console.print(Text(_verdict(estimate), style="bold green" if plan.fits else "bold red"))
    return 0 if plan.fits else 1


def left_out(run: FreshRun) -> list[str]:
    """Return notes on parts that the plan leaves out."""
    critic = any(stage.attributes["asks"] == "critic" for stage in run.stages.needs)
    lines = ["The critic is not counted: a head of one row, its optimizer, a number per token."] if critic else []
    if run.config.share_prefixes:
        lines.append(
            "share_prefixes is not counted: updates are planned with every row's whole prefix, which is an upper bound, "
            "except for a mask of batch_tokens by batch_tokens if attention is sdpa."
        )
    return lines


def bytes_table(plan: MemoryPlan, *, notes: bool = True) -> Table:
    """Return a table of the bytes of one process by part and phase, with totals."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=f"{_where(plan)}, one process", title_justify="left")
    table.add_column("")
    for phase in PHASES:
        table.add_column(phase, justify="right", no_wrap=True)
    if notes:
        table.add_column("", style="dim")
    for part in plan.parts:
        note = [Text(printable(part.note))] if notes else []
        table.add_row(part.name, *(gib(size) if size else "" for size in part.bytes), *note)
    worst = max(plan.phases)
    cells = [Text(gib(size), style="bold" if size == worst else "") for size in plan.phases]
    table.add_section()
    table.add_row(Text("together", style="bold"), *cells, *([Text("the run needs the largest")] if notes else []))
    return table


def _activations(config: TrainConfig, estimate: Forecast) -> str:
    """Return a sentence on the activation memory per token, and on options that reduce it."""
    recomputed = recomputed_token(config, estimate.workload, estimate.plan.memory)
    fewer = [f"--gradient-checkpointing keeps {kib(recomputed)}"] if 0 < recomputed < estimate.plan.token else []
    if not config.share_prefixes:
        fewer.append("--share-prefixes keeps what rows have in common once")
    if estimate.plan.batch.rows > 1:
        fewer.append("a smaller --batch-tokens has fewer rows at a time")
    return "; ".join((f"A token of a micro-batch keeps {kib(estimate.plan.token)} for the backward pass", *fewer)) + "."


def kib(size: int) -> str:
    """Return a number of bytes in KiB."""
    return f"{size / 1024:,.1f} KiB"


def seconds_table(config: TrainConfig, columns: tuple[Seconds, Seconds]) -> Table:
    """Return a table of the seconds of a step and of the run, for episodes as long as the expert's and for the longest."""
    table = Table(box=None, pad_edge=False, header_style="bold", title="seconds of one step", title_justify="left")
    table.add_column("")
    table.add_column("as the expert plays", justify="right")
    table.add_column("at most", justify="right")
    for name in TIMES:
        table.add_row(name, *(_cell(config, name, getattr(column, name)) for column in columns))
    table.add_section()
    table.add_row(Text("together", style="bold"), *(Text(_seconds(c.update), style="bold") for c in columns))
    table.add_row(f"the run, {config.steps} steps", *(in_words(column.whole) for column in columns))
    return table


def _cell(config: TrainConfig, name: str, value: float) -> str:
    return "not measured" if not config.engine_kind.in_process and name in ("rollout", "sync") else _seconds(value)


def _untimed(config: TrainConfig, workload: Workload, plan: MemoryPlan) -> list[str]:
    """Return lines that explain why nothing was timed, and state the amount of work in a step."""
    why = (
        f"Time was not measured: {plan.memory.name} is not in this machine."
        if plan.memory.elsewhere
        else "Time was not measured: a model of this size is not timed on a CPU, or two layers of it do not fit here."
    )
    play, episodes = workload.play, config.tasks_per_step * config.group_size
    if not play.episodes:
        return [why, f"No episode could be played beforehand: rows are taken as long as the context, {plan.row:,} tokens."]
    most = f"{episodes * play.horizon * config.turn_tokens:,} tokens"
    counted = "" if has_tokenizer(config) else ", in tokens of a stand-in for the model's tokenizer"
    return [
        why,
        f"A step has {episodes:,} episodes of at most {play.horizon} turns of {config.turn_tokens} tokens: at most {most} "
        f"to sample, in rows of at most {plan.row:,}. These lengths come from {play.episodes} played episodes{counted}.",
    ]


def _source(config: TrainConfig, workload: Workload, rates: Rates) -> str:
    depth, play = int(workload.architecture.num_hidden_layers), workload.play
    model = (
        f"the whole model of {depth} layers"
        if rates.layers == depth
        else f"models of 1 and 2 layers, extrapolated linearly to {depth}"
    )
    env = (
        f"{play.episodes} episodes played by the expert and by chance"
        if play.episodes
        else "no episode: without a tokenizer in the folder, rows as long as the context and steps that take no time"
    )
    others = "" if config.engine_kind.in_process else f" {config.engine}'s own speed is left out."
    several = "" if config.processes == 1 else " Time spent waiting for other processes or for memory is not included."
    return (
        f"Measured: random weights, {model}; {env}. Extrapolated: everything else. As the expert plays: {play.turns:.1f} "
        f"turns, replies of {play.reply:.1f} tokens. At most: rows of {play.longest:,} tokens if the context has "
        f"room, replies of {config.turn_tokens}.{several}{others}"
    )


def _verdict(estimate: Forecast) -> str:
    plan = estimate.plan
    several = f" in {plan.sharing} processes" if plan.sharing > 1 else ""
    what = f"{gib(plan.need)}{several} of {gib(plan.memory.free)} free"
    return f"It fits: {what}." if plan.fits else f"It does not fit: {what}. {estimate.advice}"


def _layout(config: TrainConfig, plan: MemoryPlan) -> str:
    rows = f"micro-batches of {plan.batch.rows} x {plan.batch.tokens:,} tokens"
    return f"{plan.parameters / 1e6:,.1f} M parameters, engine {config.engine}, {rows}"


def _where(plan: MemoryPlan) -> str:
    return f"bytes on {printable(plan.memory.name)}"


def _numbers(estimate: Forecast) -> dict[str, object]:
    plan, change = estimate.plan, estimate.change
    numbers: dict[str, object] = {
        "fits": plan.fits,
        "need": plan.need,
        "free": plan.memory.free,
        "device": plan.memory.device,
        "processes": plan.sharing,
        "parameters": plan.parameters,
        "row": plan.row,
        "activations_per_token": plan.token,
        "bytes": {part.name: dict(zip(PHASES, part.bytes, strict=True)) for part in plan.parts},
        "change": None if change is None else {"flags": change.flags, "fits": change.fits, "need": change.plan.need},
    }
    for name, seconds in zip(("likely", "most"), estimate.seconds or (), strict=False):
        numbers[f"seconds_{name}"] = {phase: getattr(seconds, phase) for phase in (*TIMES, "update", "whole")}
    return numbers


def _seconds(value: float) -> str:
    if value >= 120:
        return in_words(value)
    return f"{value:,.1f}" if value >= 0.1 else f"{value:.3f}"


def in_words(seconds: float) -> str:
    """Return a duration in words: two digits and a suitable unit."""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 2 * size:
            value = seconds / size
            return f"{value:,.0f} {unit}s" if value >= 9.95 else f"{value:.1f} {unit}s"
    return f"{seconds:.0f} seconds" if seconds >= 1.5 else "a second"


def _print(console: Console, line: str) -> None:
    console.print(printable(line), markup=False)
