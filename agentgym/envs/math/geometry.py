"""Areas of polygons, lattice points, distances."""

import math
from fractions import Fraction

import numpy as np

from agentgym.envs.math.problem import Problem, ProblemFamily, integers, nonzero


def _draw_polygon(rng: np.random.Generator, difficulty: int) -> Problem:
    """Return a problem about a polygon; its corners go around the origin in order, so no sides cross."""
    corners, size = 4 + difficulty, 20 + 10 * difficulty + difficulty**2
    while True:
        angles = np.sort(rng.random(corners)) * 2 * math.pi
        gaps = np.diff([*angles, angles[0] + 2 * math.pi])
        radii = size * (0.4 + 0.6 * rng.random(corners))
        points = [(round(r * math.cos(a)), round(r * math.sin(a))) for r, a in zip(radii, angles, strict=True)]
        ring = list(zip(points, [*points[1:], points[0]], strict=True))
        crosses = [a * d - b * c for (a, b), (c, d) in ring]
        if max(gaps) < 3 and min(crosses) > 0:  # angles increase from corner to corner
            break
    double = sum(crosses)
    edge = sum(math.gcd(c - a, d - b) for (a, b), (c, d) in ring)
    corner_text = ", ".join(str(point) for point in points)
    if rng.random() < 0.5:
        text = f"What is the area of the polygon with vertices {corner_text}, in this order?"
        wrong = (Fraction(double), Fraction(sum(crosses[:-1]), 2))
        return Problem(text, str(Fraction(double, 2)), (str(wrong[0]), str(wrong[1])))
    inside = (double - edge + 2) // 2
    text = f"How many points with integer coordinates lie inside the polygon with vertices {corner_text}, in this order?"
    return Problem(text, str(inside), (str(inside + edge), str((double + edge - 2) // 2)))


def _solve_polygon(text: str) -> str:
    numbers = integers(text)
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    code = f"""
from fractions import Fraction
from math import gcd
points = {points}
ring = list(zip(points, points[1:] + points[:1]))
double = abs(sum(a * d - b * c for (a, b), (c, d) in ring))
edge = sum(gcd(c - a, d - b) for (a, b), (c, d) in ring)
"""
    return code + ("print(Fraction(double, 2))" if "area" in text else "print((double - edge + 2) // 2)")


def _draw_distance(rng: np.random.Generator, difficulty: int) -> Problem:
    most = 20 * 2**difficulty
    a, b, c = nonzero(rng, 9 + difficulty), nonzero(rng, 9 + difficulty), nonzero(rng, most)
    x, y = nonzero(rng, most), nonzero(rng, most)
    off, length = a * x + b * y + c, a * a + b * b
    answer = Fraction(off * off, length)
    line = f"{a}x {'+' if b > 0 else '-'} {abs(b)}y {'+' if c > 0 else '-'} {abs(c)} = 0"
    text = f"What is the square of the distance from the point ({x}, {y}) to the line {line}, exactly?"
    return Problem(text, str(answer), (str(Fraction((off - 2 * c) ** 2, length)), str(Fraction(abs(off), length))))


def _solve_distance(text: str) -> str:
    x, y, *_ = integers(text)
    line = text.partition("line ")[2].removesuffix(", exactly?").replace(" ", "").removesuffix("=0")
    a, _, rest = line.partition("x")
    b, _, c = rest.partition("y")
    return (
        f"from fractions import Fraction\na, b, c = {int(a)}, {int(b)}, {int(c)}\n"
        f"print(Fraction((a * {x} + b * {y} + c) ** 2, a * a + b * b))"
    )


POLYGON = ProblemFamily(_draw_polygon, _solve_polygon)
DISTANCE = ProblemFamily(_draw_distance, _solve_distance)
