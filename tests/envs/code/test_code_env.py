"""The environment of programs: what its tools answer, what is paid, and who gets nothing."""

import json

import pytest

import agentgym
from agentgym.core.tasks import Task
from agentgym.envs.code import Code
from agentgym.envs.code.text import cut, defines, run_text, syntax_error
from agentgym.sandbox.protocol import Result


def call(name: str, code: str) -> str:
    return json.dumps({"name": name, "arguments": {"code": code}})


DATA = {
    "family": "by hand",
    "statement": "Write a function `half(n)`. Return n divided by 2 as a float.",
    "kind": "function",
    "entry": "half",
    "public": [[[4], {"f": (2.0).hex()}], [[3], {"f": (1.5).hex()}]],
    "hidden": [
        [[7], {"f": (3.5).hex()}],
        [[-2], {"f": (-1.0).hex()}],
        [[0], {"f": (0.0).hex()}],
        [[10], {"f": (5.0).hex()}],
    ],
    "compare": "exact",
    "tolerance": 0.0,
    "reference": "def half(n): return n / 2",
}
TASK = Task(DATA["statement"], DATA, "by hand", "train")


@pytest.fixture(scope="module")
def environment():
    env = Code(horizon=40)
    yield env
    env.close()


@pytest.fixture
def begun(environment):
    environment.reset(seed=0, options={"task": TASK})
    return environment


def test_the_first_observation_shows_statement_and_examples(environment):
    observation, info = environment.reset(seed=0, options={"task": TASK})
    assert DATA["statement"] in observation and "half(4)  # gives 2.0" in observation
    assert "3.5" not in observation and info["metrics"] == {"passed": 0.0, "public": 0.0}


def test_run_keeps_variables_and_tells_what_went_wrong(begun):
    assert begun.step(call("run", "x = 20\nprint('set')"))[0] == "set"
    assert begun.step("run[x + 1]")[0] == "21"
    assert begun.step("run[x = 3]")[0] == "(no output)"
    wrong = begun.step(call("run", "def f():\n    return x / 0\nf()"))
    assert "line 2, in f" in wrong[0] and "ZeroDivisionError: division by zero" in wrong[0] and wrong[4]["valid"]
    assert begun.step(call("run", "print('a' * 9000 + 'b' * 9000)"))[0] == "a" * 2000 + " … 14000 characters … " + "b" * 2000
    lost = begun.step(call("run", "import os; os._exit(3)"))[0]
    assert lost == "(the Python process exited; variables are lost)"
    assert "NameError" in begun.step("run[x]")[0]


def test_a_syntax_error_names_its_line_and_no_file_of_this_machine(begun):
    observation = begun.step(call("run", "def f(:\n    pass"))[0]
    assert observation.splitlines()[0].strip() == 'File "<cell>", line 1' and "SyntaxError" in observation
    observation = begun.step(call("run", "def f():\n    pass\nreturn 1"))[0]  # seen by the compiler alone
    assert "'return' outside function" in observation and "agentgym" not in observation and "ast.py" not in observation


def test_test_tries_the_code_alone_and_shows_what_failed(begun):
    observation, *_, info = begun.step("test[]")
    assert not info["valid"] and "code that defines half" in observation
    begun.step(call("run", "import math"))
    begun.step(call("run", "def half(n): return math.floor(n / 2)"))
    observation, *_, info = begun.step("test[]")
    assert "0 of 2 public tests pass." in observation and "NameError: name 'math' is not defined (line 1)" in observation
    begun.step(call("run", "def half(n): return n / 2 if n > 3 else n // 2"))
    observation, *_, info = begun.step("test[]")
    assert observation == "1 of 2 public tests pass.\nhalf(3)\n  expected: 1.5\n  got:      1"
    assert info["metrics"] == {"passed": 0.0, "public": 0.5}


def test_submissions(begun):
    start = begun.snapshot()
    observation, reward, terminated, _, info = begun.step(call("submit", "def half(n: return n / 2"))
    assert not info["valid"] and not terminated and "SyntaxError" in observation and "Nothing was submitted" in observation
    assert not begun.step(call("submit", "def hlaf(n): return n / 2"))[4]["valid"]
    assert not begun.step("submit[]")[4]["valid"]
    observation, reward, terminated, _, info = begun.step(call("submit", "def half(n): return n // 2"))
    assert (observation, reward, terminated) == ("0 of 4 hidden tests pass.", 0.0, True)  # integers are no floats
    begun.restore(start)
    observation, reward, terminated, _, info = begun.step(call("submit", "half = lambda n: abs(n) / 2"))
    assert (observation, reward, info["metrics"]["passed"]) == ("3 of 4 hidden tests pass.", 0.0, 0.75)
    begun.restore(start)
    assert begun.step(call("submit", DATA["reference"]))[:3] == ("All 4 hidden tests pass.", 1.0, True)


def test_the_share_passed_is_paid_only_with_a_weight():
    env = Code(shaping={"passed": 0.2})
    env.reset(seed=0, options={"task": TASK})
    _, reward, _, _, info = env.step(call("submit", "half = lambda n: abs(n) / 2"))
    assert info["rewards"] == {"passed": pytest.approx(0.15)} and reward == pytest.approx(0.15)
    env.reset(seed=0, options={"task": TASK})
    assert env.step(call("submit", DATA["reference"]))[1] == pytest.approx(1.2)
    env.close()


def test_state_is_what_was_run(begun):
    start = begun.state_key()
    begun.step("run[1 +]")  # nothing was run
    assert begun.state_key() == start
    begun.step("run[y = 1]")
    after = begun.state_key()
    assert after != start
    begun.reset(seed=5, options={"task": TASK})
    begun.step("run[y = 1]")
    assert begun.state_key() == after


def test_what_defines_a_name():
    assert defines("def f(): pass", "f") and defines("class f: pass", "f") and defines("f = len", "f")
    assert defines("from math import floor as f", "f") and defines("if 1:\n    def f(): pass", "f")
    assert not defines("f(3)", "f") and not defines("x = 'def f(): pass'", "f")


def test_code_that_no_parser_bears_is_told_and_nothing_else():
    for code in ("(" * 90_000, "-" * 90_000 + "1", "a" + ".b" * 45_000, "1+" * 45_000 + "1", "\0", "lambda:" * 10_000 + "1"):
        assert syntax_error(code), code[:20]
        assert len(syntax_error(code)) < 5000
        assert not defines(code, "f")
    assert syntax_error("x = '\\d'") == ""


def test_cut():
    assert cut("abc", 3) == "abc" and cut("abcdefgh", 4) == "ab … 4 characters … gh"


def test_oracle_and_expert_solve_a_sample_of_all_families():
    for who, difficulty in (("oracle", 0), ("expert", 1)):
        env = agentgym.make("rlvr/Code-v0", difficulty=difficulty)
        for task in env.tasks(10):
            env.reset(seed=0, options={"task": task})
            for _ in range(3):
                observation, reward, terminated, *_ = env.step(next(iter(getattr(env, who)())))
                if terminated:
                    break
            assert reward == 1.0, (task.id, observation)
        env.close()


def test_the_expert_submits_in_its_last_turn():
    for horizon, tools in ((1, ["submit"]), (2, ["run", "submit"]), (3, ["run", "test", "submit"])):
        env = agentgym.make("rlvr/Code-v0", difficulty=0, families=("bits",), horizon=horizon)
        env.reset(seed=0)
        played = []
        for action in env.expert():
            played.append(action.partition("[")[0])
            *_, info = env.step(action)
            if info["success"] is not None:
                break
        env.close()
        assert played == tools and info["success"] is True


def test_shortcut_policies_have_nothing_at_the_lowest_difficulty():
    env = agentgym.make("rlvr/Code-v0", difficulty=0, families=("lists", "strings", "bits", "dictionaries"))
    for shortcut in env.shortcuts().values():
        for task in env.tasks(6):
            observation, _ = env.reset(seed=0, options={"task": task})
            observation, reward, terminated, *_ = env.step(shortcut([observation]))
            assert terminated and reward == 0.0, (task.id, observation)
    env.close()


def test_families_can_be_chosen():
    env = Code(families=("bits", "graphs"))
    assert {task.data["family"] for task in env.tasks(12)} == {"bits", "graphs"}


@pytest.mark.parametrize("took", [2.0, 2.51, 14.9])
def test_a_run_that_is_stopped_says_the_limit_and_not_how_long_this_machine_took(took):
    assert run_text(Result(-2, b"1\n", b"", "timeout", took), 2.5) == "1\n(stopped: still running after 2.5 s)"
