"""Access to a task's container: its images, and its use by an external agent for one step."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.core.tasks import Task
from agentgym.sandbox.docker.images import bases
from agentgym.sandbox.env import ExternalAccess, SandboxEnv
from agentgym.sandbox.protocol import SandboxFault

LENT = "\0"
"""Placeholder for the commands of an external agent, which are unknown; no model's command equals it."""


class ContainerAccess(SandboxEnv):
    """Base class that names the images of tasks and gives an external agent access to the container."""

    _step: Any
    _present: Any
    commands: Any
    _library: Any
    _solution: Any

    def images(self, tasks: Sequence[Task]) -> list[str]:
        """Return the image of each task, or the base images of its Dockerfile; empty for backends other than docker."""
        if self.backend != "docker":
            return []
        places = [self._library[task.data["name"]].place for task in tasks]
        return [image for place in places for image in ([place.image] if place.image else bases(place.build))]

    def briefing(self) -> str:
        return self._step.instruction

    def solution_commands(self) -> Sequence[str]:
        step = self._step
        if step.solution is None:
            raise NotImplementedError(f"task {self._present.name} has no solution/solve.sh")
        script = step.solution / "solve.sh"
        if [*step.solution.rglob("*")] != [script] or script.is_symlink() or self._present.solution_env:
            return self._solution(step)
        try:
            return [re.sub(r"\A#!.*\n", "", script.read_text(encoding="utf-8")).strip()]
        except UnicodeDecodeError:
            return self._solution(step)

    def lend(self, work: Callable[[ExternalAccess], None]) -> None:
        step = self._step
        lent, self.commands = (
            ExternalAccess(self.sandbox, step.user, self._present.place.work, seconds=step.seconds),
            (LENT,),
        )
        work(lent)


def not_again(command: object) -> None:
    """Check that a command can be replayed.

    Raises:
        SandboxFault: the command is the placeholder for an external agent's work.
    """
    if command == LENT:
        raise SandboxFault("what an external agent did in a container that is gone cannot be done again")
