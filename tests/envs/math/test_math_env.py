"""The environment of mathematics: its tools, what is paid, and who solves it."""

import pytest

from agentgym import make
from agentgym.contract.env_under_test import EnvUnderTest, first
from agentgym.contract.solutions import from_text, success_rate
from agentgym.core.actions import spell
from agentgym.envs.math import Math
from agentgym.errors import BadConfig, UnknownName
from agentgym.rewards import expressions
from agentgym.sandbox.bubblewrap.sandbox import missing

sandboxed = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a sandbox")
needs_math = pytest.mark.skipif(not expressions.installed(), reason="needs the extra `math`")


@pytest.fixture(scope="module")
def env():
    environment = Math(preset="numbers")
    yield environment
    environment.close()


@sandboxed
def test_python_keeps_its_variables_and_shows_what_is_printed(env) -> None:
    env.reset(seed=0)
    assert env.step("python[n = 20]")[0] == "Nothing was printed. Print what you want to see."
    assert env.step("python[2 * n + 2]")[0] == "42"
    assert "ZeroDivisionError" in env.step("<python>print('a')\n1 / 0</python>")[0]
    text, reward, terminated, _, info = env.step("python[print('x' * 100000)]")
    assert len(text) < 4200 and "96000 characters are not shown" in text
    assert (reward, terminated, info["valid"]) == (0.0, False, True)


@sandboxed
def test_what_takes_too_long_is_stopped_and_keeps_what_it_can(env) -> None:
    quick = Math(preset="numbers", seconds=0.5)
    quick.reset(seed=0)
    quick.step("python[n = 7]")
    assert quick.step("python[while True: pass]")[0].endswith("It was stopped after 0.5 seconds.")
    assert quick.step("python[n]")[0] == "7"
    assert quick.step("python[import os; os._exit(1)]")[0] == "It ended Python. Its variables are lost."
    assert "NameError" in quick.step("python[n]")[0]
    quick.close()


@sandboxed
def test_the_answer_is_nowhere_in_the_sandbox(env) -> None:
    env.reset(seed=3)
    for code in ("import agentgym", "print(open('/proc/self/environ').read())", "import os; print(os.listdir('.'))"):
        assert env.task.data["answer"] not in env.step(spell("python", code))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "the answer is empty"),
        ("5 or 6", "'5 or 6' cannot be read as one value. Answer with one number and nothing else"),
        ("\\boxed{5} \\boxed{6}", "cannot be read as one value"),
        ("about 5", "cannot be read as one value"),
        ("2+3", "cannot be read as one value"),
        ("9**9**9**9", "cannot be read as one value"),
        ("9" * 90_000, "cannot be read as one value"),
        ("nan", "cannot be read as one value"),
        ("٥", "cannot be read as one value"),
    ],
)
def test_what_is_no_answer_costs_a_turn_and_says_why(env, text: str, message: str) -> None:
    env.reset(seed=0)
    key = env.state_key()
    observation, reward, terminated, _, info = env.step(spell("answer", text))
    assert message in observation and len(observation) < 300 and info["error"] == observation
    assert (reward, terminated, info["valid"], info["state_key"]) == (0.0, False, False, key)


def test_a_right_answer_pays_and_a_wrong_one_ends(env) -> None:
    env.reset(seed=0)
    right = env.task.data["answer"]
    assert env.step(spell("answer", f"$\\boxed{{{right}}}$"))[1:3] == (1.0, True)
    env.reset(seed=0)
    assert env.step(spell("answer", "-1"))[1:3] == (0.0, True)


def test_attempts_and_their_shaping_are_options_of_the_environment() -> None:
    env = make("rlvr/Math-v0", preset="numbers", attempts=2, shaping={"promptness": 0.5})
    env.reset(seed=0)
    assert "Let's try again: 1 attempt left." in env.step("answer[-1]")[0]
    assert env.step(spell("answer", env.task.data["answer"]))[1] == 1.25


@needs_math
def test_expressions_are_answers_too() -> None:
    env = Math(families="derivative")
    env.reset(seed=0)
    assert "one expression" in env.observation
    echo = env.task.data["problem"].partition("f(x) = ")[2].partition(" with")[0]
    for text in (f"\\frac{{d}}{{dx}}({echo})", f"({echo})'", echo):
        env.reset(seed=0)
        assert env.step(spell("answer", text))[1] == 0.0
    env.reset(seed=0)
    assert env.step(spell("answer", env.task.data["answer"].replace("e^", "exp")))[1] == 1.0


@needs_math
def test_oracle_solves_200_tasks() -> None:
    under_test = EnvUnderTest("Math", Math, {}, plays=200)
    assert success_rate(under_test, lambda env, _, __: first(env.oracle)) == 1.0


def test_shortcuts_do_not_solve_200_tasks() -> None:
    under_test = EnvUnderTest("Math", Math, {"preset": "numbers", "difficulty": 0}, plays=200)
    for name, shortcut in under_test.env.shortcuts().items():
        rate = success_rate(under_test, from_text(shortcut))
        assert rate <= (0.03 if name == "most_frequent" else 0.0), name


def test_without_math_verify_numbers_work_and_expressions_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(expressions, "installed", lambda: False)
    Math(preset="numbers")
    with pytest.raises(ImportError, match=r"remainder and derivative are expressions: .* install .*\[math\]'"):
        Math()


def test_options_are_checked() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'derivative'"):
        Math(families=("derivativ",))
    with pytest.raises(BadConfig, match="give one of them"):
        Math(data="x.jsonl", families=("story",))
    with pytest.raises(BadConfig, match="seconds of Math is 0"):
        Math(seconds=0)


def test_one_package_is_given_by_its_name() -> None:
    assert Math(preset="numbers", packages="sympy").packages == ("sympy",)
