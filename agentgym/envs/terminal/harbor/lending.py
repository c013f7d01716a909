"""Lending a container to an external agent, which works in it for one step of a task."""

from collections.abc import Callable
from typing import Any

from agentgym.sandbox.env import ExternalAccess, SandboxEnv
from agentgym.sandbox.protocol import SandboxFault

LENT = "\0"
"""Stands for the commands of an external agent, which are unknown; no model's command equals it."""


class ContainerAccess(SandboxEnv):
    """The part of the environment that lends its container."""

    _step: Any
    _present: Any
    commands: Any

    def briefing(self) -> str:
        return self._step.instruction

    def lend(self, work: Callable[[ExternalAccess], None]) -> None:
        step = self._step
        lent, self.commands = (
            ExternalAccess(self.sandbox, step.user, self._present.place.work, seconds=step.seconds),
            (LENT,),
        )
        work(lent)


def not_again(command: object) -> None:
    """Refuse to replay an external agent's work.

    Raises:
        SandboxFault: the command stands for an external agent's work.
    """
    if command == LENT:
        raise SandboxFault("what an external agent did in a container that is gone cannot be done again")
