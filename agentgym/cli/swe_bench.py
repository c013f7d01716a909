"""Write predictions in SWE-bench's format from episodes, or score predictions.

agentgym swe predictions runs/eval-a --out preds.jsonl          one line for each task: instance_id, model_patch, …
agentgym swe predictions runs/eval-a/episodes.jsonl             the same from a file of episodes
agentgym swe score preds.jsonl                                  the tasks that come with agentgym
agentgym swe score preds.jsonl --data verified.jsonl            SWE-bench: containers, and swebench's own rules
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from agentgym.cli.flags import read_flags
from agentgym.core.folders import write_whole
from agentgym.core.screen import printable
from agentgym.episodes.episode import read_episodes
from agentgym.errors import BadConfig

if TYPE_CHECKING:
    from agentgym.sandbox.protocol import BackendOptions
from agentgym.options import Options, Positional


@dataclass(frozen=True)
class PredictionsConfig:
    """Options of `agentgym swe predictions`."""

    run: Positional[str]
    """Folder of an evaluation, or a file of episodes."""
    out: str = "predictions.jsonl"
    """File to write."""
    name: str | None = None
    """`model_name_or_path` of the predictions; default: the name of the folder or file."""
    attempt: int = 0
    """Attempt at each task to export, counted from 0."""


@dataclass(frozen=True)
class ScoreConfig:
    """Options of `agentgym swe score`."""

    predictions: Positional[str]
    """File of predictions: JSON lines, or JSON."""
    data: str | None = None
    """File of tasks: SWE-bench's, or one written by `agentgym swe make`; by default the tasks that come with agentgym."""
    checkout: str | None = None
    """Clone of the data set's own repository, whose code parses the tests' output (SWE-Gym, SWE-rebench-V2, Pro)."""
    out: str | None = None
    """File for the report, in swebench's format; by default next to the predictions."""
    backend: str | None = None
    """Sandbox to run tests in; SWE-bench's instances need docker."""
    backend_options: Options = field(default_factory=dict[str, object])
    """Options of the sandbox: --backend.KEY VALUE."""


AnyConfig: TypeAlias = PredictionsConfig | ScoreConfig
ACTIONS: dict[str, type[PredictionsConfig] | type[ScoreConfig]] = {"predictions": PredictionsConfig, "score": ScoreConfig}


def read(action: str, arguments: Sequence[str]) -> AnyConfig:
    """Return the flags of an action."""
    config: type[Any] = ACTIONS[action]
    return read_flags(config, arguments, command=f"swe {action}", description=__doc__)


def run(config: AnyConfig) -> int:
    """Run the action and return the exit code."""
    return write_predictions(config) if isinstance(config, PredictionsConfig) else score_predictions(config)


def write_predictions(config: PredictionsConfig) -> int:
    """Write the file and print the number of predictions.

    Raises:
        BadConfig: there is no episode of that attempt without an infrastructure error.
    """
    from agentgym.envs.swe.predictions import predictions

    source = Path(config.run)
    file = source / "episodes.jsonl" if source.is_dir() else source
    rows = predictions(read_episodes(file), config.name or source.stem, config.attempt)
    if not rows:
        raise BadConfig(f"{file}: no episode of attempt {config.attempt} that ended without an infrastructure error")
    write_whole(Path(config.out), "".join(json.dumps(row) + "\n" for row in rows))
    empty = sum(not row["model_patch"].strip() for row in rows)
    print(f"{config.out}: {len(rows)} predictions, {empty} of them empty")
    return 0


def score_predictions(config: ScoreConfig) -> int:
    """Score the predictions, print a line for each and the total, and write the report."""
    from agentgym.envs.swe.predictions import read_predictions
    from agentgym.envs.swe.scoring import score
    from agentgym.envs.swe.verdict import Verdict

    patches = read_predictions(config.predictions)

    def progress(id: str, verdict: Verdict) -> None:
        print(printable(f"{'resolved' if verdict.resolved else 'not resolved':<13}{id}  {verdict.message}"), flush=True)

    options = cast("BackendOptions | None", config.backend_options or None)  # checked when a sandbox is made
    report = score(config.data, patches, progress, checkout=config.checkout, backend=config.backend, backend_options=options)
    out = Path(config.out) if config.out else Path(config.predictions).with_suffix(".report.json")
    write_whole(out, json.dumps(report, indent=2) + "\n")
    resolved, submitted = report["resolved_instances"], report["submitted_instances"]
    print(f"{resolved} of {submitted} predictions resolve their task; {report['total_instances']} tasks in all. {out}")
    return 0
