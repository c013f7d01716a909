"""Built-in loggers: TensorBoard, Weights & Biases, Trackio and MLflow, each through its own package."""

# these packages are typed in parts, or not at all
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false

import importlib
import io
import os
import time
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal

from agentgym.trainers.loggers.interface import logger, numbers, store_run_id, stored_run_id

SECOND = "%Y%m%d_%H%M%S"
"""Time format in the names of wandb's session folders."""


@logger("tensorboard", package="tensorboardX")
class TensorBoard:
    """Writes event files in the folder `tensorboard` of the run; `tensorboard --logdir RUN` shows them."""

    def __init__(self, folder: Path, config: Mapping[str, object]) -> None:
        del config
        target = folder / "tensorboard"
        session = f".{len(list(target.glob('events.*')))}"  # else a session in the same second would overwrite the last
        self._writer: Any = importlib.import_module("tensorboardX").SummaryWriter(str(target), filename_suffix=session)

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Write each number as a scalar."""
        for name, value in numbers(row).items():
            self._writer.add_scalar(name, value, position)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


@logger("wandb", package="wandb")
class WandB:
    """Logs to a run of Weights & Biases, with files in the run's folder `wandb`; WANDB_MODE=offline uploads nothing."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, object],
        *,
        project: str = "agentgym",
        entity: str = "",
        group: str = "",
        name: str = "",
        mode: Literal["", "online", "offline"] = "",
    ) -> None:
        wandb = importlib.import_module("wandb")
        before = stored_run_id(folder, "wandb")
        while list(
            (folder / "wandb").glob(f"*-{time.strftime(SECOND)}-*")
        ):  # else a session in that second would overwrite the last
            time.sleep(0.02)
        self._run: Any = wandb.init(
            project=project,
            entity=entity or None,
            group=group or None,
            name=name or folder.resolve().name,
            mode=mode or None,
            dir=str(folder),
            config=dict(config),
            id=before,
            resume="allow" if before else None,
            settings=wandb.Settings(silent=True, console="off", save_code=False, disable_git=True),
        )
        if before is None:
            store_run_id(folder, "wandb", str(self._run.id))

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Log the numbers of a row at step `position`."""
        self._run.log(numbers(row), step=position)

    def close(self) -> None:
        """Send buffered data and end the run."""
        self._run.finish()


@logger("trackio", package="trackio")
class Trackio:
    """Logs to a run of Trackio, in its database on this machine (TRACKIO_DIR) or in the Space `space_id`."""

    def __init__(
        self, folder: Path, config: Mapping[str, object], *, project: str = "agentgym", name: str = "", space_id: str = ""
    ) -> None:
        trackio = importlib.import_module("trackio")
        before = stored_run_id(folder, "trackio")
        place: dict[str, Any] = {"space_id": space_id} if space_id else {}
        run_name = before or name or folder.resolve().name
        place |= {"resume": "allow" if before else "never", "embed": False}
        with redirect_stdout(io.StringIO()):  # it prints a greeting amid the run's own lines
            self._run: Any = trackio.init(project=project, name=run_name, config=_plain(config), **place)
        if before is None:
            store_run_id(folder, "trackio", str(self._run.name))

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Log the numbers of a row at step `position`."""
        self._run.log(numbers(row), step=position)

    def close(self) -> None:
        """Write buffered data."""
        with redirect_stdout(io.StringIO()):
            self._run.finish()


@logger("mlflow", package="mlflow")
class MLflow:
    """Logs to a run of MLflow at the tracking server `uri`, else at MLFLOW_TRACKING_URI, else in `mlflow.db` of the run."""

    def __init__(
        self, folder: Path, config: Mapping[str, object], *, uri: str = "", experiment: str = "agentgym", name: str = ""
    ) -> None:
        self._mlflow = importlib.import_module("mlflow")
        where = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{(folder / 'mlflow.db').resolve()}"
        self._client: Any = self._mlflow.MlflowClient(tracking_uri=where)
        before = stored_run_id(folder, "mlflow")
        if before is None:
            known = self._client.get_experiment_by_name(experiment)
            inside = known.experiment_id if known else self._client.create_experiment(experiment)
            before = str(self._client.create_run(inside, run_name=name or folder.resolve().name).info.run_id)
            for key, value in config.items():
                self._client.log_param(before, key, str(value)[:500])
            store_run_id(folder, "mlflow", before)
        self._id = before

    def log(self, position: int, row: Mapping[str, object]) -> None:
        """Log the numbers of a row at step `position`."""
        metric = self._mlflow.entities.Metric
        now = self._mlflow.utils.time.get_current_time_millis()
        self._client.log_batch(self._id, [metric(name, value, now, position) for name, value in numbers(row).items()])

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._id)


def _plain(config: Mapping[str, object]) -> dict[str, object]:
    """Return a configuration with nested values as text."""
    return {name: value if isinstance(value, str | int | float) else str(value) for name, value in config.items()}
