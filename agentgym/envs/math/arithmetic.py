"""Word problems and sums of fractions."""

import re
from fractions import Fraction

import numpy as np

from agentgym.envs.math.problem import Problem, ProblemFamily, integers, pick, whole

_PLACES = ("shop", "warehouse", "bakery", "library", "farm", "museum", "market stall", "school")
_THINGS = ("apples", "pencils", "bottles", "books", "candles", "tickets", "stamps", "marbles")


def _draw_story(rng: np.random.Generator, difficulty: int) -> Problem:
    place, things = pick(rng, _PLACES), pick(rng, _THINGS)
    boxes, each = whole(rng, 12, 60), whole(rng, 12, 90)
    total, forgetful, confused = boxes * each, boxes * each, boxes * each
    lines = [f"A {place} starts with {boxes} boxes of {each} {things}."]
    last = ""
    for step in range(2 + difficulty):
        kind = pick(rng, [name for name in _STEPS if name != last and (total > 200 or name in ("buys", "finds"))])
        before = total
        if kind == "sells":
            amount = whole(rng, 11, total // 2)
            lines.append(f"It sells {amount} {things}.")
            total, confused = total - amount, confused + amount
        elif kind == "buys":
            amount, size = whole(rng, 3, 40), whole(rng, 12, 90)
            lines.append(f"It buys {amount} boxes of {size} {things}.")
            total, confused = total + amount * size, confused + amount + size
        elif kind == "finds":
            amount = whole(rng, 11, 900)
            lines.append(f"It finds {amount} more {things} in the cellar.")
            total, confused = total + amount, confused + amount
        else:
            part = whole(rng, 3, 9)
            lines.append(f"It gives away one {things[:-1]} out of every {part}, rounded down to a whole number.")
            total, confused = total - total // part, confused - confused // part
        forgetful = forgetful + total - before if step else forgetful  # mistake: forgets the first step
        last = kind
    lines.append(f"How many {things} are there now?")
    return Problem(" ".join(lines), str(total), (str(forgetful), str(confused)))


_STEPS = ("sells", "buys", "finds", "gives")


def _solve_story(text: str) -> str:
    lines = ["n = 0"]
    for sentence in re.findall(r"(?:A|It) [^.]*\.", text):
        numbers = integers(sentence)
        if "boxes" in sentence:
            lines.append(f"n += {numbers[0]} * {numbers[1]}")
        elif "sells" in sentence:
            lines.append(f"n -= {numbers[0]}")
        elif "finds" in sentence:
            lines.append(f"n += {numbers[0]}")
        else:
            lines.append(f"n -= n // {numbers[0]}")
    return "\n".join([*lines, "print(n)"])


def _draw_fractions(rng: np.random.Generator, difficulty: int) -> Problem:
    def fraction() -> Fraction:
        bottom = whole(rng, 3, 12 + 4 * difficulty)
        return Fraction(whole(rng, 1, 3 * bottom), bottom)

    value = fraction()
    text, slip = str(value) if value.denominator > 1 else f"{value}/1", value
    for step in range(2 + difficulty):
        other = fraction()
        sign = pick(rng, "+-*/" if step else "+-")
        written = f"({other.numerator}/{other.denominator})"
        value = {"+": value + other, "-": value - other, "*": value * other, "/": value / other}[sign]
        slip = {"+": slip + other, "-": slip + other, "*": slip * other, "/": slip * other}[sign]
        text = f"({text} {sign} {written})"
    mistaken = Fraction(value.numerator + 1, value.denominator)
    text = f"Work out {text[1:-1]} exactly."
    return Problem(text, str(value), (str(slip), str(mistaken)))


def _solve_fractions(text: str) -> str:
    body = text.removeprefix("Work out ").removesuffix(" exactly.")
    exact = re.sub(r"(\d+)/(\d+)", r"Fraction(\1, \2)", body)
    return f"from fractions import Fraction\nprint({exact})"


STORY = ProblemFamily(_draw_story, _solve_story)
FRACTIONS = ProblemFamily(_draw_fractions, _solve_fractions)
