"""Combinatorics, and probabilities as exact fractions."""

import math
import re
from collections import Counter
from fractions import Fraction

import numpy as np

from agentgym.envs.math.problem import Problem, ProblemFamily, integers, pick, whole

_LETTERS = "ABCDEFGHKLMNPRSTUVWXYZ"
_COLORS = ("red", "blue", "green", "white", "black", "yellow")


def _order(rng: np.random.Generator, n: int) -> list[int]:
    order: list[int] = rng.permutation(n).tolist()
    return order


def _draw_counting(rng: np.random.Generator, difficulty: int) -> Problem:
    return pick(rng, (_committee, _arrangements, _paths))(rng, difficulty)


def _committee(rng: np.random.Generator, difficulty: int) -> Problem:
    women, men = whole(rng, 5, 12 + 2 * difficulty), whole(rng, 5, 12 + 2 * difficulty)
    size, least = whole(rng, 4, 5 + difficulty // 2), 2
    ways = [math.comb(women, k) * math.comb(men, size - k) for k in range(size + 1)]
    text = (
        f"A committee of {size} is chosen from {women} women and {men} men. "
        f"In how many ways can this be done with at least {least} women in it?"
    )
    wrong = (sum(ways[least + 1 :]), math.comb(women, least) * math.comb(women + men - least, size - least))
    return Problem(text, str(sum(ways[least:])), (str(wrong[0]), str(wrong[1])))


def _arrangements(rng: np.random.Generator, difficulty: int) -> Problem:
    letters = [pick(rng, _LETTERS) for _ in range(whole(rng, 4, 7) + difficulty)]
    letters += [pick(rng, letters) for _ in range(whole(rng, 2, 5))]
    word = "".join(letters[i] for i in _order(rng, len(letters)))
    counts = Counter(word).values()
    answer = math.factorial(len(word)) // math.prod(math.factorial(c) for c in counts)
    text = f"In how many different ways can the letters of {word} be arranged in a row?"
    return Problem(text, str(answer), (str(math.factorial(len(word))), str(math.factorial(len(word)) // math.prod(counts))))


def _paths(rng: np.random.Generator, difficulty: int) -> Problem:
    right, up = whole(rng, 4, 8 + difficulty), whole(rng, 4, 8 + difficulty)
    a, b = whole(rng, 1, right - 1), whole(rng, 1, up - 1)
    through = math.comb(a + b, a) * math.comb(right - a + up - b, right - a)
    answer = math.comb(right + up, up) - through
    text = (
        f"A path on a grid goes from (0, 0) to ({right}, {up}) by steps of one to the right or up. "
        f"How many such paths do not pass through ({a}, {b})?"
    )
    return Problem(text, str(answer), (str(through), str(answer + through)))


def _solve_counting(text: str) -> str:
    if "committee" in text:
        size, women, men, least = integers(text)
        ways = f"comb({women}, k) * comb({men}, {size} - k) for k in range({least}, {size + 1})"
        return f"from math import comb\nprint(sum({ways}))"
    if "letters" in text:
        (word,) = re.findall(r"letters of ([A-Z]+)", text)
        return (
            f"from math import factorial\nn = factorial({len(word)})\n"
            f"for c in set('{word}'):\n    n //= factorial('{word}'.count(c))\nprint(n)"
        )
    _, _, right, up, a, b = integers(text)
    return f"""
ways = {{(0, 0): 1}}
for x in range({right + 1}):
    for y in range({up + 1}):
        if (x, y) != (0, 0):
            ways[x, y] = 0 if (x, y) == ({a}, {b}) else ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0)
print(ways[{right}, {up}])"""


def _draw_probability(rng: np.random.Generator, difficulty: int) -> Problem:
    return (_urn if rng.random() < 0.5 else _dice)(rng, difficulty)


def _urn(rng: np.random.Generator, difficulty: int) -> Problem:
    colors = [_COLORS[i] for i in _order(rng, len(_COLORS))[: 2 + min(difficulty, 4)]]
    balls = [whole(rng, 4, 14 + difficulty) for _ in colors]
    drawn = whole(rng, 3, 4 + difficulty // 2)
    red = whole(rng, 1, min(drawn - 1, balls[0]))
    total = sum(balls)

    def exactly(k: int) -> Fraction:
        return Fraction(math.comb(balls[0], k) * math.comb(total - balls[0], drawn - k), math.comb(total, drawn))

    replaced = Fraction(math.comb(drawn, red) * balls[0] ** red * (total - balls[0]) ** (drawn - red), total**drawn)
    bag = ", ".join(f"{n} {color}" for n, color in zip(balls, colors, strict=True))
    text = (
        f"A bag contains these balls: {bag}. {drawn} balls are drawn without replacement. "
        f"What is the probability that exactly {red} of them are {colors[0]}?"
    )
    more = sum((exactly(k) for k in range(red, drawn + 1)), Fraction(0))
    return Problem(text, str(exactly(red)), (str(replaced), str(more)))


def _dice(rng: np.random.Generator, difficulty: int) -> Problem:
    count, sides = 3 + difficulty // 2, whole(rng, 5, 12 + difficulty)
    ways = [1]
    for _ in range(count):
        ways = [sum(ways[max(0, s - sides) : s]) for s in range(len(ways) + sides)]
    goal = whole(rng, count + 3, (count + count * sides) // 2)
    hits = sum(ways[goal:])
    text = (
        f"{count} fair dice with {sides} sides each, numbered from 1, are rolled. "
        f"What is the probability that the sum is at least {goal}?"
    )
    more, total = sum(ways[goal + 1 :]), sides**count
    return Problem(text, str(Fraction(hits, total)), (str(Fraction(more, total)), str(Fraction(total - hits, total))))


def _solve_probability(text: str) -> str:
    if "dice" in text:
        count, sides, _, goal = integers(text)
        return f"""
from fractions import Fraction
ways = {{0: 1}}
for _ in range({count}):
    after = {{}}
    for s, n in ways.items():
        for d in range(1, {sides + 1}):
            after[s + d] = after.get(s + d, 0) + n
    ways = after
print(Fraction(sum(n for s, n in ways.items() if s >= {goal}), {sides}**{count}))"""
    *balls, drawn, red = integers(text)
    return f"""
from fractions import Fraction
from math import comb
k, rest, drawn, wanted = {balls[0]}, {sum(balls[1:])}, {drawn}, {red}
print(Fraction(comb(k, wanted) * comb(rest, drawn - wanted), comb(k + rest, drawn)))"""


COUNTING = ProblemFamily(_draw_counting, _solve_counting)
PROBABILITY = ProblemFamily(_draw_probability, _solve_probability)
