"""The suite of every backend through Harbor's Docker, and the episodes of our docker backend played there again."""

# ruff: noqa: F401, F811

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("harbor", reason="harbor is not installed: ./dev test-harbor")
import test_sandboxes
from conftest import FOLDER, IMAGE
from nasty import PROGRAMS, Nasty
from test_sandboxes import (
    LIMITS,
    facts,
    test_a_batch_is_one_program_after_another,
    test_files,
    test_nothing_of_the_caller_and_the_same_every_time,
    test_snapshot_and_restore,
    test_streams_input_and_codes,
)

import agentgym
from agentgym.envs.swe.grading import grading
from agentgym.errors import BadConfig
from agentgym.sandbox import sandbox
from agentgym.sandbox.protocol import Program

test_sandboxes.BACKENDS["harbor"] = IMAGE
DAEMON = {"daemon": f"unix://{FOLDER}/daemon.sock"}
LOST = {
    "fill the folder": {},
    "fill /tmp": {},
    "fill /dev/shm": {},
    "50,000 files": {},
    "memory of a tree": {},
}
"""Harbor bounds no folder in bytes or files; docs/guides/sandbox.md says so."""
SOME = [nasty for nasty in PROGRAMS if nasty.name not in LOST]


@pytest.fixture(scope="module")
def box() -> Iterator[Any]:
    made: Any = sandbox("harbor", limits=LIMITS, **IMAGE)
    made.name = "harbor"
    yield made
    made.close()


@pytest.mark.parametrize("nasty", SOME, ids=lambda nasty: nasty.name)
def test_nasty(box: Any, nasty: Nasty, facts: dict[str, Any]) -> None:
    test_sandboxes.test_nasty(box, nasty, facts)


def test_what_harbor_has_not_is_refused_with_what_to_do(box: Any) -> None:
    with pytest.raises(BadConfig, match="take the docker backend"):
        box.kernel()
    with pytest.raises(BadConfig, match="exactly one of them"):
        sandbox("harbor")
    with pytest.raises(agentgym.UnknownName, match="Did you mean 'docker'"):
        sandbox("harbor", **{**IMAGE, "provider": "doker"})


def test_nothing_is_left_of_it() -> None:
    made: Any = sandbox("harbor", **IMAGE)
    name = made._environment.session_id
    listed = ["docker", "ps", "--all", "--quiet", "--filter", f"name={name}"]
    assert subprocess.run(listed, capture_output=True, text=True, check=True).stdout.strip()
    made.close()
    assert not subprocess.run(listed, capture_output=True, text=True, check=True).stdout.strip()


def played(env: Any, task: int | str, choose: Any) -> list[Any]:
    """Return what an episode shows and pays, action by action."""
    seen = [env.reset(seed=0, options={"task": task})[0]]
    for action in choose(env):
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append([action, observation, reward, terminated, truncated, info["success"], info["valid"]])
        if terminated or truncated:
            break
    env.close()
    return seen


def lost(env: Any) -> list[str]:
    bash = [
        json.dumps({"name": "bash", "arguments": {"command": text}}) for text in ("ls -la | wc -l; id -u", "echo $((6 * 7))")
    ]
    return [*bash, "no call", "submit[]"]


@pytest.mark.parametrize("task", [0, 1, "train/1/10"])  # the last one commits, as nobody that git was told of
def test_terminal_is_the_same_there(task: int | str, tools: dict[str, Any]) -> None:
    for choose in (lambda env: env.oracle(), lost):
        ours = played(agentgym.make("terminal", backend="docker", backend_options={**tools, **DAEMON}), task, choose)
        assert ours[-1][5] is (choose is not lost)
        assert played(agentgym.make("terminal", backend="harbor", backend_options=tools), task, choose) == ours


def test_code_is_the_same_there(tools: dict[str, Any]) -> None:
    for choose in (lambda env: env.oracle(), lambda env: ["submit[def f(): pass]"]):
        ours = played(agentgym.make("code", backend="docker", backend_options={**tools, **DAEMON}), 0, choose)
        assert played(agentgym.make("code", backend="harbor", backend_options=tools), 0, choose) == ours


def test_a_run_of_code_is_a_program_of_its_own_there(tools: dict[str, Any]) -> None:
    env = agentgym.make("code", backend="harbor", backend_options=tools)
    env.reset(seed=0, options={"task": 0})
    assert "variables do not" in env.tools["run"].description
    assert env.step("run[x = 6; open('kept', 'w').write('7')]")[4]["valid"] is True
    assert env.step("run[print(6 * int(open('kept').read()))]")[0] == "42"
    assert "NameError" in env.step("run[print(x)]")[0]
    state = env.snapshot()
    env.step("run[open('kept', 'w').write('8')]")
    env.restore(state)
    assert env.step("run[print(open('kept').read())]")[0] == "7"
    env.close()
    with pytest.raises(BadConfig, match="no Python that keeps its variables"):
        agentgym.make("math", backend="harbor", backend_options=tools)


def test_a_turn_is_one_call(tools: dict[str, Any]) -> None:
    """Of Terminal: the command, the look through the folder and its packing. Of Code: the program and the packing."""
    turns = {
        "terminal": ["bash[ls]", "bash[echo 1 > new; mkdir a]", "bash[cat new; cd a]", "bash[pwd]"],
        "code": ["run[open('kept', 'w').write('7')]", "run[print(open('kept').read())]"],
    }
    for name, actions in turns.items():
        env: Any = agentgym.make(name, backend="harbor", backend_options=tools)
        env.reset(seed=0, options={"task": 0})
        env.step(actions[0])  # for which the container is made
        calls, ask = list[str](), env.sandbox._ask
        env.sandbox._ask = lambda command, seconds, calls=calls, ask=ask: (calls.append(command), ask(command, seconds))[1]
        seen = [env.step(action)[0] for action in actions]
        assert len(calls) == len(actions), name
        assert seen[-1].endswith("/a" if name == "terminal" else "7")
        if name == "terminal":
            from agentgym.envs.terminal.tree import unpack

            assert any(path.endswith("/new") for path in unpack(env.folder))
        env.close()


def test_programs_too_long_for_one_call_are_called_one_by_one(box: Any) -> None:
    words = "x" * 60_000
    results = box.batch([Program(f"echo {words}"), Program(code=f"print('{words}')")])
    assert [result.stdout.decode().strip() for result in results] == [words, words]


def unrepaired(env: Any) -> list[str]:
    return ["bash[for file in */*.py src/*/*.py; do echo '# seen' >> $file; done]", "submit[]"]


@pytest.mark.parametrize(("choose", "success"), [(lambda env: env.oracle(), True), (unrepaired, False)])
def test_swe_is_the_same_there(choose: Any, success: bool, tools: dict[str, Any]) -> None:
    grading._known.clear()
    options: dict[str, Any] = {"backend_options": tools, "grading": "one-process"}
    theirs = played(agentgym.make("swe", backend="harbor", **options), 0, choose)
    grading._known.clear()  # or what was graded there would not be graded again
    options["backend_options"] = {**tools, **DAEMON}
    assert theirs == played(agentgym.make("swe", backend="docker", **options), 0, choose)
    assert theirs[-1][5] is success


def test_swe_in_two_processes_is_refused_there(tools: dict[str, Any]) -> None:
    with pytest.raises(BadConfig, match="pass grading='one-process'"):
        agentgym.make("swe", backend="harbor", backend_options=tools)
