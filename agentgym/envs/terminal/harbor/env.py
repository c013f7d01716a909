"""The environment for Harbor task folders (Terminal-Bench); each task runs in its own container."""

import base64
import contextlib
import gzip
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.envs.terminal.harbor import tables
from agentgym.envs.terminal.harbor.containers import Containers, least
from agentgym.envs.terminal.harbor.files import HarborTask, load, packed
from agentgym.envs.terminal.harbor.health import wait_until_healthy
from agentgym.envs.terminal.harbor.lending import ContainerAccess, not_again
from agentgym.envs.terminal.harbor.network import STATED
from agentgym.envs.terminal.harbor.network import options as network_options
from agentgym.envs.terminal.harbor.rewards import NoVerdict, check_rule, combined, one_number
from agentgym.envs.terminal.harbor.server_tools import USED_UP, ServerCall, ServerTools
from agentgym.envs.terminal.harbor.steps import Step
from agentgym.envs.terminal.harbor.verifying import NEW_LOGS, verified
from agentgym.envs.terminal.shell import ShellState, command_text, started, unfit
from agentgym.errors import RULED_OUT, BadConfig, Fault, Reason, UnknownName, no_such
from agentgym.registry import register_foreign
from agentgym.sandbox.docker.images import check as check_images
from agentgym.sandbox.protocol import Sandbox, SandboxFault
from agentgym.tasks.library import ALL, HASHED, hashed

PIECE = 60_000
CONTROL_SECONDS = 600.0
"""Time limit, in seconds, of `setup.sh`, and of each command of a task's solution when the task's tests are checked."""
TRIES = 4
"""Maximum number of containers for checking the tests: idle and solved, each retried once after a fault."""
_LISTED = r"""find / -xdev \( -path /proc -o -path /sys \) -prune -o -type f -size +15c -size -1025k -exec sha256sum {} + \
2> /dev/null"""


def registered(path: str) -> str:
    """Return the environment id for a task folder or a folder of task folders; registered on first use."""
    whole = str(Path(path).expanduser().resolve())
    return register_foreign("harbor", whole, "agentgym.envs.terminal.harbor:Harbor", path=whole)


class Harbor(ContainerAccess, ServerTools):
    """Task folders of Harbor (Terminal-Bench).

    Reward: 1 if the task's own `tests/test.sh` writes a reward of at least 1, else 0; the metric `reward` is the written
    reward, clipped to 0 to 1. If the tests write no reward, they run again without the agent's work: if they write one
    then, the episode is lost; if not, it ends as an infrastructure error. A task with steps is one episode, and `submit`
    ends a step. The tests are copied into the container at `submit`; only the oracle copies the solution. As in Harbor, the
    tests run in the agent's container after all its processes have ended, unless there is a separate verifier
    (`docs/environments/terminal.md`).
    """

    horizon = 50
    backend = "docker"
    splits: Mapping[str, float] = {**HASHED, ALL: 0.0}
    split = ALL
    caps: ClassVar[tuple[str, ...]] = ("max_agent_seconds", "max_cpus", "max_memory_mb")
    task_settings: ClassVar[tuple[str, ...]] = (*caps, "seconds", "max_chars", "metric_rule")
    caller_settings: ClassVar[tuple[str, ...]] = ("path", "network", "background", "pull", "images_gb")
    settings: ClassVar[tuple[str, ...]] = (*ServerTools.settings, *caller_settings, *task_settings)
    path: str = ""
    """A task folder, or a folder of task folders."""
    network: str = STATED
    """`none`, `stated` (the task's policy, or no network), `task` (its policy, or `public`), or a network for `public`."""
    seconds: float = 120.0
    """Time limit per command, in seconds."""
    max_chars: float = 8000
    """Maximum characters of a command's output in an observation."""
    background: bool = False
    """Let processes outlive their command, as in Harbor, for services that tests need; a process could forge a reward."""
    pull: str = ""
    """Comma-separated registries to pull missing images from, such as `docker.io,ghcr.io`; empty: none."""
    images_gb: float | None = None
    """Maximum gigabytes of the daemon's images; images pulled or built here are removed, least recently used first."""
    metric_rule: str = "min"
    """Reduction of several metrics without a `reward`: `min`, `max`, `mean`, `sum`, or `key:NAME` for a single metric."""
    max_agent_seconds: float | None = None
    """Cap on the total seconds of commands; None: the task's own limit, if any. Results with a cap are not comparable."""
    max_cpus: float | None = None
    """Cap on processor cores; None keeps the task's own limit."""
    max_memory_mb: float | None = None
    """Cap on memory in MiB; None keeps the task's own limit."""
    declared = Declarations(
        nondeterministic="images, their programs and the network are others' work, and see the machine's clock",
        random_bound=0.0,
    )

    def check_options(self) -> None:
        super().check_options()
        if not self.path:
            raise BadConfig("Harbor plays task folders of yours: give path=FOLDER (one task, or a folder of tasks)")
        for name, lowest, most in (("seconds", 0.1, 36_000), ("max_chars", 100, 30_000)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= most:
                raise BadConfig(f"{name} of Harbor is {value!r}; expected a number from {lowest} to {most}")
        if not isinstance(self.background, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # users do pass other things
            raise BadConfig(f"background of Harbor is {self.background!r}; expected true or false")
        if self.background and self.backend != "docker":
            raise BadConfig(f"background=True needs backend='docker', not {self.backend!r}: others end all with the command")
        check_images(self.pull, self.images_gb)
        if (self.pull or self.images_gb is not None) and self.backend != "docker":
            raise BadConfig(f"pull and images_gb need backend='docker', not {self.backend!r}")
        for name in self.caps:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9):
                raise BadConfig(f"{name} of Harbor is {value!r}; expected a number above 0")
        check_rule(self.metric_rule)

    def setup(self) -> None:
        super().setup()
        self._library = load(Path(self.path).expanduser())
        self.step_seconds = max(task.longest + TRIES * (task.longest + CONTROL_SECONDS) for task in self._library.values())
        options = {**self._of_images(), **self.backend_options}
        self._containers = Containers(
            *(self.backend, options, self.network, self.seconds, self.max_cpus, self.max_memory_mb)
        )
        self._tasks = {
            name: Task(task.instruction, {"name": name}, name, hashed("Harbor", name), task.difficulty)
            for name, task in self._library.items()
        }

    def _of_images(self) -> dict[str, object]:
        return {"pull": self.pull, "images_gb": self.images_gb} if self.backend == "docker" else {}

    # Tasks

    def split_of(self, task: Task) -> str:
        """Return the split, which the hash of the task's name decides."""
        return hashed("Harbor", task.data["name"])

    def split_key(self, task: Task) -> object:
        """Return the task's name."""
        return task.data["name"]

    def content_key(self, task: Task) -> object:
        """Return the words of the instruction."""
        return task.instruction.split()

    def size(self, split: str | None = None) -> int | None:
        """Return the number of tasks in a split."""
        return len(self._of_split(split or self.split))

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return a split's task by number, wrapping around at the end.

        Raises:
            BadConfig: the split has no tasks.
        """
        split = self._split_for(number, split)
        tasks = self._of_split(split)
        if not tasks:
            raise BadConfig(f"{self.path} has no task of split {split!r}; split {ALL!r} is all of them")
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the task with this id.

        Raises:
            UnknownName: no task has this id.
        """
        if task_id not in self._tasks:
            raise UnknownName(no_such("task", task_id, self._tasks))
        return self._tasks[task_id]

    def _of_split(self, split: str) -> list[Task]:
        return [task for task in self._tasks.values() if split in (ALL, task.split)]

    @property
    def _present(self) -> HarborTask:
        name = self.task.data.get("name")
        if name not in self._library:
            raise BadConfig(f"{name!r} is not a task of {self.path}; expected one that `env.tasks` returns")
        return self._library[name]

    # The episode

    def limit_of(self, task: Task) -> int:
        """Return the maximum number of turns in an episode: the horizon times the number of the task's steps."""
        return self.horizon * len(self._library[task.data["name"]].steps)

    def begin(self, task: Task) -> str:
        self.past: tuple[tuple[str | ServerCall, ...], ...] = ()
        self.commands: tuple[str | ServerCall, ...] = ()
        self.rewards: tuple[dict[str, float], ...] = ()
        self.used, self.score = 0.0, 0.0
        self._shell = ShellState("/", "/", ())
        return f"{self._introduced(self.sandbox)} You have {self.limit} turns; call submit when it is done."

    @property
    def _step(self) -> Step:
        return self._present.steps[len(self.past)]

    def _introduced(self, sandbox: Sandbox) -> str:
        task, step = self._present, self._step
        self._shell = self._opened(sandbox, step)
        network = network_options(step.network, self.network, self.backend)["network"]
        skills = f" Skills are in `{task.skills}`." if task.skills else ""
        closed = " There is no network." if network == "none" else ""
        steps = f" This is step {len(self.past) + 1} of {len(task.steps)}." if len(task.steps) > 1 else ""
        return f"{step.instruction}\n\nThe shell is in `{task.place.work}`.{skills}{closed}{steps}"

    def _take(self) -> Sandbox:
        """Return a container of the task's image; created ahead only if the image is used often (`rare` in `take`)."""
        task = self._present
        return self._containers.make(task.place, task.steps[0].network, task.file, background=self.background)

    def prepare(self, sandbox: Sandbox) -> None:
        """Replay the agent's commands in a fresh container."""
        task = self._present
        for step, commands in zip(task.steps, (*self.past, self.commands), strict=False):
            self._enter(sandbox, step)
            self.serve(task.servers, sandbox, step.user, task.place.work, task.file)
            shell = self._opened(sandbox, step)
            for command in commands:
                not_again(command)
                if isinstance(command, ServerCall):
                    with contextlib.suppress(TimeoutError):
                        self.called(command, self.seconds)
                    continue
                result = self._commanded(sandbox, step, shell, command, self.seconds)
                shell = shell.after(result, {})
            self._shell = shell
            if step is not self._step and step.verifier.place is None:  # the tests may have changed the container
                with contextlib.suppress(NoVerdict):
                    verified(task, step, sandbox, self._containers)

    def _enter(self, sandbox: Any, step: Step) -> None:
        task = self._present
        if step is not task.steps[0]:
            self._containers.connect(sandbox, task.steps[0].network, step.network, task.name)
        sandbox.run(NEW_LOGS)
        if step.workdir:
            sandbox.copy_in(packed([step.workdir]), task.place.work)
            if (step.workdir / "setup.sh").is_file():
                script = 'cd -- "$1" && exec bash "$1/setup.sh"'
                result = sandbox.run_as(
                    step.user, ["/bin/bash", "-c", script, "bash", task.place.work], timeout=CONTROL_SECONDS
                )
                if not result.ok:
                    raise SandboxFault(f"setup.sh of step {step.name!r} failed ({result.reason}): {result.text[-300:]}")
        if step.health:
            wait_until_healthy(sandbox, step.health, step.user)

    def _opened(self, sandbox: Any, step: Step) -> ShellState:
        script = "test -x /bin/bash && test -x /usr/bin/env && exec /usr/bin/env -0"
        result = sandbox.run_as(step.user, ["/bin/sh", "-c", script])
        if not result.ok and not self.past:
            raise BadConfig(
                f"the image of {self._present.name} has no /bin/bash, no /usr/bin/env or no user {step.user!r}, which its "
                f"shell needs: {result.text[-200:]}"
            )
        return started(result, self._present.place.work) if result.ok else self._shell

    def _commanded(self, sandbox: Any, step: Step, shell: ShellState, command: str, seconds: float) -> Any:
        return sandbox.run_as(step.user, shell.command(command, {}), timeout=seconds)

    @tool
    def bash(self, command: str) -> str | Outcome:
        """Run a command in bash and return what it prints. The current folder, exported variables and files stay from
        command to command; background processes end with the command. No input.
        """
        wrong = unfit(command)
        if wrong:
            return self.invalid(wrong)
        step = self._step
        seconds = self.seconds_left()
        if not seconds > 0:
            return USED_UP
        result = self._twice(lambda: self._commanded(self.sandbox, step, self._shell, command, seconds))
        self.used += result.seconds
        self.commands = (*self.commands, command)
        self._shell = self._shell.after(result, {})
        if self._present.place.storage_mb and getattr(self.sandbox, "overfull", False):
            return self.lose(f"The container holds more than the {self._present.place.storage_mb:g} MB of its task.")
        return command_text(result, int(self.max_chars), seconds)

    def seconds_left(self) -> float:
        most = least(self._step.seconds, self.max_agent_seconds)
        return self.seconds if most is None else min(self.seconds, most - self.used)

    def spent(self, call: ServerCall, seconds: float) -> None:
        self.commands, self.used = (*self.commands, call), self.used + seconds

    @tool
    def submit(self) -> str | Outcome:
        """Hand in the container as it is now; this ends the episode, or the step of a task with several."""
        task, step = self._present, self._step
        try:
            rewards = verified(task, step, self._twice(lambda: self.sandbox), self._containers)
            number = one_number(rewards, self.metric_rule)
        except (NoVerdict, SandboxFault) as problem:
            at = len(self.past)
            self._require("the tests give no reward", problem, at + 1, lambda sandbox: self._judged(sandbox, step))
            return self.lose(f"The tests give no reward after this: {problem}.")
        self.rewards = (*self.rewards, rewards)
        if len(self.rewards) < len(task.steps) and not step.stops(rewards):
            return self._next_step(number)
        self.score = one_number(combined(self.rewards, task.strategy), self.metric_rule)
        if self.score >= 1:
            return self.win("The tests pass.")
        stopped = ", and the task ends with this step" if len(self.rewards) < len(task.steps) else ""
        return self.lose(f"The tests do not pass: their reward is {self.score:g}{stopped}.")

    def _next_step(self, number: float) -> str | Outcome:
        """Begin the next step; `number` is the reward of the finished step."""
        task = self._present
        if task.strategy == "mean":
            self.score += min(max(number, 0.0), 1.0) / len(task.steps)
        self.past, self.commands, self.used = (*self.past, self.commands), (), 0.0
        try:
            self._enter(self.sandbox, self._step)
            self.serve(task.servers, self.sandbox, self._step.user, task.place.work, task.file)
        except SandboxFault as problem:
            at, step = len(self.past), self._step
            self._require(f"step {step.name!r} does not begin", problem, at, lambda sandbox: self._enter(sandbox, step))
            return self.lose(f"The next step cannot begin after this: {problem}.")
        return self._introduced(self.sandbox)

    def measures(self) -> dict[str, float]:
        return {"reward": min(max(self.score, 0.0), 1.0)}

    def load(self, payload: object) -> None:
        super().load(payload)
        self.serve((), None, "", "", Path())
        if self._present.servers:
            assert self.sandbox  # started now, because it determines the tools

    # Grading

    def _require(self, wrong: str, problem: Exception, number: int, work: Callable[[Any], None]) -> None:
        """Check that `work` succeeds after `number` steps without the agent, either idle or with the task's solution.

        Raises:
            Fault: `work` fails in both cases, so the agent is not to blame; the message begins with `wrong`.
        """
        for solved in (False, True) if self._present.solved else (False,):
            try:
                self.elsewhere(lambda sandbox, solved=solved: (self._played(sandbox, number, solved=solved), work(sandbox)))
            except (NoVerdict, SandboxFault) as error:
                problem = error
            else:
                return
        raise Fault(f"{RULED_OUT}{wrong} ({self._present.name}): {problem}", reason=Reason.CRASH)

    def _played(self, sandbox: Any, number: int, *, solved: bool) -> None:
        for step in self._present.steps[:number]:
            self._enter(sandbox, step)
            for command in self._solution(step) if solved else ():
                sandbox.run_as(step.user, ["/bin/bash", "-c", command], timeout=CONTROL_SECONDS)

    def _judged(self, sandbox: Any, step: Step) -> None:
        verified(self._present, step, sandbox, self._containers)

    def fingerprint(self, task: Task) -> str:
        """Return the hash of every file of a task's folder."""
        return self._library[task.data["name"]].fingerprint()

    def found_hidden(self) -> list[str]:
        """Return the container's files of 16 bytes to 1 MiB that equal a test script or a file of the solution."""
        hidden = self._present.hidden()
        listed = self.sandbox.run(_LISTED, timeout=self.seconds)
        lines = (line.partition("  ") for line in listed.stdout.decode("utf-8", "replace").splitlines())
        return [f"{place} ({hidden[digest]})" for digest, _, place in lines if digest in hidden]

    # Policies

    def oracle(self) -> Iterator[str]:
        """Send and run the solution of each step, and submit."""
        if not self._present.solved:
            raise NotImplementedError(f"task {self._present.name} has no solution/solve.sh")
        while True:
            yield self._next()

    def _next(self) -> str:
        plan, commands = self._solution(self._step), list(self.commands)
        for done in range(min(len(plan), len(commands)), 0, -1):
            if commands[-done:] == plan[:done]:
                return spell("bash", plan[done]) if done < len(plan) else spell("submit")
        return spell("bash", plan[0])

    def _solution(self, step: Step) -> Sequence[str]:
        """Return the commands that copy a step's solution to /solution (/tmp/solution if not writable) and run it."""
        task = self._present
        assert step.solution is not None
        text = base64.b64encode(gzip.compress(packed([step.solution]), mtime=0)).decode()
        pieces = [text[place : place + PIECE] for place in range(0, len(text), PIECE)]
        environment = tables.resolved(task.solution_env, "solution", task.file)
        variables = " ".join(shlex.quote(f"{k}={v}") for k, v in environment.items())
        return [
            "rm -rf /solution /tmp/.solution; mkdir -p /solution 2> /dev/null || true",
            *(f"printf %s {piece} >> /tmp/.solution" for piece in pieces),
            "S=/solution; test -w $S || { S=/tmp/solution; rm -rf $S; mkdir -p $S; }; "
            f"base64 -d /tmp/.solution | gzip -d | tar xf - -C $S; rm /tmp/.solution; cd {shlex.quote(task.place.work)}; "
            f"env {variables} bash $S/solve.sh",
        ]
