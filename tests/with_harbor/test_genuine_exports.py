"""Folders that `agentgym export --as harbor` writes, played by harbor 0.26.0 itself: solved, left alone, and by shortcuts.

The images' public base is made here of this machine's packages and gets the public name; the folders are unchanged.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_genuine_folders import ours

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from harbor_exports import BASE, ENVS, exported, play_all, prepare, rows_of

from agentgym.integrations.harbor_tasks.folder import ExportSpec, write
from agentgym.integrations.harbor_tasks.kinds import SANDBOX


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Folder of the exports, with the public base; one named by AGENTGYM_EXPORTS stays, and an interrupted play goes on."""
    folder = Path(os.environ.get("AGENTGYM_EXPORTS") or tmp_path_factory.mktemp("exports"))
    prepare(folder)
    return folder


@pytest.mark.parametrize(
    ("names", "number"), [(("sql", "household"), 1), pytest.param(ENVS, 20, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_solutions_win_and_nothing_else(names, number, out):
    play_all(out, names, number, 1)
    rows = rows_of(out)
    assert [row for row in rows if row["wrong"]] == []
    paid = [(row["env"], row["policy"], row["rewarded"]) for row in rows]
    for name in names:
        assert paid.count((name, "oracle", 1.0)) == paid.count((name, "nop", 0.0)) == number
        assert [reward for env, policy, reward in paid if env == name and policy not in ("oracle", "nop")]
    for name in names:
        for folder in exported(name, number, out / name):
            for agent, reward in (("oracle", 1), ("nop", 0)):
                assert ours(folder.parent, folder.name, agent) == reward


def test_programs_of_the_verifier_reach_no_answer(out, tmp_path, monkeypatch):
    """Code that is judged runs as a user of its own: the task, the package and the reward are closed to it."""
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (folder,) = write(ExportSpec("code", base=BASE), 1, tmp_path / "code")
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
