"""Determinants and powers of integer matrices."""

import math
import re

import numpy as np

from agentgym.envs.math.problem import Problem, ProblemFamily, nonzero, whole

Matrix = list[list[int]]


def _draw_determinant(rng: np.random.Generator, difficulty: int) -> Problem:
    size = 3 + difficulty // 2
    rows = [[nonzero(rng, 9 + difficulty) for _ in range(size)] for _ in range(size)]
    answer, diagonal = _determinant(rows), math.prod(rows[i][i] for i in range(size))
    return Problem(f"What is the determinant of the matrix {rows}?", str(answer), (str(-answer), str(diagonal)))


def _determinant(rows: Matrix) -> int:
    """Return the determinant; every division is exact (Bareiss 1968)."""
    rows, sign, before = [list(row) for row in rows], 1, 1
    for i in range(len(rows) - 1):
        j = next((k for k in range(i, len(rows)) if rows[k][i]), None)
        if j is None:
            return 0
        if j != i:
            rows[i], rows[j], sign = rows[j], rows[i], -sign
        for k in range(i + 1, len(rows)):
            for c in range(i + 1, len(rows)):
                rows[k][c] = (rows[k][c] * rows[i][i] - rows[k][i] * rows[i][c]) // before
        before = rows[i][i]
    return sign * rows[-1][-1]


def _solve_determinant(text: str) -> str:
    return f"""
from fractions import Fraction
rows = [[Fraction(n) for n in row] for row in {_matrix(text)}]
answer = 1
for i in range(len(rows)):
    j = next((k for k in range(i, len(rows)) if rows[k][i]), None)
    if j is None:
        answer = 0
        break
    if j != i:
        rows[i], rows[j], answer = rows[j], rows[i], -answer
    answer *= rows[i][i]
    for k in range(i + 1, len(rows)):
        factor = rows[k][i] / rows[i][i]
        rows[k] = [p - factor * q for p, q in zip(rows[k], rows[i])]
print(answer)"""


def _draw_trace(rng: np.random.Generator, difficulty: int) -> Problem:
    size, power = 2 + (difficulty + 1) // 3, whole(rng, 3, 4 + difficulty)
    rows = [[nonzero(rng, 6) for _ in range(size)] for _ in range(size)]
    product = np.linalg.matrix_power(np.array(rows, dtype=object), power)
    answer = sum(product[i][i] for i in range(size))
    wrong = (sum(rows[i][i] ** power for i in range(size)), sum(product[i][size - 1 - i] for i in range(size)))
    text = f"Let A be the matrix {rows}. What is the trace of A to the power {power}?"
    return Problem(text, str(answer), (str(wrong[0]), str(wrong[1])))


def _solve_trace(text: str) -> str:
    (power,) = re.findall(r"power (\d+)\?", text)
    return f"""
a = {_matrix(text)}
p = a
for _ in range({power} - 1):
    p = [[sum(x * y for x, y in zip(row, column)) for column in zip(*a)] for row in p]
print(sum(p[i][i] for i in range(len(a))))"""


def _matrix(text: str) -> Matrix:
    return [[int(n) for n in row.split(",")] for row in re.findall(r"\[([-\d, ]+)\]", text)]


DETERMINANT = ProblemFamily(_draw_determinant, _solve_determinant)
TRACE = ProblemFamily(_draw_trace, _solve_trace)
