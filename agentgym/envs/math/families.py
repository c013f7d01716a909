"""The table of generated problem families, and the acceptance test of their problems."""

import re

import numpy as np

from agentgym.envs.math.algebra import COEFFICIENT, EQUATION, REMAINDER, SYSTEM
from agentgym.envs.math.arithmetic import FRACTIONS, STORY
from agentgym.envs.math.calculus import DERIVATIVE, INTEGRAL
from agentgym.envs.math.counting import COUNTING, PROBABILITY
from agentgym.envs.math.geometry import DISTANCE, POLYGON
from agentgym.envs.math.matrices import DETERMINANT, TRACE
from agentgym.envs.math.numbers import DIGITS, DIVISORS, POWER, REMAINDERS
from agentgym.envs.math.problem import Problem, ProblemFamily
from agentgym.envs.math.sequences import SEQUENCE

FAMILIES: dict[str, ProblemFamily] = {
    "story": STORY,
    "fractions": FRACTIONS,
    "equation": EQUATION,
    "system": SYSTEM,
    "coefficient": COEFFICIENT,
    "remainder": REMAINDER,
    "divisors": DIVISORS,
    "power": POWER,
    "remainders": REMAINDERS,
    "digits": DIGITS,
    "counting": COUNTING,
    "probability": PROBABILITY,
    "sequence": SEQUENCE,
    "derivative": DERIVATIVE,
    "integral": INTEGRAL,
    "polygon": POLYGON,
    "distance": DISTANCE,
    "determinant": DETERMINANT,
    "trace": TRACE,
}
NUMBERS = tuple(name for name, family in FAMILIES.items() if not family.expression)
"""Families with numeric answers, which need no extra."""


def draw(name: str, rng: np.random.Generator, difficulty: int) -> Problem:
    """Return a problem of a family, with an answer that plausible mistakes do not yield.

    A numeric answer also has at least two digits and differs from the numbers in the statement.
    """
    while True:
        problem = FAMILIES[name].draw(rng, difficulty)
        if _fit(problem, FAMILIES[name].expression):
            return problem


def _fit(problem: Problem, expression: bool) -> bool:
    if problem.answer in problem.wrong or len(set(problem.wrong)) < 2:
        return False
    digits = re.findall(r"\d", problem.answer)
    numbers = re.findall(r"\d+(?:/\d+)?", problem.text)
    return expression or (len(digits) > 1 and problem.answer.lstrip("-") not in numbers)
