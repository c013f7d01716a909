"""`agentgym export --as harbor`: tasks of an environment, or of a run's episodes, as Harbor task folders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.errors import BadConfig
from agentgym.trainers.data.stored import Filter, read_files


@dataclass(frozen=True)
class Tasks:
    """Command-line options of the tasks."""

    files: Sequence[str]
    """Environment, or files and folders of episodes."""
    which: Filter
    number: int
    difficulty: int | None
    seed: int
    base: str
    skip_guessed: bool
    options: Mapping[str, object] = field(default_factory=dict[str, object])


def write_folders(tasks: Tasks, out: Path) -> int:
    """Write the folders, and print how to run them.

    Raises:
        BadConfig: there are several environments, --tasks is missing, or --skip-guessed is used with a run.
    """
    from agentgym.integrations.harbor_tasks.folder import BASE, ExportSpec, write

    options: dict[str, object] = dict(tasks.options)
    if tasks.which.split:
        options["split"] = tasks.which.split
    if tasks.difficulty is not None:
        options["difficulty"] = tasks.difficulty
    name, observations = _of_runs(tasks) if any(Path(file).exists() for file in tasks.files) else (tasks.files[0], None)
    if observations is None and len(tasks.files) > 1:
        raise BadConfig(f"{len(tasks.files)} environments are given; expected one, or files of episodes")
    if observations is None and tasks.number < 1:
        raise BadConfig(f"--tasks is {tasks.number}; expected how many tasks to write, at least 1")
    if tasks.skip_guessed and observations is not None:
        raise BadConfig("--skip-guessed chooses from an environment's tasks; expected an environment, not a run")
    request = ExportSpec(name, options, tasks.seed, tasks.base or BASE, tasks.skip_guessed)
    folders = write(request, tasks.number if observations is None else observations, out)
    print(f"{out}: {len(folders)} task folders; harbor run -p {out} -a oracle")
    return 0


def _of_runs(tasks: Tasks) -> tuple[str, dict[str, str]]:
    """Return the environment of a run's episodes, and the first observation of each task, by task id.

    Raises:
        BadConfig: the episodes are of several environments.
    """
    episodes = [episode for file in read_files(tasks.files, tasks.which) for episode in file]
    envs = sorted({episode.env for episode in episodes})
    if len(envs) > 1:
        raise BadConfig(f"the episodes are of {', '.join(envs)}; choose one with --env NAME")
    observations = {episode.task_id: episode.turns[0].observation for episode in episodes}
    return envs[0], dict(list(observations.items())[: tasks.number or len(observations)])
