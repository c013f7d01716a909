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
from folders import DOCKERFILE, FOLDERS

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.terminal.harbor.rewards import one_number


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
    (folder / "tests").mkdir()
    (folder / "tests" / "test.sh").write_text(FOLDERS["shared"]["tests/test.sh"])
    (folder / "Dockerfile").write_text("FROM agentgym-test/app\nCOPY tests /tests\n")
    subprocess.run(["docker", "build", "--tag", "agentgym-test/verifier", folder], check=True, stdout=subprocess.DEVNULL)


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


SAMPLE = ("users", "separate-published", "steps-shared-files", "compose-artifacts", "mcp-stdio")


@pytest.mark.parametrize("names", [SAMPLE, pytest.param(tuple(FOLDERS), marks=pytest.mark.slow)], ids=["sample", "all"])
@pytest.mark.parametrize("agent", ["oracle", "nop"])
def test_rewards_are_the_same(agent, names, base, tmp_path):
    write(tmp_path / "tasks", names)
    theirs = genuine(tmp_path / "tasks", agent, tmp_path / "jobs")
    assert {name: ours(tmp_path / "tasks", name, agent) for name in names} == pytest.approx(theirs)
    assert len(theirs) == len(names)
    if agent == "oracle":
        assert theirs["users"] == theirs["separate-published"] == theirs["steps-shared-files"] == 1


def test_the_folders_cover_the_format():
    assert len(FOLDERS) == 40
    for name, files in FOLDERS.items():
        assert 'network_mode = "public"' in files["task.toml"] or "allow_internet = true" in files["task.toml"], name
