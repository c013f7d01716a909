"""Generated problems: exact answers found a second way, mistakes told apart, nothing to be guessed."""

import contextlib
import io
import re
from collections import Counter

import pytest

import agentgym
from agentgym.core.seeding import generator
from agentgym.envs.math.expert import family_of, program, statement_of
from agentgym.envs.math.families import FAMILIES, NUMBERS, draw
from agentgym.envs.math.numbers import _QUESTIONS
from agentgym.envs.math.shortcuts import _MOST_FREQUENT
from agentgym.rewards.expressions import installed, verify

KNOWN = {
    "story": ("A shop starts with 12 boxes of 20 apples. It sells 40 apples. It gives away one apple out of every 3, "
              "rounded down to a whole number. It buys 2 boxes of 15 apples. How many apples are there now?", "164"),
    "fractions": ("Work out (1/2 - (3/4)) * (2/3) exactly.", "-1/6"),
    "equation": ("Solve for x: 2(3x - 4) - x + 1 = 3x + 8. What is x?", "15/2"),
    "system": ("Solve the system 2x + y = 11; x - y = 1. What is 3x - 5y?", "-3"),
    "coefficient": ("What is the coefficient of x^1 in the expansion of (2x + 3)(x - 5)?", "-7"),
    "divisors": ("What is the sum of all positive divisors of 28?", "56"),
    "power": ("What is the remainder when 7^3 is divided by 100?", "43"),
    "remainders": ("What is the smallest positive integer that leaves the remainder 2 when divided by 3, "
                   "and 3 when divided by 5?", "8"),
    "digits": ("What is the sum of the decimal digits of 12^3?", "18"),
    "counting": ("In how many different ways can the letters of BANANA be arranged in a row?", "60"),
    "probability": ("A bag contains these balls: 5 red, 3 blue. 2 balls are drawn without replacement. "
                    "What is the probability that exactly 1 of them are red?", "15/28"),
    "sequence": ("A sequence has a(1) = 1, a(2) = 2 and a(n) = a(n-1) + 2 a(n-2) + 1 from n = 3 on. What is a(5)?", "21"),
    "integral": ("What is the integral of 3x^2 - 2x + 1 from x = -1 to x = 2, exactly?", "9"),
    "polygon": ("How many points with integer coordinates lie inside the polygon with vertices "
                "(0, 0), (4, 0), (4, 3), (0, 3), in this order?", "6"),
    "distance": ("What is the square of the distance from the point (1, 2) to the line 3x - 4y + 10 = 0, exactly?", "1"),
    "determinant": ("What is the determinant of the matrix [[1, 2, 3], [0, 4, 5], [1, 0, 6]]?", "22"),
    "trace": ("Let A be the matrix [[1, 2], [3, 4]]. What is the trace of A to the power 3?", "155"),
}  # fmt: skip
"""Statements with answers worked out by hand."""


def run(statement: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program(statement), {})
    return printed.getvalue().strip()


@pytest.mark.parametrize("name", KNOWN)
def test_programs_find_what_is_known_by_hand(name: str) -> None:
    statement, answer = KNOWN[name]
    assert family_of(statement) == name
    assert run(statement) == answer


def test_all_questions_about_divisors_by_brute_force() -> None:
    seen = set()
    for number in range(60):
        problem = draw("divisors", generator("divisors", number), 0)
        (n, *m) = [int(found) for found in re.findall(r"\d+", problem.text) if int(found) > 1]
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        if "multiple" in problem.text:
            brute = next(k for k in range(n, n * m[0] + 1, n) if k % m[0] == 0)
        elif "common factor" in problem.text:
            brute = sum(not any(k % d == 0 for d in divisors[1:]) for k in range(1, n + 1))
        else:
            brute = sum(d for d in divisors if "even" not in problem.text or d % 2 == 0)
        seen.add(next(name for name, text in _QUESTIONS.items() if text[:20] == problem.text[:20]))
        assert str(brute) == problem.answer, problem.text
    assert len(seen) >= 3


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_two_ways_give_one_answer_and_mistakes_are_rejected(name: str) -> None:
    if FAMILIES[name].expression and not installed():
        pytest.skip("needs the extra `math`")
    slow = FAMILIES[name].expression
    for difficulty in (0, 3) if slow else (0, 1, 3, 6):
        for number in range(3 if slow else 25):
            problem = draw(name, generator(name, difficulty, number), difficulty)
            assert family_of(problem.text) == name
            assert verify(run(problem.text), problem.answer) is True, problem.text
            assert verify(problem.answer, problem.answer) is True
            assert len(set(problem.wrong)) == 2
            for wrong in problem.wrong:
                assert verify(wrong, problem.answer) is False, f"{problem.text} {wrong}"


@pytest.mark.parametrize("name", NUMBERS)
def test_no_answer_stands_in_its_statement_or_is_too_small(name: str) -> None:
    for number in range(50):
        problem = draw(name, generator("shown", name, number), number % 3)
        assert problem.answer.lstrip("-") not in re.findall(r"\d+(?:/\d+)?", problem.text)
        assert len(re.findall(r"\d", problem.answer)) > 1


@pytest.mark.parametrize("name", FAMILIES)
def test_no_answer_is_frequent(name: str) -> None:
    answers = Counter(draw(name, generator("frequent", name, n), 0).answer for n in range(400))
    assert answers.most_common(1)[0][1] <= 24  # 2.5 % at most were measured over 4,000
    assert set(_MOST_FREQUENT) == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_difficulty_has_no_top(name: str) -> None:
    sizes = [len(draw(name, generator("top", name), difficulty).text) for difficulty in (0, 40)]
    answers = [len(draw(name, generator("top", name), difficulty).answer) for difficulty in (0, 40)]
    assert sizes[1] > sizes[0] or answers[1] > answers[0]


def test_the_statement_is_the_problem_without_the_rules() -> None:
    env = agentgym.make("rlvr/Math-v0", preset="numbers")
    observation, _ = env.reset(seed=3)
    assert statement_of(observation) == env.task.data["problem"]
