"""Read rows of published SWE data sets from a JSON Lines file."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import cast

from agentgym.envs.swe.bench.gym_format import SWEGymFormat
from agentgym.envs.swe.bench.multi_format import MultiSWEFormat
from agentgym.envs.swe.bench.pro_format import SWEBenchProFormat
from agentgym.envs.swe.bench.r2e_format import R2EGymFormat
from agentgym.envs.swe.bench.rebench_format import RebenchV2Format
from agentgym.envs.swe.bench.row import Row, RowFormat
from agentgym.envs.swe.bench.swebench_format import OtherLanguage, SWEBenchFormat, SWESmithFormat
from agentgym.envs.swe.library import Library, library
from agentgym.errors import BadData
from agentgym.tasks.columns import RefusedRow, whole_question
from agentgym.tasks.lines import objects
from agentgym.tasks.reading import PLAIN, Reading, playable

FORMATS: tuple[RowFormat, ...] = (
    MultiSWEFormat(),
    SWEBenchProFormat(),
    R2EGymFormat(),
    RebenchV2Format(),
    SWESmithFormat(),
    SWEGymFormat(),
    SWEBenchFormat(),
)
"""The data sets, in order; a row belongs to the first data set whose `owns` returns True."""
_WITH_PIP = {rules.name: rules.known | {"requirements"} for rules in FORMATS}
"""Known columns by data set, for rows whose `requirements` column is for pip rather than part of the issue."""


def read_rows(path: str | Path, reading: Reading = PLAIN, checkout: str | Path | None = None) -> Library[Row]:
    """Return the instances in a JSON Lines file; raise BadData if none is usable or, with `reading.strict`, one is bad.

    `checkout` is a clone of the data set's repository; only data sets with log parsers or scripts there need it.
    """
    folder = None if checkout is None else Path(checkout).expanduser()
    records = ((where, raw, reading.ignore, folder) for where, raw in objects(str(path)))
    return library(str(path), playable(str(path), records, _row, reading, "instance").values())


def is_bench(path: str | Path) -> bool:
    """Return True if a file's first nonempty line is an instance of one of the data sets."""
    with Path(path).open(encoding="utf-8-sig") as file:
        try:
            first = json.loads(next((line for line in file if line.strip()), "null"))
        except ValueError:
            return False
    return isinstance(first, dict) and _owner(tuple(cast("dict[str, object]", first))) is not None


@lru_cache(maxsize=64)  # rows of a file have the same columns
def _owner(columns: tuple[str, ...]) -> RowFormat | None:
    return next((rules for rules in FORMATS if rules.owns(columns)), None)


def _row(where: str, raw: Mapping[str, object], ignore: tuple[str, ...], checkout: Path | None) -> Row:
    rules = _owner(tuple(raw)) or FORMATS[-1]
    try:
        row = rules.read(raw if "problem_statement" in raw else {**raw, "problem_statement": ""}, checkout)
    except (ValueError, TypeError, KeyError) as error:
        problem = f"no key {error}" if isinstance(error, KeyError) else error
        raise (RefusedRow if isinstance(error, OtherLanguage) else BadData)(f"{where}: {problem}") from None
    known = _WITH_PIP[rules.name] if "install_config" in raw or "environment" in raw else rules.known
    stated = row.issue
    issue = whole_question(raw, stated, known, ignore, where, rules.stated)
    return row if issue == stated else replace(row, row={**row.row, "problem_statement": issue})
