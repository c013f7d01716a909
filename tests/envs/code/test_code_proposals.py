"""Puzzles about a function and their proposals: by hand, in the sandbox, and proposals that are worth nothing."""

import json
import time

import pytest

import agentgym
import agentgym.envs.code.proposer  # registers both
from agentgym import Task
from agentgym.envs.code.proposer import own
from agentgym.sandbox.bubblewrap.sandbox import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "")
EXAMPLE = "def f(x):\n    return x\nf(1)"


@pytest.fixture(scope="module")
def proposer():
    env = agentgym.make("rlvr/CodeProposer-v0", seconds=1.0)
    yield env
    env.close()


@pytest.fixture(scope="module")
def solver():
    env = agentgym.make("rlvr/CodePuzzle-v0", seconds=1.0)
    yield env
    env.close()


def propose(env, code, kind="deduction"):
    env.reset(seed=0, options={"task": Task("Propose.", {"type": kind, "examples": [EXAMPLE]}, "propose/0/0", "train")})
    observation, reward, terminated, _, info = env.step(json.dumps({"name": "propose", "arguments": {"code": code}}))
    assert terminated and reward == float(info["success"])
    return env.proposed(observation), observation


def test_a_proposal_by_hand(proposer):
    data, _ = propose(proposer, "import math\n\ndef f(x, y=1):\n    return math.factorial(x) + y\n\nf(4, 2)\n")
    assert data == {
        "type": "deduction", "program": "import math\n\ndef f(x, y=1):\n    return math.factorial(x) + y", "entry": "f",
        "inputs": [[4, 2]], "outputs": [26],
    }  # fmt: skip


F = "def f(x):\n    return x + 1\n"
HOSTILE = {
    "unsolvable: no end": "def f(x):\n    while True:\n        pass\nf(1)",
    "unsolvable: fails": "def f(x):\n    return 1 / 0\nf(1)",
    "not the same twice": "def f(x):\n    return repr(f)[-9:]\nf(1)",
    "gigantic result": "def f(x):\n    return 'a' * 10**5\nf(1)",
    "gigantic memory": "def f(x):\n    return len([0] * 10**10)\nf(1)",
    "gigantic text": F + "#" * 3000 + "\nf(1)",
    "gigantic nesting": "def f(x):\n    return x\nf(" + "[" * 900 + "]" * 900 + ")",
    "recursion": "def f(x):\n    return f(x)\nf(1)",
    "module": "import os\ndef f(x):\n    return os.getpid()\nf(1)",
    "import by name": "def f(x):\n    return __import__('time').time()\nf(1)",
    "way around": "def f(x):\n    return ().__class__.__base__.__subclasses__()\nf(1)",
    "prints a result": "print('[0, 5, null]')\ndef f(x):\n    return 1\nf(1)",
    "arguments that run": F + "f(f(1))",
    "no call": F,
    "two calls": F + "f(1)\nf(2)",
    "another name": "def g(x):\n    return x\ng(1)",
    "no data": "def f(x):\n    return f\nf(1)",
    "the example": EXAMPLE,
    "no Python": "I propose: f(1)",
    "zero bytes": F + "f('\x00')\x00",
    "verdict": "The proposal is valid.\n{\"type\": \"deduction\"}",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_proposals_are_not_accepted_and_take_no_time(proposer, name):
    started = time.perf_counter()
    data, observation = propose(proposer, HOSTILE[name])
    assert data is None and observation.startswith("The proposal is not valid: ")
    assert proposer.success is False and time.perf_counter() - started < 60


def test_an_induction_has_several_calls_that_differ(proposer):
    calls = "\n".join(f"f({n})" for n in range(4))
    assert propose(proposer, F + calls, "induction")[0]["outputs"] == [1, 2, 3, 4]
    for bad in (F + "f(1)", F + "f(1)\n" * 4, "def f(x):\n    return 3\n" + calls):
        assert propose(proposer, bad, "induction")[0] is None


@pytest.mark.parametrize("kind", ["deduction", "abduction", "induction"])
def test_what_is_proposed_can_be_solved_and_shows_no_more_than_it_should(proposer, solver, kind):
    data, _ = propose(proposer, own(kind, "a"), kind)
    task = Task("Solve the puzzle.", data, "proposed/0/0", "train")
    solver.reset(seed=0, options={"task": task})
    for action in solver.oracle():
        solver.step(action)
    assert solver.success is True
    observation, _ = solver.reset(seed=0, options={"task": task})
    assert ("return x *" in observation) is (kind != "induction")
    wrong = "def f(x):\n    return 0" if kind == "induction" else "-1"
    assert solver.step(json.dumps({"name": "answer", "arguments": {"text": wrong}}))[4]["success"] is False


@pytest.mark.parametrize("text", ["__import__('os')", "f", "lambda: 1", "[" * 500, "1;2", "", "9**9**9", "\ud800"])
def test_answers_are_literals(solver, text):
    data = {"type": "abduction", "program": F.strip(), "entry": "f", "inputs": [[1]], "outputs": [2]}
    solver.reset(seed=0, options={"task": Task("Solve.", data, "proposed/0/0", "train")})
    assert solver.step(json.dumps({"name": "answer", "arguments": {"text": text}}))[4]["valid"] is False
    assert solver.step("answer[1]")[4]["success"] is True


def test_any_arguments_that_give_the_result_are_right(solver):
    data = {
        "type": "abduction",
        "program": "def f(x, y):\n    return x + y",
        "entry": "f",
        "inputs": [[1, 4]],
        "outputs": [5],
    }
    solver.reset(seed=0, options={"task": Task("Solve.", data, "proposed/0/0", "train")})
    assert "returns 5" in solver.observation and "f(1, 4)" not in solver.observation
    assert solver.step("answer[3, 2]")[4]["success"] is True


def test_generated_puzzles_are_solved_by_their_oracle(solver):
    kinds = set()
    for task in solver.tasks(6):
        solver.reset(seed=0, options={"task": task})
        kinds.add(task.data["type"])
        for action in solver.oracle():
            solver.step(action)
        assert solver.success is True, task
    assert len(kinds) >= 2 and not {t.id for t in solver.tasks(4, "train")} & {t.id for t in solver.tasks(4, "test")}


def test_the_expert_proposes_what_is_accepted(proposer):
    for task in proposer.tasks(3):
        proposer.reset(seed=0, options={"task": task})
        for action in proposer.expert():
            proposer.step(action)
        assert proposer.success is True
