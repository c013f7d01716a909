"""What an environment leans on is looked for when it is made, and said in one sentence: never at the first step."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import gymnasium as gym
import pytest

import agentgym
from agentgym import registry
from agentgym.cli import doctor
from agentgym.cli import main as cli
from agentgym.errors import BadConfig, MissingExtra
from agentgym.sandbox import protocol
from agentgym.sandbox.bubblewrap import sandbox as bubblewrap

PACKAGES = (
    *("pyseccomp", "pytest", "_pytest", "minigrid", "textworld", "scienceworld", "playwright", "waitress", "miniwob"),
    *("reasoning_gym", "docker", "swebench", "math_verify"),
)
SAYS = {  # with all of these and every program hidden
    "rlvr/BabyAI-v0": "minigrid package: ",
    "rlvr/Code-v0": "needs bubblewrap: apt install",
    "rlvr/CodeDialogue-v0": "needs bubblewrap: apt install",
    "rlvr/Harbor-v0": "needs the docker package: ",
    "rlvr/Math-v0": "needs bubblewrap: apt install",
    "rlvr/MiniWoB-v0": "needs a browser's driver and a server: ",
    "rlvr/ReasoningGym-v0": "reasoning-gym package: ",
    "rlvr/SWE-v0": "needs bubblewrap: apt install",
    "rlvr/SWEBench-v0": "needs the docker package: ",
    "rlvr/ScienceWorld-v0": "scienceworld package: ",
    "rlvr/Terminal-v0": "needs bubblewrap: apt install",
    "rlvr/TextWorld-v0": "textworld package: ",
    "rlvr/Web-v0": "needs a browser's driver and a server: ",
}
DATA = {"rlvr/ALFWorld-v0", "rlvr/WebShop-v0"}
"""Environments over a user's own files, which a path has to name."""
HIDING = """
import json, os, sys
os.environ["PATH"] = os.environ["AGENTGYM_CHROMIUM"] = ""
sys.modules.update(dict.fromkeys({packages!r}))
import agentgym
from agentgym import registry
told = {{}}
for id in sorted(registry.ENVS):
    try:
        agentgym.make(id).close()
        told[id] = ["", "", registry.missing(id)]
    except Exception as error:
        told[id] = [type(error).__name__, str(error), registry.missing(id)]
print(json.dumps(told))
"""


def test_with_everything_hidden_each_environment_says_its_need_or_works():
    done = subprocess.run(
        [sys.executable, "-c", HIDING.format(packages=PACKAGES)], capture_output=True, text=True, check=True
    )
    reports = json.loads(done.stdout)
    assert set(reports) == set(registry.ENVS)
    for id, (kind, message, missing) in reports.items():
        if id in SAYS:
            assert kind == "MissingExtra" and SAYS[id] in message and missing == message, (id, kind, message, missing)
        elif id in DATA:
            assert kind == "BadConfig" and not missing, (id, kind, message)
        else:
            assert (kind, missing) == ("", ""), (id, kind, message)


@pytest.mark.parametrize("id", ["rlvr/SWE-v0", "rlvr/Code-v0", "rlvr/Terminal-v0", "rlvr/Math-v0"])
def test_without_a_filter_of_system_calls_nothing_that_runs_programs_is_made(monkeypatch, id):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    with pytest.raises(MissingExtra, match="needs pyseccomp: "):
        gym.make(id)


def test_where_bubblewrap_is_refused_nothing_that_runs_programs_is_made():
    """As in a container without user namespaces: found out when the environment is made, not a fault of each episode."""
    code = "import gymnasium, agentgym; gymnasium.make('rlvr/Terminal-v0')"
    with tempfile.TemporaryDirectory() as name:
        bwrap = Path(name, "bwrap")
        bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        for path in (bwrap, bwrap.parent):  # which root looks at as nobody
            path.chmod(0o755)
        environment = {**os.environ, "PATH": f"{name}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stderr.splitlines()[-1] == (
        "agentgym.errors.MissingExtra: Terminal cannot run programs here: bubblewrap cannot create a sandbox here, which is "
        "common in containers (bwrap: No permissions to create new namespace): see docs/guides/sandbox.md"
    )


def test_tests_need_pytest(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(MissingExtra, match="package 'pytest': pip install pytest"):
        gym.make("rlvr/SWE-v0")


def test_an_evaluation_without_a_sandbox_is_an_error_and_no_score(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    code = cli(["eval", "rlvr/SWE-v0", "--policy", "oracle", "--tasks", "2", "--out", str(tmp_path / "run")])
    captured = capsys.readouterr()
    assert code and "needs pyseccomp" in captured.out + captured.err and "0.0" not in captured.out


def test_libraries_that_programs_should_find_loaded_are_looked_for():
    with pytest.raises(MissingExtra, match="package 'no_such_library': pip install no_such_library"):
        gym.make("rlvr/Math-v0", families=("linear",), packages="no_such_library")


def test_the_doctor_says_the_same_sentence(monkeypatch):
    assert not bubblewrap.missing(), "this test needs a machine that lacks nothing"
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(MissingExtra) as error:
        gym.make("rlvr/BabyAI-v0")
    assert f"rlvr/BabyAI-v0: {error.value}" in doctor.without()


def test_an_environment_of_ones_own_says_what_it_needs():
    class Leaning(agentgym.TextEnv):
        def requires(self):
            raise MissingExtra("Leaning needs a wall: build one")

    with pytest.raises(MissingExtra, match="needs a wall"):
        Leaning()


@pytest.mark.parametrize("tool", ["view", "edit"])
def test_a_sandbox_that_fails_in_the_course_of_an_episode_is_not_the_policys_mistake(monkeypatch, tool):
    env = agentgym.make("rlvr/SWE-v0")
    env.reset(seed=0)

    def fail(*_, **__):
        raise BadConfig("the sandbox is gone")

    monkeypatch.setattr(type(env.unwrapped), "_take", fail)
    arguments = {"path": "README.md"} if tool == "view" else {"path": "a.py", "old": "", "new": "x"}
    with pytest.raises(BadConfig, match="is gone"):
        env.step(json.dumps({"name": tool, "arguments": arguments}))


def test_paths_that_are_none_are_the_policys_mistake():
    env = agentgym.make("rlvr/SWE-v0")
    env.reset(seed=0)
    for path in ("a\0b", "\ud800"):
        *_, info = env.step(json.dumps({"name": "view", "arguments": {"path": path}}))
        assert info["valid"] is False
    env.close()


def test_unknown_backends_are_named():
    with pytest.raises(LookupError, match="bubblewrap"):
        protocol.missing("bubblewrp")
