"""What benchmarks over paired seeds share: runs that resume, a file with one row per run, and Student's interval."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentgym.trainers.config.train_config import TrainConfig

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


def newest(folder: str | Path) -> Path:
    """Return the newest checkpoint of a run."""
    return sorted((Path(folder) / "checkpoints").glob("step-*"))[-1]


def trained(config: TrainConfig, show: Callable[[str, Any], None] | None = None) -> Path:
    """Run a configuration, from its checkpoint if there is one, and return its newest checkpoint."""
    from agentgym.trainers import resume, train

    folder = Path(config.out)
    if not (folder / "summary.json").exists():
        if any((folder / "checkpoints").glob("step-*")):
            resume(folder, show)
        else:
            shutil.rmtree(folder, ignore_errors=True)
            train(config, show)
    return newest(folder)


def agent_of(config: TrainConfig, policy: Path) -> Any:
    """Return the agent of a checkpoint at temperature 1."""
    from agentgym.engines import Sampling
    from agentgym.engines.hf.engine import HFEngine

    engine = HFEngine(str(policy), slots=64)
    return config.spec.make(engine, Sampling(temperature=1.0), engine.tokenizer)
