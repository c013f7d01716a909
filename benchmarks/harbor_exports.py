"""Play folders of `agentgym export --as harbor` by the genuine Harbor: its oracle, its nop agent, and shortcut policies.

    DOCKER_HOST=… PYTHONPATH=. .venv-harbor/bin/python benchmarks/harbor_exports.py OUT [--tasks 20] [--shortcut-tasks 1]
    .venv-harbor/bin/python benchmarks/harbor_exports.py OUT --report

OUT gets the folders, Harbor's jobs, and a line of `results.jsonl` for each trial. A second run plays what has no line yet.
A shortcut policy is played to the end of its episode here, and its actions are the solution of a copy of the folder: Harbor
must give the reward, and a service must count the turns, that the episode here had. The images' public base is made of this
machine's packages and gets the public name; the folders are unchanged. Needs a daemon and images as `./dev test-harbor`
makes them (benchmarks/integrations_harbor.py has the commands).
"""

import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import agentgym
from agentgym.contract.shortcuts import FORGERIES, GENERIC, Policy, shell_of
from agentgym.integrations.harbor_tasks.folder import ExportSpec, solution, write
from agentgym.integrations.harbor_tasks.kinds import kind_of
from agentgym.integrations.harbor_tasks.wheel import pinned, requirements
from agentgym.rollout.session import Session

BASE = "python:3.11-slim-bookworm"
ENVS = ("terminal", "swe", "code", "sql", "search", "household", "shop", "functions")
PLAIN = ("first admissible", "word overlap", "echo", "claim of success")
"""General shortcut policies for environments that name none of their own."""
PYTHONS = "/usr/lib/python3/dist-packages"
PROGRAMS = {"awk": "/usr/bin/mawk", "diff": "/usr/bin/diff", "cmp": "/usr/bin/cmp"}
GUESSED = ("search", "shop")
"""Environments with a shortcut policy that solves some tasks by chance; their folders skip these tasks."""
PART = 10
"""Tasks of an environment before those of the next one."""
CHUNK = 10
"""Trials of one call of Harbor: what an interrupted run loses at most."""


@dataclass(frozen=True)
class Trial:
    """One play of a folder by Harbor, and what it must bring."""

    env: str
    task: str
    policy: str
    folder: str
    agent: str
    reward: float
    turns: int | None = None
    """Turns that the service must count; None for folders of files."""


ONCE = '[ -z "$PLAYED" ] || exit 0; export PLAYED=1'
"""Begins a shortcut's script, which Harbor stores where a policy may look for a solution and run it."""
OFFLINE = {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
"""Without them a call of Harbor waits 18 s for hosts that it cannot reach."""


def _called(command: Sequence[str | Path], **options: Any) -> None:
    """Run a program with Docker's older builder: the other one runs no program without a bridge."""
    subprocess.run(command, env={**os.environ, **OFFLINE, "DOCKER_BUILDKIT": "0"}, **options)


def make_base(folder: Path) -> None:
    """Give the public base's name to an image with Debian's Python and what the folders install, which they find there."""
    lines = f"{requirements('mcp')}{pinned('pytest')}\n{pinned('packaging')}\n{pinned('pygments')}\npip\n"
    (folder / "requirements.txt").write_text(lines)
    target = folder / f"root{PYTHONS}"
    show = "import sys; print('%d.%d' % sys.version_info[:2])"  # the image has this machine's own
    python = subprocess.run(["/usr/bin/python3", "-c", show], check=True, capture_output=True, text=True).stdout.strip()
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += ["--only-binary=:all:", "--python-version", python, "--target", target]
    subprocess.run([*pip, "-r", folder / "requirements.txt"], check=True)
    (folder / "root/usr/bin").mkdir()
    for name, program in PROGRAMS.items():
        shutil.copy(program, folder / "root/usr/bin" / name)
    (folder / "Dockerfile").write_text(
        "FROM agentgym-test/python\nCOPY root /\nRUN rm -f /usr/lib/python3.*/EXTERNALLY-MANAGED && "
        f"python3 -m compileall -q {PYTHONS}\n"  # as pip does, but for this image's Python
    )
    _called(["docker", "build", "--quiet", "--tag", BASE, folder], check=True, stdout=subprocess.DEVNULL)


def prepare(out: Path) -> None:
    """Make the folders of a play and the public base, unless they are there."""
    for folder in ("base", "shortcuts"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    if not (out / "base/Dockerfile").exists():
        make_base(out / "base")


def cache(folder: Path) -> None:
    """Name the images that all of an export begin with, for Harbor removes an image with what it is made of."""
    for place in ("tests", "environment/service"):
        if (folder / place).exists():
            build = ["docker", "build", "--quiet", "--tag", f"agentgym-cache/{folder.name}-{place.rpartition('/')[2]}"]
            _called([*build, folder / place], check=True, stdout=subprocess.DEVNULL)


def exported(name: str, number: int, out: Path) -> list[Path]:
    """Write folders of an environment's tasks, or return those of an earlier run."""
    names = out / "names.json"
    if not names.exists():
        shutil.rmtree(out, ignore_errors=True)
        folders = write(ExportSpec(name, base=BASE, skip_guessed=name in GUESSED), number, out / "tasks")
        names.write_text(json.dumps([folder.name for folder in folders]))
    return [out / "tasks" / name for name in json.loads(names.read_text())]


def policies(env: Any) -> dict[str, Callable[[list[str]], str | None]]:
    """Return an environment's own shortcut policies, forgeries where it has a shell, general ones where it has neither."""
    own = dict(env.shortcuts())
    general = FORGERIES if shell_of(env) else {} if own else {label: GENERIC[label] for label in PLAIN}
    return own | {label: partial(_blind, env, policy) for label, policy in general.items()}


def _blind(env: Any, policy: Policy, observations: list[str]) -> str | None:
    info: Any = {"admissible": env.admissible()}  # all that these policies read of it
    return policy(env, observations, info)


def plain_trials(name: str, folders: Sequence[Path]) -> Iterator[Trial]:
    """Return the trials of Harbor's own agents."""
    for folder in folders:
        yield Trial(name, folder.name, "oracle", str(folder), "oracle", 1.0)
        yield Trial(name, folder.name, "nop", str(folder), "nop", 0.0)


def shortcut_trials(name: str, folder: Path, out: Path) -> Iterator[Trial]:
    """Play each shortcut policy to its end, and write a copy of the folder whose solution is that policy's actions."""
    facts = json.loads((folder / "tests" / "task.json").read_text())
    for number, label in enumerate(policies(agentgym.make(name))):
        env: Any = agentgym.make(name)
        session = Session(env)
        actions, observations = list[str](), [session.reset(facts["task"], seed=facts["seed"])]
        policy = policies(env)[label]
        while not session.done and (action := policy(observations)) is not None:
            actions.append(action)
            observations.append(session.act(action))
        copy = out / f"{folder.name}-shortcut-{number}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, copy_function=os.link)
        toml = (copy / "task.toml").read_text()
        for path in (copy / "task.toml", *(copy / "solution").iterdir()):
            path.unlink()  # a further name of the folder's own
        (copy / "task.toml").write_text(toml.replace(f'name = "agentgym/{folder.name}"', f'name = "agentgym/{copy.name}"'))
        (copy / "solution/solve.sh").write_text(f"#!/bin/bash\n{ONCE}\n{solution(env, actions)}\n")
        files = kind_of(env)
        if not files:
            (copy / "solution/actions.jsonl").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        reward = session.reward if session.done else 0.0
        turns = session.turns if session.done and not files else None
        env.close()
        yield Trial(name, folder.name, label, str(copy), "oracle", reward, turns)


def play(trials: Sequence[Trial], out: Path, jobs: int) -> list[dict[str, Any]]:
    """Return a row for each trial of one agent, by one call of `harbor run`."""
    program = Path(sys.executable).with_name("harbor")
    job = Path(tempfile.mkdtemp(dir=out, prefix="job-"))
    for trial in trials:
        shutil.copytree(trial.folder, job / "tasks" / Path(trial.folder).name, copy_function=os.link)
    command = [program, "run", "-p", job / "tasks", "-a", trials[0].agent, "-o", job / "jobs", "-n", str(jobs)]
    with (job / "log").open("w") as log:
        _called([*command, "--yes", "--quiet"], check=False, stdout=log, stderr=log)
    results = {}
    for path in (job / "jobs").rglob("result.json"):
        result = json.loads(path.read_text())
        if "trial_name" in result:
            results[result["task_name"]] = (path.parent, result)
    return [row(trial, *results.get(f"agentgym/{Path(trial.folder).name}", (job, None))) for trial in trials]


def row(trial: Trial, folder: Path, result: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a trial of Harbor brought, and what is wrong with it; None where it is as expected."""
    rewards = ((result or {}).get("verifier_result") or {}).get("rewards") or {}
    error = "no result" if result is None else (result.get("exception_info") or {}).get("exception_type")
    printed = folder / "verifier/test-stdout.txt"
    verdict = printed.read_text(errors="replace")[-300:] if printed.exists() else ""
    counted = re.search(r"^(\d+) turns,", verdict, re.MULTILINE)
    turns = int(counted[1]) if counted else None
    wrong = error
    if wrong is None and rewards.get("reward") != trial.reward:
        wrong = f"reward {rewards.get('reward')}, expected {trial.reward}"
    if wrong is None and trial.turns is not None and turns != trial.turns:
        wrong = f"{turns} turns, expected {trial.turns}"
    more = {"folder": Path(trial.folder).name, "rewarded": rewards.get("reward"), "wrong": wrong, "verdict": verdict}
    return {**asdict(trial), **more}


def rows_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows of earlier runs, the last of each trial."""
    path = out / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    return list({(each["task"], each["policy"]): each for each in rows}.values())


def run(trials: Sequence[Trial], out: Path, jobs: int, until: float) -> None:
    """Play what was not played yet, and append the rows; trials without a verdict are played again."""
    done = {(each["task"], each["policy"]) for each in rows_of(out) if each["rewarded"] is not None}
    left = [trial for trial in trials if (trial.task, trial.policy) not in done]
    for agent in ("oracle", "nop"):
        same = [trial for trial in left if trial.agent == agent]
        for start in range(0, len(same), CHUNK):
            if time.time() > until:
                return
            rows = play(same[start : start + CHUNK], out, jobs)
            with (out / "results.jsonl").open("a") as file:
                file.writelines(json.dumps(each) + "\n" for each in rows)
            for each in rows:
                print(f"{each['folder']} {each['policy']}: {each['wrong'] or 'as expected'}", flush=True)


def report(out: Path) -> str:
    """Return a table of the rows, with what went wrong below it."""
    rows = rows_of(out)
    heads = ("environment", "oracle: 1", "nop: 0", "shortcut policies: 0", "on tasks", "of these won, here and there")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for env in dict.fromkeys(each["env"] for each in rows):
        own = [each for each in rows if each["env"] == env]
        short = [each for each in own if each["policy"] not in ("oracle", "nop")]
        cells = [
            _share([each for each in own if each["policy"] == name], paid) for name, paid in (("oracle", 1), ("nop", 0))
        ]
        cells += [_share(short, 0), str(len({each["task"] for each in short})), _share(short, 1).partition(" ")[0]]
        lines.append(f"| {env} | {' | '.join(cells)} |")
    lines += [f"{each['folder']} {each['policy']}: {each['wrong']}" for each in rows if each["wrong"]]
    return "\n".join(lines)


def _share(rows: Sequence[dict[str, Any]], reward: float) -> str:
    """Return how many rows are as expected and have a reward."""
    return f"{sum(each['wrong'] is None and each['rewarded'] == reward for each in rows)} of {len(rows)}"


def play_all(
    out: Path,
    names: Sequence[str],
    tasks: int,
    shortcut_tasks: int,
    *,
    jobs: int = 2,
    until: float = math.inf,
    only_shortcuts: bool = False,
    first: int = 0,
) -> None:
    """Play what has no row yet: some tasks of every environment, then more. `until`: when no further trial begins."""
    prepare(out)
    for start in range(first, tasks, PART):
        for name in names:
            folders = exported(name, tasks, out / name)
            cache(folders[0])
            part = slice(start, min(start + PART, tasks))
            trials = [] if only_shortcuts else list(plain_trials(name, folders[part]))
            for folder in folders[:shortcut_tasks][part]:
                trials += shortcut_trials(name, folder, out / "shortcuts")
            run(trials, out, jobs, until)


def main() -> None:
    """Play, or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--shortcut-tasks", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--only-shortcuts", action="store_true", help="play neither oracle nor nop")
    parser.add_argument("--first", type=int, default=0, help="number of tasks at the start to leave out")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        print(report(arguments.out))
        return
    until = time.time() + 60 * arguments.minutes
    play_all(
        arguments.out,
        arguments.envs,
        arguments.tasks,
        arguments.shortcut_tasks,
        jobs=arguments.jobs,
        until=until,
        only_shortcuts=arguments.only_shortcuts,
        first=arguments.first,
    )
    print(report(arguments.out))


if __name__ == "__main__":
    main()
