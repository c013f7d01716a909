"""Task folders played by harbor 0.26.0 itself and by `rlvr/Harbor-v0`, each solved and left alone: the same rewards.

The network mode of all is `public`: Harbor's local Docker has no other without its sidecar. Ours gives them none.
"""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.terminal.harbor.rewards import one_number

DOCKERFILE = "FROM agentgym-test/app\nWORKDIR /app\n"  # no RUN: the tests' daemon has no network for it
TOML = '[environment]\nnetwork_mode = "public"\nmemory_mb = 256\n'
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
ONE = 'grep -qsx "{}" /app/out && echo 1 > /logs/verifier/reward.txt || echo {} > /logs/verifier/reward.txt\n'
METRICS = 'grep -qs 1 /app/out && n=0.75 || n=0.25\nprintf \'{"a": 1, "b": %s}\' $n > /logs/verifier/reward.json\n'
ANSWER = '[ "$(cat {} 2> /dev/null)" = "$(cat /tests/answer)" ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n'
SOLVE = "echo 1 > /app/out\n"


def steps(*names: str, toml: str = "", **least: object) -> str:
    tables = [f'[[steps]]\nname = "{name}"\n' + (f"min_reward = {least[name]}\n" if name in least else "") for name in names]
    return f"{toml}\n{TOML}" + "".join(tables)


def step(name: str, number: object, otherwise: float = 0, solve: str | None = None) -> dict[str, str]:
    return {
        f"steps/{name}/instruction.md": f"Write {number} to out.\n",
        f"steps/{name}/tests/test.sh": ONE.format(number, otherwise),
        f"steps/{name}/solution/solve.sh": solve or f"echo {number} > /app/out\n",
    }


def plain(toml: str = TOML, test: str = ONE.format(1, 0), solve: str = SOLVE, **more: str) -> dict[str, str]:
    return {"task.toml": toml, "instruction.md": "Write 1.\n", "tests/test.sh": test, "solution/solve.sh": solve, **more}


FOLDERS: dict[str, dict[str, str]] = {
    "shared": plain(),
    "metrics": plain(test=METRICS),
    "half": plain(test=ONE.format(1, 0.5)),
    "variables": plain(
        f'{TOML}[environment.env]\nA = "1"\n[verifier.env]\nB = "2"\n[solution.env]\nC = "3"\n',
        '[ "$(cat /app/out 2> /dev/null)$A$B" = 1312 ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
        'echo "$A$C" > /app/out\n',
    ),
    "health": plain(
        f'{TOML}[environment.healthcheck]\ncommand = "echo 1 > /app/up"\n', "cp /app/up /logs/verifier/reward.txt\n"
    ),
    "users": plain(
        f'{TOML}[agent]\nuser = "nobody"\n[verifier]\nuser = "daemon"\n',
        '[ "$(id -un) $(cat /app/out)" = "daemon nobody" ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
        "id -un > /app/out\n",
    ),
    "separate-copy": plain(f'artifacts = ["/app/out"]\n{TOML}{SEPARATE}'),
    "separate-without-artifacts": plain(f"{TOML}{SEPARATE}"),
    "separate-published": plain(
        f"{TOML}{SEPARATE}", ANSWER.format("/logs/artifacts/x"), "cp /etc/hostname /tmp/h; echo 42 > /logs/artifacts/x\n"
    )
    | {"tests/answer": "42\n"},
    "separate-dockerfile": plain(
        f'artifacts = ["/app/out"]\n{TOML}{SEPARATE}[verifier.environment]\nnetwork_mode = "public"\n',
        ANSWER.format("/app/out"),
        "echo 42 > /app/out\n",
    )
    | {"tests/answer": "42\n", "tests/Dockerfile": "FROM agentgym-test/app\nWORKDIR /app\nCOPY . /tests/\n"},
    "hooks": plain(
        f'artifacts = ["/app/late"]\n{TOML}{SEPARATE}[[verifier.collect]]\ncommand = "cp out late"\n',
        "cp /app/late /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
    ),
    "exclude": plain(
        f'artifacts = [{{source = "/app", exclude = ["*.log", "tmp"]}}]\n{TOML}{SEPARATE}',
        "[ -e /app/out ] && n=1 || n=0\nls /app/x.log /app/tmp/y && n=0.5\necho $n > /logs/verifier/reward.txt\n",
        "mkdir /app/tmp; touch /app/x.log /app/tmp/y /app/out; ln -s /tests /app/l\n",
    ),
    "steps-mean": {"task.toml": steps("a", "b"), **step("a", 1, 0.5), **step("b", 2)},
    "steps-final": {
        "task.toml": steps("a", "b", toml='multi_step_reward_strategy = "final"'),
        **step("a", 1, solve="true\n"),
        **step("b", 2),
    },
    "steps-stop": {"task.toml": steps("a", "b", a=0.8), **step("a", 1, 0.5), **step("b", 2)},
    "steps-stop-by-metric": {
        "task.toml": steps("a", "b", a="{ b = 0.7 }"),
        **step("a", 1),
        **step("b", 2),
        "steps/a/tests/test.sh": METRICS,
    },
    "steps-shared-files": {
        "task.toml": steps("a", "b"),
        **step("a", 1),
        **step("b", 2),
        "steps/b/workdir/setup.sh": "echo 2 > ready\n",
        "steps/b/workdir/given": "2\n",
        "steps/b/solution/solve.sh": "cat /app/given > /app/out; rm /app/ready; ls /tests/* && rm /app/out; true\n",
        "tests/helper": "x\n",
        "tests/test.sh": "[ -s /tests/helper ] && echo 1 > /logs/verifier/reward.txt\n",
    },
    "steps-separate": {
        "task.toml": steps("a", "b") + '[steps.verifier]\nenvironment_mode = "separate"\n',
        **step("a", 1),
        **step("b", 2),
    },
}
FOLDERS["steps-separate"]["task.toml"] = (
    f'{TOML}[[steps]]\nname = "a"\nartifacts = ["/app/out"]\n[steps.verifier]\nenvironment_mode = "separate"\n'
    '[[steps]]\nname = "b"\n'
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An image with a working folder that everybody may write to."""
    folder = tmp_path_factory.mktemp("base")
    with tarfile.open(folder / "root.tar", "w") as archive:
        app = tarfile.TarInfo("app")
        app.type, app.mode, app.uid = tarfile.DIRTYPE, 0o755, 65534
        archive.addfile(app)
    (folder / "Dockerfile").write_text("FROM agentgym-test/python\nADD root.tar /\n")
    subprocess.run(["docker", "build", "--tag", "agentgym-test/app", folder], check=True, stdout=subprocess.DEVNULL)


def write(root: Path, names: Sequence[str]) -> None:
    for name in names:
        for path, text in {"environment/Dockerfile": DOCKERFILE, **FOLDERS[name]}.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)


def genuine(tasks: Path, agent: str, jobs: Path) -> dict[str, float]:
    """Return the reward of each folder by `harbor run`."""
    program = Path(sys.executable).with_name("harbor")
    command = [program, "run", "-p", tasks, "-a", agent, "-o", jobs, "-n", "3", "--yes", "--quiet"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1500)
    rewards = {}
    for path in jobs.rglob("result.json"):
        result = json.loads(path.read_text())
        if "trial_name" in result:
            assert result["exception_info"] is None, result["exception_info"]
            rewards[result["task_name"]] = one_number(result["verifier_result"]["rewards"], "min")
    return rewards


def ours(tasks: Path, name: str, agent: str) -> float:
    env: Any = agentgym.make(
        "rlvr/Harbor-v0", path=str(tasks / name), network="none", backend_options={"daemon": os.environ["DOCKER_HOST"]}
    )
    env.reset(seed=0)
    done = False
    while not done:
        action = next(env.oracle()) if agent == "oracle" else spell("submit")
        _, _, terminated, truncated, info = env.step(action)
        done = terminated or truncated
    env.close()
    assert info["success"] is not None, info
    return info["metrics"]["reward"]


SAMPLE = ("users", "separate-published", "steps-shared-files")


@pytest.mark.parametrize("names", [SAMPLE, pytest.param(tuple(FOLDERS), marks=pytest.mark.slow)], ids=["sample", "all"])
@pytest.mark.parametrize("agent", ["oracle", "nop"])
def test_rewards_are_the_same(agent, names, base, tmp_path):
    write(tmp_path / "tasks", names)
    theirs = genuine(tmp_path / "tasks", agent, tmp_path / "jobs")
    assert {name: ours(tmp_path / "tasks", name, agent) for name in names} == pytest.approx(theirs)
    assert len(theirs) == len(names)
    if agent == "oracle":
        assert theirs["users"] == theirs["separate-published"] == theirs["steps-shared-files"] == 1
