"""Sequences by recurrence, and their sums."""

import re

import numpy as np

from agentgym.envs.math.problem import Problem, ProblemFamily, integers, joined, nonzero, whole


def _draw(rng: np.random.Generator, difficulty: int) -> Problem:
    order = 2 + difficulty // 3
    start = [nonzero(rng, 9) for _ in range(order)]
    weights = [nonzero(rng, 4) for _ in range(order)]
    shift = nonzero(rng, 9)
    last = whole(rng, order + 4, 10 + 3 * difficulty)
    summed = rng.random() < 0.5
    values = [*start, *_continued(start, weights, shift, last + 1 - order)]
    answer = sum(values[:last]) if summed else values[last - 1]
    plain = [*start, *_continued(start, weights, 0, last - order)]  # mistake: forgets the constant
    wrong = (sum(values[: last + 1]) if summed else values[last], sum(plain) if summed else plain[-1])
    terms = [f"{w} a(n-{i})" if abs(w) != 1 else f"{'-' * (w < 0)}a(n-{i})" for i, w in enumerate(weights, 1)]
    begin = ", ".join(f"a({i}) = {value}" for i, value in enumerate(start, 1))
    question = f"a(1) + … + a({last})" if summed else f"a({last})"
    text = f"A sequence has {begin} and a(n) = {joined([*terms, str(shift)])} from n = {order + 1} on. What is {question}?"
    return Problem(text, str(answer), (str(wrong[0]), str(wrong[1])))


def _continued(start: list[int], weights: list[int], shift: int, count: int) -> list[int]:
    values = list(start)
    for _ in range(count):
        values.append(shift + sum(w * v for w, v in zip(weights, reversed(values), strict=False)))
    return values[len(start) :]


def _solve(text: str) -> str:
    begin, _, rule = text.partition(" and a(n) = ")
    rule, _, question = rule.partition(" from n = ")
    start = [int(value) for value in re.findall(r"= (-?\d+)", begin)]
    code = re.sub(r"(\d) a", r"\1 * a", rule).replace("a(n-", "a(n - ")
    last = integers(question.rpartition("(")[2])[0]
    total = f"sum(a(i) for i in range(1, {last + 1}))" if "…" in question else f"a({last})"
    return f"""
from functools import cache
start = {start}
@cache
def a(n):
    return start[n - 1] if n <= len(start) else {code}
for n in range(1, {last}):
    a(n)
print({total})"""


SEQUENCE = ProblemFamily(_draw, _solve)
