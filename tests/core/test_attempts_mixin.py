"""Several attempts at one answer: what is told, what is paid, and that no failure outscores a solution."""

import pytest

import agentgym
from agentgym.contract import check
from agentgym.core.attempts import Attempts
from agentgym.core.declared import Declarations
from agentgym.errors import BadConfig


class Sum(Attempts):
    """Say the sum of two numbers."""

    settings = Attempts.settings
    declared = Declarations(answers=("sum",))

    def begin(self, task):
        return f"{task.data['a']} plus {task.data['b']}?"

    def act(self, action):
        if not action.strip().isdigit():
            return self.invalid("Say a number.")
        return self.judged(action, action.strip() == str(self.task.data["sum"]))

    def state(self):
        return self.attempts_state()

    def oracle(self):
        yield str(self.task.data["sum"])

    expert = oracle

    @staticmethod
    def generate(rng, difficulty):
        a, b = (int(n) for n in rng.integers(1000, 10**6, 2))
        return agentgym.Task("add", {"a": a, "b": b, "sum": a + b})


def play(env, *answers):
    """Return what each answer brought: text, reward, whether the episode is over, success."""
    env.reset(seed=0, options={"task": 0})
    right = str(env.task.data["sum"])
    steps = [env.step(right if answer == "right" else answer) for answer in answers]
    return [(step[0], step[1], step[2], step[4]["success"]) for step in steps]


def test_one_attempt_is_the_default_and_a_wrong_answer_ends_it():
    assert play(Sum(), "1") == [("The answer is wrong.", 0.0, True, False)]
    assert play(Sum(), "right") == [("The answer is right.", 1.0, True, True)]
    env = Sum()
    env.reset(seed=0)
    assert env.info()["metrics"] == {}


def test_wrong_answers_are_told_and_another_attempt_is_given():
    texts = [text for text, *_ in play(Sum(attempts=3), "1", "2", "3")]
    assert texts == [
        "The answer is wrong. Let's try again: 2 attempts left.",
        "The answer is wrong. Let's try again: 1 attempt left.",
        "The answer is wrong.",
    ]
    assert [end for *_, end, _ in play(Sum(attempts=3), "1", "2", "3")] == [False, False, True]
    assert play(Sum(attempts=3), "1", "2", "right")[-1] == ("The answer is right.", 1.0, True, True)


def test_an_invalid_action_takes_no_attempt():
    assert play(Sum(attempts=2), "nonsense", "1", "nonsense", "right")[-1][3] is True


@pytest.mark.parametrize(("wrong", "paid"), [(0, 1.5), (1, 1.375), (2, 1.25), (3, 1.125)])
def test_shaping_pays_the_attempts_left_over_and_a_failure_nothing(wrong, paid):
    env = Sum(attempts=4, shaping={"promptness": 0.5})
    steps = play(env, *["1"] * wrong, "right")
    assert sum(reward for _, reward, *_ in steps) == paid  # 1 + 0.5 * (4 - wrong) / 4
    assert sum(reward for _, reward, *_ in play(env, *["1"] * 4)) == 0.0


def test_shaping_is_off_by_default_and_refused_where_it_says_nothing():
    assert sum(reward for _, reward, *_ in play(Sum(attempts=4), "1", "right")) == 1.0
    with pytest.raises(BadConfig, match="attempts=2 or more"):
        Sum(shaping={"promptness": 0.5})
    for bad in (0, -1, True, 1.5, "2"):
        with pytest.raises(BadConfig, match="expected an integer from 1"):
            Sum(attempts=bad)


def test_what_was_tried_is_part_of_the_state_in_any_order():
    env, keys = Sum(attempts=5), []
    for answers in (("1", "2"), ("2", "1"), ("1", "1"), ("1",)):
        play(env, *answers)
        keys.append(env.state_key())
    assert keys[0] == keys[1] and len(set(keys)) == 3


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_contract_holds(attempts):
    report = check(Sum(), attempts=attempts)
    assert report.ok, str(report)
    wanted = "skipped" if attempts == 1 else "holds"
    assert next(r.status for r in report.results if r.check == "failure never wins") == wanted
