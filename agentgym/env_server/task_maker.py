"""Tasks that clients name, generated in a worker process so that a hard one does not block the sessions."""

from collections.abc import Callable

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, BadData, Fault, UnknownName
from agentgym.rollout.workers import RemoteEnv, Workers
from agentgym.serving.asgi import Refusal

_LONGEST = 500  # maximum characters of a task's id


class TaskMaker:
    """Finds the tasks that clients name: tasks from files in this process, generated tasks in a worker process.

    Clients get tasks up to the difficulty that the server was started with. Generating a task may take `seconds`.
    """

    def __init__(self, make: Callable[[], TextEnv], probe: TextEnv, seconds: float) -> None:
        self._make, self._probe, self._seconds = make, probe, seconds
        self._workers: Workers | None = None
        self._free: list[RemoteEnv] = []

    async def made(self, named: object, seed: int) -> dict[str, Task]:
        """Return the reset option `task` for a task id, a number or None (any task).

        The result is empty for None if tasks come from a file, because reset then draws one.

        Raises:
            Refusal: there is no such task, or generating it takes too long.
        """
        if isinstance(named, str) and len(named) > _LONGEST:
            raise Refusal(*_invalid(f"the task's id has {len(named)} characters; expected at most {_LONGEST}"))
        try:
            if self._probe.size() is None:
                self._check_difficulty(named)
                return {"task": await self._in_worker(named, seed)}
            return {} if named is None else {"task": self._probe.named_task(named, self._probe.np_random)}
        except (BadConfig, BadData, UnknownName, ValueError, OverflowError) as error:
            raise Refusal(*_invalid(str(error))) from None

    def _check_difficulty(self, named: object) -> None:
        parts = named.rsplit("/", 2) if isinstance(named, str) else []
        if len(parts) == 3 and parts[1].isdecimal() and int(parts[1]) > self._probe.difficulty:
            why = (
                f"task {named!r:.80} has a difficulty above {self._probe.difficulty}, the one that is served: name an "
                "easier one, or start the server with --env.difficulty"
            )
            raise Refusal(*_invalid(why))

    async def _in_worker(self, named: object, seed: int) -> Task:
        self._workers = self._workers or Workers([self._make], 1)
        env = self._free.pop() if self._free else self._workers.hosted()
        try:
            task = await env.task(named, seed, self._seconds)
        except Fault as fault:
            raise Refusal(*_invalid(f"the task cannot be made ({fault.reason}): {fault!s:.300}")) from None
        finally:
            self._free.append(env) if env.usable else env.close()
        if isinstance(task, str):
            raise Refusal(*_invalid(task))
        return task

    def close(self) -> None:
        """Close the worker process."""
        self._free.clear()
        if self._workers:
            self._workers.close()


def _invalid(why: str) -> tuple[int, str, str]:
    return 422, why[:500], "VALIDATION_ERROR"
