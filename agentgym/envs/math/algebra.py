"""Equations, systems and polynomials."""

import re
from fractions import Fraction

import numpy as np

from agentgym.envs.math.problem import (
    READ_POLYNOMIAL,
    Problem,
    ProblemFamily,
    joined,
    nonzero,
    polynomial,
    whole,
)


def _draw_equation(rng: np.random.Generator, difficulty: int) -> Problem:
    while True:
        sides: list[str] = []
        slope = constant = 0
        careless = 0  # the constant if a bracket's factor is not applied to its second term
        for sign in (1, -1):
            terms: list[str] = []
            for _ in range(1 + (difficulty + (sign > 0)) // 2):
                factor, a, b = nonzero(rng, 9 + difficulty), nonzero(rng, 9), nonzero(rng, 20)
                terms.append(f"{factor}({polynomial([a, b])})")
                slope, constant = slope + sign * factor * a, constant + sign * factor * b
                careless += sign * b
            a, b = nonzero(rng, 15), nonzero(rng, 60)
            terms.append(polynomial([a, b]))
            slope, constant, careless = slope + sign * a, constant + sign * b, careless + sign * b
            sides.append(joined(terms))
        if slope:
            break
    text = f"Solve for x: {sides[0]} = {sides[1]}. What is x?"
    return Problem(text, str(Fraction(-constant, slope)), (str(Fraction(constant, slope)), str(Fraction(-careless, slope))))


def _solve_equation(text: str) -> str:
    left, right = text.removeprefix("Solve for x: ").removesuffix(". What is x?").split(" = ")
    left, right = (re.sub(r"(\d|\))(?=x|\()", r"\1*", side) for side in (left, right))
    return f"""
from fractions import Fraction
def f(x):
    return {left} - ({right})
low, high = f(Fraction(0)), f(Fraction(1))
print(-low / (high - low))"""


def _draw_system(rng: np.random.Generator, difficulty: int) -> Problem:
    size = 2 + difficulty
    names = ["x", "y", "z"][:size] if size <= 3 else [f"x_{i + 1}" for i in range(size)]
    solution, weights = [nonzero(rng, 20) for _ in names], [nonzero(rng, 9) for _ in names]
    rows = [[nonzero(rng, 9) for _ in names] for _ in names]
    while np.linalg.matrix_rank(np.array(rows, dtype=float)) < size:
        rows = [[nonzero(rng, 9) for _ in names] for _ in names]
    answer = _dot(weights, solution)
    wrong = (_dot([abs(w) for w in weights], solution), _dot(weights, [-solution[0], *solution[1:]]))
    equations = [f"{_linear(row, names)} = {_dot(row, solution)}" for row in rows]
    text = f"Solve the system {'; '.join(equations)}. What is {_linear(weights, names)}?"
    return Problem(text, str(answer), (str(wrong[0]), str(wrong[1])))


def _dot(a: list[int], b: list[int]) -> int:
    return sum(p * q for p, q in zip(a, b, strict=True))


def _linear(weights: list[int], names: list[str]) -> str:
    return joined([{1: "", -1: "-"}.get(w, str(w)) + name for w, name in zip(weights, names, strict=True)])


def _solve_system(text: str) -> str:
    system, _, question = text.removeprefix("Solve the system ").partition(". What is ")
    names = sorted(set(re.findall(r"[xyz](?:_\d+)?", text.partition("system")[2])), key=lambda n: (len(n), n))

    def row(side: str) -> list[int]:
        coefficients = dict.fromkeys(names, 0)
        for sign, number, name in re.findall(r"([+-]?)(\d*)([xyz](?:_\d+)?)", side.replace(" ", "")):
            coefficients[name] += int(f"{sign}{number or 1}")
        return list(coefficients.values())

    sides = [equation.split(" = ") for equation in system.split("; ")]
    rows = [[*row(left), int(right)] for left, right in sides]
    return f"""
from fractions import Fraction
rows = [[Fraction(n) for n in row] for row in {rows}]
for i in range(len(rows)):
    j = next(k for k in range(i, len(rows)) if rows[k][i])
    rows[i], rows[j] = rows[j], rows[i]
    rows[i] = [n / rows[i][i] for n in rows[i]]
    for k in range(len(rows)):
        if k != i:
            rows[k] = [p - rows[k][i] * q for p, q in zip(rows[k], rows[i])]
print(sum(w * row[-1] for w, row in zip({row(question)}, rows)))"""


def _coefficients(rng: np.random.Generator, degree: int, most: int) -> list[int]:
    """Return random coefficients of a polynomial of exactly this degree, highest power first, each within ±`most`."""
    return [nonzero(rng, most) for _ in range(degree + 1)]


def _draw_coefficient(rng: np.random.Generator, difficulty: int) -> Problem:
    factors = [_coefficients(rng, whole(rng, 1, 3), 9) for _ in range(2 + (difficulty + 1) // 2)]
    product, unsigned = np.array([1], dtype=object), np.array([1], dtype=object)
    for factor in factors:
        product = np.convolve(product, np.array(factor, dtype=object))
        unsigned = np.convolve(unsigned, np.abs(np.array(factor, dtype=object)))
    degree = len(product) - 1
    power = whole(rng, 1, degree - 1)
    answer, wrong = product[degree - power], (unsigned[degree - power], product[power])
    brackets = "".join(f"({polynomial(factor)})" for factor in factors)
    text = f"What is the coefficient of x^{power} in the expansion of {brackets}?"
    return Problem(text, str(answer), (str(wrong[0]), str(wrong[1])))


def _solve_coefficient(text: str) -> str:
    factors = re.findall(r"\((.*?)\)", text)
    (power,) = re.findall(r"of x\^(\d+) in", text)
    return f"""{READ_POLYNOMIAL}
product = [1]
for factor in {factors}:
    product = times(product, read(factor))
print(product[{power}])"""


def _draw_remainder(rng: np.random.Generator, difficulty: int) -> Problem:
    """Return a problem that asks for the remainder R of P = Q D + R; D is monic, and R is any polynomial of lower degree."""
    low = 2 + difficulty // 3
    divisor = [1, *_coefficients(rng, low - 1, 9)]
    quotient = _coefficients(rng, 1 + (difficulty + 1) // 2, 7)
    remainder = _coefficients(rng, low - 1, 20)
    dividend = np.convolve(quotient, divisor)
    dividend[-len(remainder) :] += remainder
    text = f"What is the remainder when {polynomial([int(c) for c in dividend])} is divided by {polynomial(divisor)}?"
    flipped = [-remainder[0], *remainder[1:]]
    return Problem(text, polynomial(remainder), (polynomial(flipped), polynomial(quotient)))


def _solve_remainder(text: str) -> str:
    dividend, divisor = text.removeprefix("What is the remainder when ").removesuffix("?").split(" is divided by ")
    return f"""{READ_POLYNOMIAL}
a, b = read({dividend!r}), read({divisor!r})
while len(a) >= len(b):
    for i in range(len(b)):
        a[-1 - i] -= a[-1] * b[-1 - i] if i else 0
    a.pop()
print(" + ".join(f"({{c}})*x^{{n}}" for n, c in enumerate(a)))"""


EQUATION = ProblemFamily(_draw_equation, _solve_equation)
SYSTEM = ProblemFamily(_draw_system, _solve_system)
COEFFICIENT = ProblemFamily(_draw_coefficient, _solve_coefficient)
REMAINDER = ProblemFamily(_draw_remainder, _solve_remainder, expression=True)
