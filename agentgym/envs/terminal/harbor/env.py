"""The environment over task folders of Harbor (Terminal-Bench 2), each played in a container of its own."""

import base64
import gzip
import importlib
import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.envs.terminal.harbor.files import HarborTask, load
from agentgym.envs.terminal.harbor.health import wait_until_healthy
from agentgym.envs.terminal.harbor.network import EVERYWHERE, STATED
from agentgym.envs.terminal.harbor.network import options as network_options
from agentgym.envs.terminal.harbor.rewards import NoVerdict, check_rule, one_number
from agentgym.envs.terminal.harbor.verifying import own_variables, verified
from agentgym.envs.terminal.shell import ShellState, shown, started, unfit
from agentgym.errors import RULED_OUT, BadConfig, Fault, unknown
from agentgym.registry import register_foreign
from agentgym.sandbox.env import SandboxEnv
from agentgym.sandbox.protocol import MEGABYTE, Limits, Sandbox, SandboxFault, sandbox
from agentgym.tasks.library import ALL, HASHED, hashed

PIECE = 60_000
CONTROL_SECONDS = 600.0
"""Seconds that a task's solution may take where it shows whether the tests work."""
TRIES = 4
"""Containers, at most, that show whether the tests work: two kinds, each made again once after a fault."""
_LISTED = r"""find / -xdev \( -path /proc -o -path /sys \) -prune -o -type f -size +15c -size -1025k -exec sha256sum {} + \
2> /dev/null"""


def registered(path: str) -> str:
    """Return the id of a task folder, or of a folder of them, which is registered when it is first asked for."""
    whole = str(Path(path).expanduser().resolve())
    return register_foreign("harbor", whole, "agentgym.envs.terminal.harbor:Harbor", path=whole)


class Harbor(SandboxEnv):
    """Task folders of Harbor (Terminal-Bench 2), by `path`: one folder, or a folder of them.

    Reward: 1 if the task's own `tests/test.sh` gives at least 1, else 0; what it gave is the measure `reward`. Where the
    tests give no reward, they are run again without the agent's part: if that gives one, the episode is lost, else it ends
    as an infrastructure error. Tests are
    copied into the container when the agent hands in, and its solution never, except by the oracle. As in Harbor they run in
    the agent's own container, after all that the agent started has ended (`docs/terminal.md` says what follows from that).
    """

    horizon = 50
    backend = "docker"
    splits: Mapping[str, float] = {**HASHED, ALL: 0.0}
    split = ALL
    caps: ClassVar[tuple[str, ...]] = ("max_agent_seconds", "max_cpus", "max_memory_mb")
    task_settings: ClassVar[tuple[str, ...]] = (*caps, "seconds", "shown", "metric_rule")
    caller_settings: ClassVar[tuple[str, ...]] = ("path", "network", "background")
    settings: ClassVar[tuple[str, ...]] = (*SandboxEnv.settings, *caller_settings, *task_settings)
    path: str = ""
    """A task folder, or a folder of task folders."""
    network: str = STATED
    """`stated`: what the task states, and no network where it states none. `task`: the format's `public` there. `none`: no
    network. Any other name: the daemon's network that stands for `public`, also where the task states none."""
    seconds: float = 120.0
    """Seconds that a command may take."""
    shown: float = 8000
    """Characters that are shown of what a command prints."""
    background: bool = False
    """Whether processes outlive their command, as in Harbor: services that the tests need. The agent's processes then run
    beside the tests, and can write a reward."""
    metric_rule: str = "min"
    """One number of several metrics without a `reward`: `min`, `max`, `mean`, `sum`, or `key:NAME` for one of them."""
    max_agent_seconds: float | None = None
    """Cap on the seconds of all commands together. None keeps the task's own limit; most tasks have none. A number measured
    with a cap is comparable with none."""
    max_cpus: float | None = None
    """Cap on processor cores, as above."""
    max_memory_mb: float | None = None
    """Cap on memory, as above."""
    declared = Declarations(
        nondeterministic="images, their programs and the network are others' work, and see the machine's clock",
        random_bound=0.0,
    )

    def check_options(self) -> None:
        super().check_options()
        if not self.path:
            raise BadConfig("Harbor plays task folders of yours: give path=FOLDER (one task, or a folder of tasks)")
        for name, least, most in (("seconds", 0.1, 36_000), ("shown", 100, 30_000)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise BadConfig(f"{name} of Harbor is {value!r}; expected a number from {least} to {most}")
        if not isinstance(self.background, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # users do pass other things
            raise BadConfig(f"background of Harbor is {self.background!r}; expected true or false")
        if self.background and self.backend != "docker":
            raise BadConfig(f"background=True needs backend='docker', not {self.backend!r}: others end all with the command")
        for name in self.caps:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9):
                raise BadConfig(f"{name} of Harbor is {value!r}; expected a number above 0")
        check_rule(self.metric_rule)

    def setup(self) -> None:
        super().setup()
        self._library = load(Path(self.path).expanduser())
        longest = max(task.verifier_seconds for task in self._library.values())
        building = max(task.build_seconds for task in self._library.values())
        building += max(task.health.longest if task.health else 0.0 for task in self._library.values())
        self.step_seconds = building + longest + TRIES * (longest + CONTROL_SECONDS)
        self._tasks = {
            name: Task(task.instruction, {"name": name}, name, hashed("Harbor", name), task.difficulty)
            for name, task in self._library.items()
        }

    # Tasks

    def split_of(self, task: Task) -> str:
        """Return the split a task's name falls into."""
        return hashed("Harbor", task.data["name"])

    def split_key(self, task: Task) -> object:
        """Return the task's name."""
        return task.data["name"]

    def content_key(self, task: Task) -> object:
        """Return the words of the instruction."""
        return task.instruction.split()

    def size(self, split: str | None = None) -> int | None:
        """Return how many tasks a split has."""
        return len(self._of_split(split or self.split))

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task of that number in a split, counted round and round."""
        split = self._split_for(number, split)
        tasks = self._of_split(split)
        if not tasks:
            raise BadConfig(f"{self.path} has no task of split {split!r}; split {ALL!r} is all of them")
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the task with that id."""
        if task_id not in self._tasks:
            raise unknown("task", task_id, self._tasks)
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

    def begin(self, task: Task) -> str:
        self.commands: tuple[str, ...] = ()
        self.used, self.given = 0.0, 0.0
        self._shell = self._opened(self.sandbox)
        network = network_options(self._present.network, self.network, self.backend)["network"]
        skills = f" Skills are in `{task_skills}`." if (task_skills := self._present.skills) else ""
        closed = "There is no network. " if network == "none" else ""
        return (
            f"{task.instruction}\n\nThe shell is in `{self._present.work}`.{skills} "
            f"{closed}You have {self.limit} turns; call submit when it is done."
        )

    def _take(self) -> Sandbox:
        """Start a container of the task's image; none is made ahead, for each task has its own."""
        task = self._present
        options: dict[str, Any] = {
            "user": task.user,
            "writable": True,
            "work": task.work,
            **network_options(task.network, self.network, self.backend),
            "cpus": _least(task.cpus, self.max_cpus),
            "environment": own_variables(task.environment_env, task, "environment"),
            **({"background": True} if self.background else {}),
            "capabilities": _root_capabilities() if task.user == "root" else (),
            **({"image": task.image} if task.image else self._build(task)),
            **self.backend_options,
        }
        limits = Limits(
            timeout=self.seconds,
            memory=int((_least(task.memory_mb, self.max_memory_mb) or _machine_mb()) * MEGABYTE),
            processes=1000,
            disk=256 * MEGABYTE,
            files=100_000,
            open_files=1024,
        )
        made = sandbox(self.backend, limits=limits, **options)
        try:
            if task.health:
                wait_until_healthy(made, task.health)
        except BaseException:
            made.close()
            raise
        return made

    def _build(self, task: HarborTask) -> dict[str, Any]:
        """Return the options that build an image; Harbor's own environments keep their own time limit."""
        limit = {"build_seconds": task.build_seconds} if self.backend == "docker" else {}
        return {"build": str(task.folder / "environment"), **limit}

    def prepare(self, sandbox: Sandbox) -> None:
        """Do again in a fresh container what the agent did."""
        self._shell = self._opened(sandbox)
        for command in self.commands:
            self._shell = self._shell.after(sandbox.run(self._shell.command(command, {}), timeout=self.seconds), {})

    def _opened(self, sandbox: Sandbox) -> ShellState:
        """Return the state of a new shell; BadConfig where the image has none."""
        result = sandbox.run("test -x /bin/bash && test -x /usr/bin/env && exec /usr/bin/env -0")
        if not result.ok:
            raise BadConfig(f"the image of {self._present.name} has no /bin/bash or no /usr/bin/env, which its shell needs")
        return started(result, self._present.work)

    @tool
    def bash(self, command: str) -> str | Outcome:
        """Run a command in bash and return what it prints. The current folder, exported variables and files stay from
        command to command; background processes end with the command. No input.
        """
        wrong = unfit(command)
        if wrong:
            return self.invalid(wrong)
        most = _least(self._present.agent_seconds, self.max_agent_seconds)
        if most is not None and self.used >= most:
            return f"[the {most:g} seconds that this task has for commands are used up: submit]"
        seconds = self.seconds if most is None else min(self.seconds, most - self.used)
        result = self._twice(lambda: self.sandbox.run(self._shell.command(command, {}), timeout=seconds))
        self.used += result.seconds
        self.commands = (*self.commands, command)
        self._shell = self._shell.after(result, {})
        return shown(result, int(self.shown), seconds)

    @tool
    def submit(self) -> Outcome:
        """Hand in the container as it is now; this ends the episode."""
        try:
            self.given = self._verified(self._twice(lambda: self.sandbox))
        except (NoVerdict, SandboxFault) as problem:
            self._require_working_tests(problem)
            return self.lose(f"The tests give no reward after this: {problem}.")
        if self.given >= 1:
            return self.win("The tests pass.")
        return self.lose(f"The tests do not pass: their reward is {self.given:g}.")

    def measures(self) -> dict[str, float]:
        return {"reward": min(max(self.given, 0.0), 1.0)}

    # Grading

    def _require_working_tests(self, problem: Exception) -> None:
        """Raise a Fault where the tests give no reward without the agent's part: untouched, or after the solution."""
        for script in ([], self._solution()) if self._present.solved else ([],):
            try:
                self.elsewhere(lambda sandbox, script=script: self._verified_after(script, sandbox))
            except (NoVerdict, SandboxFault) as error:
                problem = error
            else:
                return
        raise Fault(f"{RULED_OUT}the tests of {self._present.name} give no reward: {problem}", reason="crash")

    def _verified_after(self, script: list[str], sandbox: Any) -> None:
        for command in script:
            sandbox.run(["/bin/bash", "-c", command], timeout=CONTROL_SECONDS)
        self._verified(sandbox)

    def _verified(self, sandbox: Any) -> float:
        """Return the reward of the task's tests in a container, on the verifier's network."""
        agents, tests = (
            network_options(policy, self.network, self.backend)
            for policy in (self._present.network, self._present.verifier_network)
        )
        if agents != tests:
            if self.backend != "docker":
                raise BadConfig(f"{self._present.name} changes its network for the tests, which only docker can")
            if "allowed_hosts" in agents and "allowed_hosts" not in tests and tests["network"] != "none":
                tests |= {"allowed_hosts": EVERYWHERE}  # the container has had no name server from its beginning
            sandbox.reconnect(**tests)
        return one_number(verified(self._present, sandbox), self.metric_rule)

    def fingerprint(self, task: Task) -> str:
        """Return the hash of every file of a task's folder."""
        return self._library[task.data["name"]].fingerprint()

    def found_hidden(self) -> list[str]:
        """Return where the container holds a file of the task's tests or solution, before the tests are copied.

        Files with fewer than 16 bytes are not looked for: many are alike.
        """
        kept = self._present.hidden()
        listed = self.sandbox.run(_LISTED, timeout=self.seconds)
        lines = (line.partition("  ") for line in listed.stdout.decode("utf-8", "replace").splitlines())
        return [f"{place} ({kept[digest]})" for digest, _, place in lines if digest in kept]

    # Who plays

    def oracle(self) -> Iterator[str]:
        """Send the task's solution, run it, hand in."""
        if not self._present.solved:
            raise NotImplementedError(f"task {self._present.name} has no solution/solve.sh")
        while True:
            yield self._next()

    def _next(self) -> str:
        plan, commands = self._solution(), list(self.commands)
        for done in range(min(len(plan), len(commands)), 0, -1):
            if commands[-done:] == plan[:done]:
                return spell("bash", plan[done]) if done < len(plan) else spell("submit")
        return spell("bash", plan[0])

    def _solution(self) -> list[str]:
        task = self._present
        text = base64.b64encode(gzip.compress(task.packed("solution"), mtime=0)).decode()
        pieces = [text[place : place + PIECE] for place in range(0, len(text), PIECE)]
        variables = " ".join(shlex.quote(f"{k}={v}") for k, v in own_variables(task.solution_env, task, "solution").items())
        return [
            "rm -rf /solution; mkdir -p /solution; rm -f /tmp/.solution",
            *(f"printf %s {piece} >> /tmp/.solution" for piece in pieces),
            f"base64 -d /tmp/.solution | gzip -d | tar xf - -C /solution; rm /tmp/.solution; cd {shlex.quote(task.work)}; "
            f"env {variables} bash /solution/solve.sh",
        ]


def _root_capabilities() -> tuple[str, ...]:
    return vars(importlib.import_module("agentgym.sandbox.docker.sandbox"))["ROOT_CAPABILITIES"]


def _least(own: float | None, cap: float | None) -> float | None:
    """Return the lower of a task's own limit and the caller's cap; None for no limit."""
    return min((limit for limit in (own, cap) if limit is not None), default=None)


def _machine_mb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MEGABYTE
