"""The environment over task folders of Harbor (Terminal-Bench 2), each played in a container of its own."""

import base64
import gzip
import importlib
import io
import json
import math
import shlex
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task
from agentgym.envs.terminal.harbor_files import HarborTask, load
from agentgym.envs.terminal.shell import ShellState, shown, started, unfit
from agentgym.errors import BadConfig, BadData, unknown
from agentgym.registry import register_foreign
from agentgym.sandbox.env import SandboxEnv
from agentgym.sandbox.protocol import MEGABYTE, Limits, Sandbox, sandbox
from agentgym.tasks.library import ALL, HASHED, hashed

PIECE = 60_000
_LISTED = r"""find / -xdev \( -path /proc -o -path /sys \) -prune -o -type f -size +15c -size -1025k -exec sha256sum {} + \
2> /dev/null"""
REWARDS = ("reward.json", "reward.txt")
"""Where `test.sh` writes the reward, in `/logs/verifier`; the first that is there counts, as in Harbor."""


def registered(path: str) -> str:
    """Return the id of a task folder, or of a folder of them, which is registered when it is first asked for."""
    whole = str(Path(path).expanduser().resolve())
    return register_foreign("harbor", whole, f"{__name__}:Harbor", path=whole)


class Harbor(SandboxEnv):
    """Task folders of Harbor (Terminal-Bench 2), by `path`: one folder, or a folder of them.

    Reward: 1 if the task's own `tests/test.sh` gives at least 1, else 0; what it gave is the measure `reward`. Tests are
    copied into the container when the agent hands in, and its solution never, except by the oracle. As in Harbor they run in
    the agent's own container, after all that the agent started has ended (`docs/terminal.md` says what follows from that).
    """

    horizon = 50
    backend = "docker"
    splits: Mapping[str, float] = {**HASHED, ALL: 0.0}
    split = ALL
    settings: ClassVar[tuple[str, ...]] = (*SandboxEnv.settings, "path", "network", "seconds", "shown")
    task_settings: ClassVar[tuple[str, ...]] = ("seconds", "shown")
    caller_settings: ClassVar[tuple[str, ...]] = ("path", "network")
    path: str = ""
    """A task folder, or a folder of task folders."""
    network: str = "none"
    """A network of the daemon for agent and tests alike; many tasks' tests fetch pytest and need `bridge`."""
    seconds: float = 120.0
    """Seconds that a command may take; all together at most the task's own limit."""
    shown: float = 8000
    """Characters that are shown of what a command prints."""
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

    def setup(self) -> None:
        super().setup()
        self._library = load(Path(self.path).expanduser())
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
        return (
            f"{task.instruction}\n\nThe shell is in `{self._present.work}`. "
            f"You have {self.limit} turns; call submit when it is done."
        )

    def _take(self) -> Sandbox:
        """Start a container of the task's image; none is made ahead, for each task has its own."""
        task = self._present
        options: dict[str, Any] = {
            "user": task.user,
            "writable": True,
            "work": task.work,
            "network": self.network,
            "cpus": task.cpus,
            "environment": _given(task.environment_env, task, "environment"),
            "capabilities": _root_capabilities() if task.user == "root" else (),
            **({"image": task.image} if task.image else {"build": str(task.folder / "environment")}),
            **self.backend_options,
        }
        limits = Limits(
            timeout=self.seconds,
            memory=int(task.memory_mb * MEGABYTE),
            processes=1000,
            disk=256 * MEGABYTE,
            files=100_000,
            open_files=1024,
        )
        return sandbox(self.backend, limits=limits, **options)

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
        left = self._present.agent_seconds - self.used
        if left <= 0:
            return f"[the {self._present.agent_seconds:g} seconds that this task has for commands are used up: submit]"
        seconds = min(self.seconds, left)
        result = self._twice(lambda: self.sandbox.run(self._shell.command(command, {}), timeout=seconds))
        self.used += result.seconds
        self.commands = (*self.commands, command)
        self._shell = self._shell.after(result, {})
        return shown(result, int(self.shown), seconds)

    @tool
    def submit(self) -> Outcome:
        """Hand in the container as it is now; this ends the episode."""
        self.given, note = self._graded()
        return self.win("The tests pass.") if self.given >= 1 else self.lose(f"The tests do not pass: {note}.")

    def measures(self) -> dict[str, float]:
        return {"reward": min(max(self.given, 0.0), 1.0)}

    # Grading

    def _graded(self) -> tuple[float, str]:
        """Run the task's tests in the container and return the reward that they wrote, and a word on it."""
        task, sandbox = self._present, cast("Any", self._twice(lambda: self.sandbox))
        sandbox.run("rm -rf /tests /logs/verifier; mkdir -p /logs/verifier /logs/agent /logs/artifacts")
        if any(_is_there(sandbox, place) for place in ("/tests", *(f"/logs/verifier/{name}" for name in REWARDS))):
            return 0.0, "what the agent left in their place could not be removed"  # it may have replaced rm
        sandbox.copy_in(task.packed("tests"), "/tests")
        variables = [f"{name}={value}" for name, value in _given(task.verifier_env, task, "verifier").items()]
        quiet = 'exec "$@" > /logs/verifier/test-stdout.txt 2>&1'
        words = ["/bin/bash", "-c", quiet, "bash", "/usr/bin/env", *variables, "/bin/bash", "/tests/test.sh"]
        result = sandbox.run(words, timeout=task.verifier_seconds)
        if result.reason != "exit":
            return 0.0, f"they were ended ({result.reason})"
        for name in REWARDS:
            try:
                reward = _reward(_only_file(sandbox.copy_out(f"/logs/verifier/{name}")), name)
            except FileNotFoundError:
                continue
            except (OSError, tarfile.TarError):
                reward = None
            return (0.0, f"{name} holds no reward") if reward is None else (reward, f"their reward is {reward:g}")
        return 0.0, "they wrote no reward"

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
        variables = " ".join(shlex.quote(f"{k}={v}") for k, v in _given(task.solution_env, task, "solution").items())
        return [
            "rm -rf /solution; mkdir -p /solution; rm -f /tmp/.solution",
            *(f"printf %s {piece} >> /tmp/.solution" for piece in pieces),
            f"base64 -d /tmp/.solution | gzip -d | tar xf - -C /solution; rm /tmp/.solution; cd {shlex.quote(task.work)}; "
            f"env {variables} bash /solution/solve.sh",
        ]


def _root_capabilities() -> tuple[str, ...]:
    return vars(importlib.import_module("agentgym.sandbox.docker.sandbox"))["ROOT_CAPABILITIES"]


def _is_there(sandbox: Any, path: str) -> bool:
    """Return whether a container holds something at a path, as its daemon sees it."""
    try:
        sandbox.copy_out(path)
    except FileNotFoundError:
        return False
    except OSError:  # too large to be read
        return True
    return True


def _given(variables: Mapping[str, str], task: HarborTask, table: str) -> dict[str, str]:
    """Return variables of a task; BadData for one that asks for a secret of this machine."""
    for name, value in variables.items():
        if "${" in value:
            raise BadData(
                f"{task.folder / 'task.toml'}: {name} of [{table}.env] is {value!r}, a variable of this "
                "machine, and none is "
                "handed on to a container: write its value there, or leave it out"
            )
    return dict(variables)


def _only_file(archive: bytes) -> bytes:
    """Return the file that an archive holds."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isreg() and member.size <= 65536 else None
            if content is not None:
                return content.read()
    raise OSError("it is not a file of at most 64 KiB")


def _reward(content: bytes, name: str) -> float | None:
    """Return the number that a reward file holds: alone, under the key `reward`, or under the only key."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and name.endswith(".json"):
        table = cast("dict[str, object]", value)
        value = table.get("reward", next(iter(table.values())) if len(table) == 1 else None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        return None
    return number if math.isfinite(number) else None
