"""Base types and functions of the problem families."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """A problem with its exact answer."""

    text: str
    answer: str
    wrong: tuple[str, ...]
    """Results of plausible mistakes; never equal to the answer."""


@dataclass(frozen=True)
class ProblemFamily:
    """A kind of problem: how to draw and how to solve one."""

    draw: Callable[[np.random.Generator, int], Problem]
    """Draws a problem of a given difficulty, from 0."""
    program: Callable[[str], str]
    """Returns Python code that prints the answer to a statement, as a user of the tool would write it."""
    expression: bool = False
    """True if answers are expressions in x, else numbers."""


def whole(rng: np.random.Generator, low: int, high: int) -> int:
    """Return a random integer from low to high, inclusive; both may exceed 64 bits."""
    if high - low < 2**32:
        return low + int(rng.integers(high - low + 1))
    span = high - low + 1
    return low + int.from_bytes(rng.bytes(span.bit_length() // 8 + 9), "big") % span


def nonzero(rng: np.random.Generator, most: int) -> int:
    """Return a random integer from -most to most, except 0."""
    return whole(rng, 1, most) * (1 if rng.random() < 0.5 else -1)


def pick(rng: np.random.Generator, choices: Sequence[T]) -> T:
    """Return a random choice."""
    return choices[int(rng.integers(len(choices)))]


def integers(text: str) -> list[int]:
    """Return the integers of a text in order; a minus sign belongs to a number that it touches."""
    return [int(digits) for digits in re.findall(r"(?<![\w.])-?\d+", text)]


def polynomial(coefficients: Sequence[int]) -> str:
    """Return a polynomial in x, highest power first, in handwritten form: `2x^3 - 7x + 5`."""
    degree = len(coefficients) - 1
    return joined([term(c, degree - i) for i, c in enumerate(coefficients) if c]) or "0"


def term(coefficient: int, power: int, factor: str = "") -> str:
    """Return one term, such as `-7x^2` or, with a factor, `3x sin(2x)`."""
    powers = {0: "", 1: "x"}.get(power, f"x^{power}")
    body = " ".join(part for part in (powers, factor) if part)
    if not body:
        return str(coefficient)
    return {1: "", -1: "-"}.get(coefficient, str(coefficient)) + body


def joined(terms: Sequence[str]) -> str:
    """Return the text of a sum of terms; a negative term is written as a difference."""
    return " + ".join(terms).replace("+ -", "- ")


READ_POLYNOMIAL = '''
import re
from fractions import Fraction

def read(text):
    """The coefficients of a polynomial in x, lowest power first."""
    powers = {}
    for sign, number, x, power in re.findall(r"([+-]?)(\\d*)(x?)(?:\\^(\\d+))?", text.replace(" ", "")):
        if number or x:
            value = int(number or 1) * (-1 if sign == "-" else 1)
            powers[int(power or 1) if x else 0] = value
    return [powers.get(n, 0) for n in range(max(powers) + 1)]

def times(a, b):
    product = [0] * (len(a) + len(b) - 1)
    for i, p in enumerate(a):
        for j, q in enumerate(b):
            product[i + j] += p * q
    return product
'''
"""Python source for programs: `read` parses the text of `polynomial`, and `times` multiplies two polynomials."""
