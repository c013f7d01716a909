"""What benchmarks over paired seeds share: a file with one row per run, which survives kills, and Student's interval."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""97.5 % quantile of Student's t, by number of seeds."""


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines; a last line cut off by a kill is left out."""
    rows: list[dict[str, Any]] = []
    for line in path.read_text().split("\n") if path.exists() else []:
        try:
            rows += [json.loads(line)] if line else []
        except ValueError:
            continue
    return rows


def append(path: Path, row: dict[str, Any]) -> None:
    """Write a row at the end of a file, on a line of its own whatever a kill left there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a") as file:
        file.write(("\n" if cut else "") + json.dumps(row) + "\n")


def half_width(values: npt.ArrayLike) -> float:
    """Return half of the 95 % interval of a mean over seeds; NaN unless there are two to five values."""
    array = np.asarray(values, float)
    return float(STUDENT[len(array)] * array.std(ddof=1) / len(array) ** 0.5) if len(array) in STUDENT else float("nan")
