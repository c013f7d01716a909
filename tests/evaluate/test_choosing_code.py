"""Choosing among programs: those that compute the same on generated inputs agree, whatever they look like."""

import numpy as np
import pytest

import agentgym
from agentgym import Episode, Turn
from agentgym.core.actions import spell
from agentgym.envs.code.variants import variants
from agentgym.evaluate.choosing import votes
from agentgym.sandbox.bubblewrap.sandbox import missing

ID = "rlvr/Code-v0"


def test_variants_have_the_form_of_the_inputs_and_depend_on_the_seed_alone():
    inputs = [[3, "abc", [1, -2, 5], [[1, 2], [3, 4]], True, {"d": [["k", 5]]}]]
    found = variants(inputs, "function", np.random.default_rng(0), 50)
    assert found == variants(inputs, "function", np.random.default_rng(0), 50)
    assert len({repr(each) for each in found}) > 40
    for number, text, numbers, rows, flag, rest in found:
        assert 1 <= number <= 6 and sorted(text) == ["a", "b", "c"] and flag is True and 1 <= rest["d"][0][1] <= 10
        assert 1 <= len(numbers) <= 3 and all(-4 <= each <= 10 and each for each in numbers)
        assert [len(row) for row in rows] == [2, 2]


def test_a_programs_first_line_stays():
    for text in variants(["2\n10 -20\nx 7\n"], "program", np.random.default_rng(1), 20):
        first, second, third, _ = text.split("\n")
        a, b = map(int, second.split())
        assert first == "2" and 1 <= a <= 20 and -40 <= b <= -1 and third[0] == "x"
    assert {text.count("\n") for text in variants(["5\n"], "program", np.random.default_rng(1), 9)} == {1}


def attempt(env, task, number, code):
    env.reset(seed=0, options={"task": task})
    info = env.step(spell("submit", code))[4]
    turn = Turn("", action=spell("submit", code))
    return Episode(ID, task.id, "g", 0, number, turns=[turn], success=info["success"])


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_programs_vote_by_what_they_compute():
    env = agentgym.make(ID)
    task = env.tasks(1)[0]
    right, wrong = task.data["reference"], task.data["wrong"][0]
    other = right.replace("\n", "\n    unused = 1\n", 1)  # computes the same
    broken = "def other():\n    pass\n"
    env.reset(seed=0, options={"task": task})
    plain = env.unwrapped
    assert plain.ballot(right) == plain.ballot(other) is not None
    assert plain.ballot(wrong) != plain.ballot(right) and plain.ballot(broken) is None
    failing = right.rpartition("return ")[0] + "return 12345\n"
    assert plain.ballot(failing) is None  # it fails the public tests
    episodes = [attempt(env, task, number, code) for number, code in enumerate((wrong, failing, right, other))]
    found = votes(ID, [({}, [task])], episodes)
    assert found is not None and (found["one"], found["majority"], found["agreement"]) == (0.5, 1.0, 0.5)
    env.close()
