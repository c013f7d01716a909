"""Lines of a plan about the disk space of container images."""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.registry import make

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig


def image_lines(env: TextEnv, tasks: Sequence[Task]) -> list[str]:
    """Return a line about the disk space of the container images that tasks need; [] if they need none."""
    from agentgym.sandbox.env import SandboxEnv  # late: only plans need it

    inner = env.unwrapped
    if not isinstance(inner, SandboxEnv) or not (images := inner.images(tasks)):
        return []
    from agentgym.sandbox.docker.disk import disk_of_images  # late: it loads the library of containers

    return [disk_of_images(images, inner.backend_options)]


def training_images(config: "TrainConfig") -> list[str]:
    """Return a line for each of a run's environments whose tasks need container images.

    All tasks of a finite split count, since any may be drawn. Generated tasks share one image, so one of them counts.
    """
    from agentgym.trainers.samplers.interface import TaskSource  # late: it loads the trainer

    lines: list[str] = []
    for spec in config.mix:
        with closing(make(spec.id, **spec.options)) as env:
            source = TaskSource(env, config.seed, spec.train_split or "train")
            tasks = source.tasks if source.finite else None
            lines += [f"{spec.name}: {line}" for line in image_lines(env, env.up_to(1) if tasks is None else tasks)]
    return lines
