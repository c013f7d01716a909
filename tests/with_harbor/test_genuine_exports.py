"""Folders that `agentgym export --as harbor` writes, played by harbor 0.26.0 itself: solved, left alone, and by shortcuts.

The images' public base is made here of this machine's packages and gets the public name; the folders are unchanged.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_genuine_folders import genuine, ours

import agentgym
from agentgym.contract.shortcuts import FORGERIES, GENERIC, Policy, shell_of
from agentgym.integrations.harbor_tasks.folder import Wanted, solution, write
from agentgym.integrations.harbor_tasks.kinds import SANDBOX, kind_of
from agentgym.integrations.harbor_tasks.wheel import pinned, requirements
from agentgym.rollout.session import Session

BASE = "python:3.11-slim-bookworm"
ENVS = ("terminal", "swe", "code", "sql", "search", "household", "shop", "functions")
PLAIN = ("first admissible", "word overlap", "echo", "claim of success")
FOLDER = "/usr/lib/python3/dist-packages"
PROGRAMS = {"awk": "/usr/bin/mawk", "diff": "/usr/bin/diff", "cmp": "/usr/bin/cmp"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give the public base's name to an image with Debian's Python and what the folders install, which they find there."""
    make_base(tmp_path_factory.mktemp("base"))


def make_base(folder: Path) -> None:
    lines = f"{requirements('mcp')}{pinned('pytest')}\n{pinned('packaging')}\n{pinned('pygments')}\npip\n"
    (folder / "requirements.txt").write_text(lines)
    target = folder / f"root{FOLDER}"
    show = "import sys; print('%d.%d' % sys.version_info[:2])"  # the image has this machine's own
    python = subprocess.run(["/usr/bin/python3", "-c", show], check=True, capture_output=True, text=True).stdout.strip()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    subprocess.run([*pip, "--python-version", python, "--target", target, "-r", folder / "requirements.txt"], check=True)
    (folder / "root/usr/bin").mkdir()
    for name, program in PROGRAMS.items():
        shutil.copy(program, folder / "root/usr/bin" / name)
    (folder / "Dockerfile").write_text(
        "FROM agentgym-test/python\nCOPY root /\nRUN rm -f /usr/lib/python3.*/EXTERNALLY-MANAGED\n"
    )
    subprocess.run(["docker", "build", "--quiet", "--tag", BASE, folder], check=True, stdout=subprocess.DEVNULL)


def policies(env: Any) -> dict[str, Callable[[list[str]], str | None]]:
    """Return an environment's own shortcut policies, forgeries where it has a shell, general ones where it has neither."""
    own = dict(env.shortcuts())
    general = FORGERIES if shell_of(env) else {} if own else {label: GENERIC[label] for label in PLAIN}
    return own | {label: partial(_blind, env, policy) for label, policy in general.items()}


def _blind(env: Any, policy: Policy, observations: list[str]) -> str | None:
    info: Any = {"admissible": env.admissible()}  # all that these policies read of it
    return policy(env, observations, info)


def shortcuts(name: str, folder: Path, out: Path) -> Iterator[Path]:
    """Write a copy of a folder for each shortcut policy of its environment, whose solution is that policy's actions."""
    facts = json.loads((folder / "tests" / "task.json").read_text())
    for number, label in enumerate(policies(agentgym.make(name))):
        env = agentgym.make(name)
        session = Session(env)
        actions, observations = list[str](), [session.reset(facts["task"], seed=facts["seed"])]
        policy = policies(env)[label]
        while not session.done and len(actions) < 20 and (action := policy(observations)) is not None:
            actions.append(action)
            observations.append(session.act(action))
        copy = out / f"{folder.name}-shortcut-{number}"
        shutil.copytree(folder, copy, copy_function=os.link)
        toml = (copy / "task.toml").read_text()
        for path in (copy / "task.toml", *(copy / "solution").iterdir()):
            path.unlink()  # a further name of the folder's own
        (copy / "task.toml").write_text(toml.replace(f'name = "agentgym/{folder.name}"', f'name = "agentgym/{copy.name}"'))
        (copy / "solution/solve.sh").write_text(f"#!/bin/bash\n{solution(env, actions)}\n")
        if not kind_of(env):
            (copy / "solution/actions.jsonl").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        env.close()
        yield copy


def exported(names: tuple[str, ...], number: int, out: Path, scratch: Path) -> list[Path]:
    folders: list[Path] = []
    for name in names:
        for folder in write(Wanted(name, base=BASE), number, scratch / name):
            folders.append(folder.rename(out / folder.name))
    return folders


@pytest.mark.parametrize(
    ("names", "number"), [(("sql", "household"), 1), pytest.param(ENVS, 20, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_solutions_win_and_nothing_else(names, number, base, tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")  # whose other builder runs no program without a bridge
    tasks, short = tmp_path / "tasks", tmp_path / "shortcuts"
    tasks.mkdir()
    short.mkdir()
    folders = exported(names, number, tasks, tmp_path)
    every = {f"agentgym/{folder.name}" for folder in folders}
    assert genuine(tasks, "oracle", tmp_path / "oracle") == dict.fromkeys(every, 1.0)
    assert genuine(tasks, "nop", tmp_path / "nop") == dict.fromkeys(every, 0.0)
    tried = [copy for folder in folders for copy in shortcuts(folder.name.partition("-")[0], folder, short)]
    paid = dict.fromkeys((f"agentgym/{copy.name}" for copy in tried), 0.0)
    assert genuine(short, "oracle", tmp_path / "short") == paid
    for folder in folders:
        for agent, reward in (("oracle", 1), ("nop", 0)):
            assert ours(tasks, folder.name, agent) == reward


def test_programs_of_the_verifier_reach_no_answer(base, tmp_path, monkeypatch):
    """Code that is judged runs as a user of its own: the task, the package and the reward are closed to it."""
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (folder,) = write(Wanted("code", base=BASE), 1, tmp_path / "code")
    subprocess.run(["docker", "build", "--quiet", "--tag", "agentgym-test/verifier", folder / "tests"], check=True)
    options: Any = SANDBOX["backend_options"]
    closed = (
        *("cat /opt/agentgym/task.json", 'python3 -c "import agentgym.envs"', "ls /opt/agentgym", "kill -9 1"),
        *("echo 1 > /logs/verifier/reward.txt", "cat {place}/mine", "cat /proc/$PPID/environ"),
    )
    tried = (
        "from agentgym.sandbox.protocol import sandbox\n"
        f"one, other = (sandbox('process', **{options!r}) for _ in range(2))\n"
        "one.write('mine', b'1')\n"
        f"for command in {closed!r}:\n"
        "    done = other.run(command.replace('{place}', one.work))\n"
        "    assert done.exit_code, (command, done)\n"
        "assert one.read('mine') == b'1'\n"
        "print('closed')\n"
    )
    command = 'mkdir -p /logs/verifier && chmod 700 /logs/verifier && python3 -c "$0"'
    run = ["docker", "run", "--rm", "--network", "none", "agentgym-test/verifier", "bash", "-c", command, tried]
    assert subprocess.run(run, check=True, capture_output=True, text=True).stdout.endswith("closed\n")
