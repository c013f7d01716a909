"""Number theory: divisors, remainders, digits."""

import math
from collections import Counter

import numpy as np

from agentgym.envs.math.problem import Problem, ProblemFamily, integers, pick, whole

_PRIMES = tuple(n for n in range(2, 100) if all(n % d for d in range(2, n)))
_QUESTIONS = {
    "sum": "What is the sum of all positive divisors of {n}?",
    "totient": "How many of the integers from 1 to {n} have no common factor with {n} other than 1?",
    "lcm": "What is the least common multiple of {n} and {m}?",
    "even": "What is the sum of all even positive divisors of {n}?",
}


def _draw_divisors(rng: np.random.Generator, difficulty: int) -> Problem:
    kind = pick(rng, list(_QUESTIONS))
    factors = [pick(rng, _PRIMES[: 8 + 2 * difficulty]) for _ in range(3 + difficulty)]
    if kind == "even":
        factors.append(2)
    n = math.prod(factors)
    m = n // pick(rng, factors) * pick(rng, _PRIMES[8 + 2 * difficulty : 14 + 2 * difficulty] or _PRIMES)
    powers = Counter(factors)
    total = math.prod(sum(p**e for e in range(k + 1)) for p, k in powers.items())
    odd = math.prod(sum(p**e for e in range(k + 1)) for p, k in powers.items() if p > 2)
    totient = math.prod((p - 1) * p ** (k - 1) for p, k in powers.items())
    answer, *wrong = {
        "sum": (total, total - n, math.prod(p + 1 for p in factors)),
        "totient": (totient, n - totient, math.prod(p - 1 for p in factors)),
        "lcm": (math.lcm(n, m), n * m, math.gcd(n, m)),
        "even": (total - odd, total, odd),
    }[kind]
    return Problem(_QUESTIONS[kind].format(n=n, m=m), str(answer), (str(wrong[0]), str(wrong[1])))


def _solve_divisors(text: str) -> str:
    if "multiple" in text:
        n, m = integers(text)
        return f"import math\nprint(math.lcm({n}, {m}))"
    n = max(integers(text))
    code = f"""
n, rest, powers = {n}, {n}, {{}}
d = 2
while rest > 1:
    while rest % d == 0:
        powers[d] = powers.get(d, 0) + 1
        rest //= d
    d += 1
"""
    if "common factor" in text:
        return code + "count = n\nfor p in powers:\n    count -= count // p\nprint(count)"
    code += "total = 1\nfor p, k in powers.items():\n    total *= (p ** (k + 1) - 1) // (p - 1)\n"
    return code + ("print(total - total // (2 ** (powers[2] + 1) - 1))" if "even" in text else "print(total)")


def _draw_power(rng: np.random.Generator, difficulty: int) -> Problem:
    base, exponent = whole(rng, 12, 99), whole(rng, 20, 10 ** (2 + difficulty))
    modulus = whole(rng, 101, 999 * 10**difficulty)
    wrong = (pow(base, exponent - 1, modulus), base * exponent % modulus)
    text = f"What is the remainder when {base}^{exponent} is divided by {modulus}?"
    return Problem(text, str(pow(base, exponent, modulus)), (str(wrong[0]), str(wrong[1])))


def _solve_power(text: str) -> str:
    base, exponent, modulus = integers(text.replace("^", " "))
    return f"print(pow({base}, {exponent}, {modulus}))"


def _draw_remainders(rng: np.random.Generator, difficulty: int) -> Problem:
    moduli: list[int] = []
    while len(moduli) < 2 + (difficulty + 1) // 2:
        candidate = whole(rng, 7, 30 + 10 * difficulty)
        if all(math.gcd(candidate, m) == 1 for m in moduli):
            moduli.append(candidate)
    modulus = math.prod(moduli)
    answer = whole(rng, max(moduli) + 1, modulus - 1)
    conditions = [f"{answer % m} when divided by {m}" for m in moduli]
    text = f"What is the smallest positive integer that leaves the remainder {', and '.join(conditions)}?"
    return Problem(text, str(answer), (str(modulus - answer), str(answer + modulus)))


def _solve_remainders(text: str) -> str:
    numbers = integers(text)
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return f"""
n, step = 0, 1
for r, m in {pairs}:
    while n % m != r:
        n += step
    step *= m
print(n)"""


def _draw_digits(rng: np.random.Generator, difficulty: int) -> Problem:
    base, power = whole(rng, 12, 99), whole(rng, 11, 20 + 10 * difficulty)
    radix = whole(rng, 3, 9)
    if rng.random() < 0.5:
        digits = [int(d) for d in str(base**power)]
        text = f"What is the sum of the decimal digits of {base}^{power}?"
        return Problem(text, str(sum(digits)), (str(sum(digits) % 9 or 9), str(sum(digits) + 9)))
    n = whole(rng, 500, 10 ** (4 + difficulty))
    written, rest = "", n
    while rest:
        written, rest = str(rest % radix) + written, rest // radix
    text = f"Write the decimal number {n} in base {radix}. What are its digits, most significant first?"
    return Problem(text, written, (written[::-1], written[:-1]))


def _solve_digits(text: str) -> str:
    a, b = integers(text.replace("^", " "))
    if "sum" in text:
        return f"print(sum(int(d) for d in str({a}**{b})))"
    return f"n, digits = {a}, ''\nwhile n:\n    digits, n = str(n % {b}) + digits, n // {b}\nprint(digits)"


DIVISORS = ProblemFamily(_draw_divisors, _solve_divisors)
POWER = ProblemFamily(_draw_power, _solve_power)
REMAINDERS = ProblemFamily(_draw_remainders, _solve_remainders)
DIGITS = ProblemFamily(_draw_digits, _solve_digits)
