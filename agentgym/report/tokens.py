"""Sampled tokens of an episode: text, log-probability, advantage, and mismatch between engine and trainer."""

import importlib
import importlib.util
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from agentgym.engines.kinds import ENGINES
from agentgym.episodes.episode import Turn
from agentgym.report.run_folder import RunFolder

Decode = Callable[[Sequence[int]], list[str]]
MOST = 2_000
"""Maximum number of a turn's tokens on the page, which states when a longer reply is cut."""


def decoder(run: RunFolder) -> Decode | None:
    """Return a function that decodes token ids to one text each; None if the run's tokenizer is not available."""
    path = next((folder / "tokenizer.json" for folder in _folders(run) if (folder / "tokenizer.json").is_file()), None)
    if path is None or importlib.util.find_spec("tokenizers") is None:
        return None
    try:
        tokenizer = importlib.import_module("tokenizers").Tokenizer.from_file(str(path))
    except Exception:  # the library raises bare exceptions for a damaged file; the page then has no tokens
        return None
    return lambda ids: [tokenizer.decode([token], skip_special_tokens=False) for token in ids]


def _folders(run: RunFolder) -> list[Path]:
    """Return folders that may contain the tokenizer: the run's checkpoints, its initial model, or the evaluated model."""
    if run.folder is None:
        return []
    options = (run.manifest or {}).get("options")
    evaluated = cast("dict[str, object]", options).get("model", "") if isinstance(options, dict) else ""
    kind, _, model = str(evaluated).partition(":")
    named = [Path(model)] if kind in ENGINES and ENGINES[kind].in_process else []
    try:  # a run in its first steps has no checkpoint yet
        first = tomllib.loads(run.config or "").get("model")
    except (tomllib.TOMLDecodeError, RecursionError):
        first = None
    named += [Path(first)] if isinstance(first, str) else []
    return [*sorted(run.folder.glob("checkpoints/step-*"), reverse=True), run.folder / "init", *named]


def tokens(turn: Turn, decode: Decode) -> list[list[object]]:
    """Return `[text, logprob, advantage, mismatch]` for each sampled token; unknown numbers are None.

    `mismatch` is the trainer's log-probability minus the engine's.
    """
    ids = turn.output_ids[:MOST]
    columns = [
        _column(turn.logprobs, len(ids)),
        _column(turn.extra.get("advantage"), len(ids)),
        _difference(turn.extra.get("logprobs"), turn.logprobs, len(ids)),
    ]
    return [list(row) for row in zip(decode(ids), *columns, strict=True)]


def _column(value: object, length: int) -> list[float | None]:
    """Return `length` numbers from an array or a single number; all None if it is missing or too short."""
    if value is None:
        return [None] * length
    values = np.asarray(value, dtype=np.float64)
    if values.ndim == 0:
        return [round(float(values), 6)] * length
    return [round(float(v), 6) for v in values[:length]] if len(values) >= length else [None] * length


def _difference(ours: object, engine: Sequence[float], length: int) -> list[float | None]:
    a, b = _column(ours, length), _column(engine, length)
    return [None if x is None or y is None else round(x - y, 6) for x, y in zip(a, b, strict=True)]
