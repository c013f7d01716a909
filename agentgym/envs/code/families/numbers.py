"""Integers: digits, divisors, primes, bases, and ranges that are filtered and summed."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer

PRIME = "p > 1 and all(p % q for q in range(2, int(p ** 0.5) + 1))"


def _number(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    most: int = 10 ** int(rng.integers(1, 5 + min(difficulty, 8)))
    return [int(rng.integers(0, most))]


def _range(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    low = int(rng.integers(1, 60 + 20 * difficulty))
    return [low, low + int(rng.integers(-2, 40 + 5 * difficulty))]


FRAMES = (
    Frame("`n` is a non-negative integer.", "n", _number, gives="number"),
    Frame(
        "`n` is a non-negative integer.",
        "n",
        _number,
        "values = [int(c) for c in str(n)]",
        ("values = [int(c) for c in reversed(str(n))]",),
        gives="values",
        asks="Start with the list of its decimal digits, from left to right, and apply these steps in order:",
    ),
    Frame(
        "`low` and `high` are positive integers.",
        "low, high",
        _range,
        "values = list(range(low, high + 1))",
        ("values = list(range(low, high))",),
        gives="values",
        asks="Start with the numbers from `low` to `high`, inclusive (none if `high` is less than `low`), and apply "
        "these steps in order:",
    ),
)
NUMBER = (
    Rule("Add $a to the number.", "n = n + $a", slots={"a": integer(1, 40, 10)}),
    Rule("Multiply the number by $a.", "n = n * $a", ("n = n + $a",), {"a": integer(2, 12, 2)}),
    Rule(
        "Reverse the decimal digits of the number (leading zeros disappear).",
        "n = int(str(n)[::-1])",
        ("n = int(''.join(sorted(str(n))))",),
    ),
    Rule(
        "If the number is even, halve it; otherwise multiply it by $a and add 1.",
        "n = n // 2 if n % 2 == 0 else $a * n + 1",
        ("n = $a * n + 1 if n % 2 == 0 else n // 2", "n = n // 2 if n % 2 == 0 else $a * (n + 1)"),
        {"a": choice(3, 5, 7)},
    ),
    Rule(
        "Replace the number with the remainder of its square after division by $m.",
        "n = n * n % $m",
        ("n = n % $m", "n = n * n // $m"),
        {"m": integer(30, 999, 500)},
    ),
    Rule(
        "Remove every digit $d; if no digit is left, the number becomes 0.",
        "n = int(str(n).replace(str($d), '') or '0')",
        ("n = int(str(n).replace(str($d), '0'))", "n = int(str(n).replace(str($d), '', 1) or '0')"),
        {"d": integer(0, 9)},
    ),
    Rule(
        "Add the sum of its decimal digits to the number.",
        "n = n + sum(int(c) for c in str(n))",
        ("n = n + len(str(n))", "n = sum(int(c) for c in str(n))"),
    ),
    Rule(
        "Make the sorted list of the divisors of the number's remainder after division by $m (an empty list if the "
        "remainder is 0).",
        "n = n % $m\nvalues = [v for v in range(1, n + 1) if n % v == 0]",
        (
            "n = n % $m\nvalues = [v for v in range(1, n) if n % v == 0]",
            "values = [v for v in range(1, $m + 1) if $m % v == 0]",
        ),
        {"m": integer(300, 3000)},
        gives="values",
    ),
    Rule(
        "Make the list of its digits in base $b, least significant first ([0] for 0).",
        "values = [n % $b]\nwhile n >= $b:\n    n //= $b\n    values.append(n % $b)",
        ("values = [n % $b]\nwhile n >= $b:\n    n //= $b\n    values.insert(0, n % $b)",),
        {"b": choice(2, 3, 4, 5, 6, 7, 8, 9, 11, 12)},
        gives="values",
    ),
)
VALUES = (
    Rule(
        "Keep only the values whose remainder after division by $m is $r.",
        "values = [v for v in values if v % $m == $r]",
        ("values = [v for v in values if v % $m >= $r]", "values = [v for v in values if v // $m == $r]"),
        {"m": integer(3, 5), "r": integer(0, 2)},
    ),
    Rule(
        "Keep only the prime numbers.",
        f"values = [p for p in values if {PRIME}]",
        (f"values = [p for p in values if {PRIME.replace('p > 1 and ', '')}]", "values = [p for p in values if p % 2]"),
    ),
    Rule(
        "Drop the prime numbers.",
        f"values = [p for p in values if not ({PRIME})]",
        (f"values = [p for p in values if {PRIME}]", "values = [p for p in values if p % 2 == 0]"),
    ),
    Rule(
        "Replace each value with its square.",
        "values = [v * v for v in values]",
        ("values = [v * 2 for v in values]",),
        once=True,
    ),
    Rule(
        "Replace each value with the sum of its decimal digits.",
        "values = [sum(int(c) for c in str(v)) for v in values]",
        ("values = [len(str(v)) for v in values]", "values = [sum(int(c) for c in str(v)) % 9 for v in values]"),
    ),
    Rule(
        "Keep only the values whose decimal digits form a palindrome.",
        "values = [v for v in values if str(v) == str(v)[::-1]]",
        ("values = [v for v in values if str(v)[0] != str(v)[-1] or v < 10]",),
    ),
    Rule(
        "Keep only the values with an even number of ones in binary.",
        "values = [v for v in values if bin(v).count('1') % 2 == 0]",
        ("values = [v for v in values if bin(v).count('0') % 2 == 0]", "values = [v for v in values if v % 2 == 0]"),
        once=True,
    ),
    Rule(
        "Replace each value with its greatest common divisor with $n.",
        "import math\nvalues = [math.gcd(v, $n) for v in values]",
        ("values = [v % $n for v in values]",),
        {"n": choice(12, 18, 24, 30, 36, 60, 84)},
    ),
    Rule("Add $n to each value.", "values = [v + $n for v in values]", slots={"n": integer(1, 30, 5)}),
)
ENDS_OF_NUMBER = (
    Rule("the number.", "return n"),
    Rule("the sum of its decimal digits.", "return sum(int(c) for c in str(n))", ("return len(str(n))",)),
    Rule(
        "the number in base $b as a string.",
        "text = str(n % $b)\nwhile n >= $b:\n    n //= $b\n    text = str(n % $b) + text\nreturn text",
        ("text = ''\nwhile n >= $b:\n    text = str(n % $b) + text\n    n //= $b\nreturn text",),
        {"b": integer(2, 9)},
    ),
    Rule(
        "a tuple of the quotient and the remainder of its division by $m.",
        "return n // $m, n % $m",
        ("return n % $m, n // $m", "return n / $m, n % $m"),
        {"m": integer(3, 40)},
    ),
    Rule(
        "the number of its decimal digits that are greater than $d.",
        "return sum(int(c) > $d for c in str(n))",
        ("return sum(int(c) >= $d for c in str(n))",),
        {"d": integer(2, 6)},
    ),
)
ENDS_OF_VALUES = (
    Rule("the list of values.", "return values"),
    Rule("their sum.", "return sum(values)", ("return len(values)",)),
    Rule("the number of distinct values.", "return len(set(values))", ("return len(values)",)),
    Rule(
        "the sum of the values at even positions (0, 2, …) minus the sum of those at odd positions.",
        "return sum(values[::2]) - sum(values[1::2])",
        (
            "return sum(values[1::2]) - sum(values[::2])",
            "return sum(v for v in values if v % 2 == 0) - sum(v for v in values if v % 2)",
        ),
    ),
    Rule(
        "the remainder of their product after division by $m (the product of an empty list is 1).",
        "product = 1\nfor v in values:\n    product = product * v % $m\nreturn product % $m",
        ("product = 0\nfor v in values:\n    product = (product + v) % $m\nreturn product",),
        {"m": choice(97, 101, 997, 1009, 10007)},
    ),
    Rule(
        "a dictionary from each remainder after division by $m that occurs to the list of the values with that remainder.",
        "table = {}\nfor v in values:\n    table.setdefault(v % $m, []).append(v)\nreturn table",
        ("table = {}\nfor v in values:\n    table.setdefault(v // $m, []).append(v)\nreturn table",),
        {"m": integer(2, 7)},
    ),
)
FAMILY = ProgramFamily(
    "numbers",
    FRAMES,
    typed("number", NUMBER) + typed("values", VALUES),
    typed("number", ENDS_OF_NUMBER) + typed("values", ENDS_OF_VALUES),
    names=("calculate", "number_game", "evaluate", "derive", "figure"),
)
