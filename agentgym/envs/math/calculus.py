"""Derivatives, with expressions as answers, and definite integrals, with exact fractions as answers."""

import re
from fractions import Fraction

import numpy as np

from agentgym.envs.math.problem import (
    READ_POLYNOMIAL,
    Problem,
    ProblemFamily,
    joined,
    nonzero,
    pick,
    polynomial,
    term,
    whole,
)

_KINDS = ("sin", "cos", "exp")


def _draw_derivative(rng: np.random.Generator, difficulty: int) -> Problem:
    """Return a problem that asks to differentiate a sum of terms c x^n f(bx); f is 1, sine, cosine or the exponential."""
    terms = {
        (pick(rng, _KINDS[: 2 + (difficulty > 0)]), whole(rng, 2, 9), whole(rng, 0, difficulty))
        for _ in range(1 + difficulty)
    }
    powers = {whole(rng, 2, 5 + difficulty) for _ in range(2 + difficulty // 2)}
    function: list[str] = []
    right: list[str] = []
    slips: tuple[list[str], list[str]] = ([], [])  # mistakes: no chain rule; a wrong sign
    for power in sorted(powers, reverse=True):
        c = nonzero(rng, 12)
        function.append(term(c, power))
        for answer in (right, *slips):
            answer.append(term(c * power, power - 1))
    for kind, b, n in sorted(terms):
        c = nonzero(rng, 9)
        function.append(term(c, n, _written(kind, b)))
        other, sign = {"sin": ("cos", 1), "cos": ("sin", -1), "exp": ("exp", 1)}[kind]
        product = [term(c * n, n - 1, _written(kind, b))] if n else []
        for answer, factor in zip((right, *slips), (sign * b, sign, -sign * b), strict=True):
            answer.extend([*product, term(c * factor, n, _written(other, b))])
    text = f"Differentiate f(x) = {joined(function)} with respect to x."
    return Problem(text, joined(right), (joined(slips[0]), joined(slips[1])))


def _written(kind: str, b: int) -> str:
    return f"e^({b}x)" if kind == "exp" else f"{kind}({b}x)"


_TERM = re.compile(r"([+-]?)(\d*)(x?)(?:\^(\d+))?\*?(?:(sin|cos|e\^)\((\d+)x\))?")


def _solve_derivative(text: str) -> str:
    body = text.partition("f(x) = ")[2].removesuffix(" with respect to x.").replace(" ", "")
    terms = [
        (int(f"{sign}{number or 1}"), int(power or 1) if x else 0, kind, int(b or 0))
        for sign, number, x, power, kind, b in _TERM.findall(body)
        if number or x or kind
    ]
    return f"""
answer = []
for c, n, kind, b in {terms}:
    f = f"{{kind}}({{b}}*x)" if kind else "1"
    if n:
        answer.append(f"({{c * n}})*x^{{n - 1}}*{{f}}")
    if kind:
        other = {{"sin": "cos", "cos": "sin", "e^": "e^"}}[kind]
        answer.append(f"({{c * b * (-1 if kind == 'cos' else 1)}})*x^{{n}}*{{other}}({{b}}*x)")
print(" + ".join(answer))"""


def _draw_integral(rng: np.random.Generator, difficulty: int) -> Problem:
    coefficients = [nonzero(rng, 9) for _ in range(3 + difficulty)]
    low = whole(rng, -3, 2)
    high = low + whole(rng, 1, 3 + difficulty // 2)
    answer = _integral(coefficients, low, high)
    slope = _value(coefficients, high) - _value(coefficients, low)  # mistake: not integrated
    text = f"What is the integral of {polynomial(coefficients)} from x = {low} to x = {high}, exactly?"
    return Problem(text, str(answer), (str(slope), str(-answer)))


def _value(coefficients: list[int], x: int) -> int:
    value = 0
    for c in coefficients:
        value = value * x + c
    return value


def _integral(coefficients: list[int], low: int, high: int) -> Fraction:
    degree = len(coefficients)
    powers = ((Fraction(c, degree - i), degree - i) for i, c in enumerate(coefficients))
    return sum((c * (high**n - low**n) for c, n in powers), Fraction(0))


def _solve_integral(text: str) -> str:
    (body, low, high) = re.findall(r"integral of (.*) from x = (-?\d+) to x = (-?\d+),", text)[0]
    return f"""{READ_POLYNOMIAL}
low, high = {low}, {high}
print(sum((Fraction(c, n + 1) * (high ** (n + 1) - low ** (n + 1)) for n, c in enumerate(read({body!r}))), Fraction(0)))"""


DERIVATIVE = ProblemFamily(_draw_derivative, _solve_derivative, expression=True)
INTEGRAL = ProblemFamily(_draw_integral, _solve_integral)
