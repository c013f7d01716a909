"""Dynamic programming: the optimum or the number of ways, over numbers transformed step by step."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, numbers, subset, word


def _positive(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [[abs(n) + 1 for n in numbers(rng, difficulty, -9, 9)]]


def _signed(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [numbers(rng, difficulty, -9, 12)]


def _target(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [int(rng.integers(0, 25 + 10 * difficulty))]


def _pair(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    most = 6 + difficulty
    first = word(rng, 0 if rng.random() < 0.1 else 2, most, "aabbcd")
    two = word(rng, 0 if rng.random() < 0.1 else 2, most, "aabbcd")
    return [first, first[:3] + two[:4] if rng.random() < 0.4 else two]


def _grid(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    rows, columns = (int(x) for x in rng.integers(1, 5 + difficulty // 2, 2))
    return [[[int(x) for x in rng.integers(-3, 10, columns)] for _row in range(rows)]]


FRAMES = (
    Frame(
        "`values` is a list of positive integers; it may be empty.",
        "values",
        _positive,
        "values = list(values)",
        gives="values",
    ),
    Frame(
        "`values` is a list of integers, which may be negative; it may be empty.",
        "values",
        _signed,
        "values = list(values)",
        gives="values",
    ),
    Frame("`n` is a non-negative integer.", "n", _target, gives="target", asks="First apply these steps in order:"),
    Frame(
        "`one` and `two` are strings of lowercase letters; they may be empty.",
        "one, two",
        _pair,
        gives="pair",
        asks="First apply these steps in order to both strings:",
    ),
    Frame(
        "`grid` is a list of rows of integers. All rows have the same length, and there is at least one row and one column.",
        "grid",
        _grid,
        "grid = [list(row) for row in grid]",
        gives="grid",
        asks="First apply these steps to the grid in order:",
    ),
)
VALUES = (
    Rule("Subtract $n from every number.", "values = [v - $n for v in values]", slots={"n": integer(1, 4)}),
    Rule(
        "Replace every third number (the third, the sixth, and so on) with 0.",
        "values = [0 if i % 3 == 2 else v for i, v in enumerate(values)]",
        ("values = [0 if i % 3 == 0 else v for i, v in enumerate(values)]",),
        once=True,
    ),
    Rule("Append the number $n.", "values = [*values, $n]", ("values = [$n, *values]",), {"n": integer(-3, 12)}),
    Rule(
        "Replace every number with its remainder after division by $n.",
        "values = [v % $n for v in values]",
        slots={"n": integer(7, 15)},
        once=True,
    ),
    Rule(
        "Move the second half of the list before the first; if the length is odd, the middle number belongs to the "
        "second half.",
        "values = values[len(values) // 2:] + values[:len(values) // 2]",
        ("values = values[(len(values) + 1) // 2:] + values[:(len(values) + 1) // 2]",),
    ),
    Rule(
        "Double every number that was greater than the one before it in the list.",
        "values = [2 * v if i and v > values[i - 1] else v for i, v in enumerate(values)]",
        ("values = [2 * v if i and v < values[i - 1] else v for i, v in enumerate(values)]",),
        once=True,
    ),
)
TARGET = (
    Rule("Add $a to `n`.", "n += $a", slots={"a": integer(1, 9, 2)}),
    Rule(
        "Replace `n` with its remainder after division by $m.",
        "n %= $m",
        ("n //= $m",),
        {"m": integer(17, 40, 5)},
        once=True,
    ),
    Rule(
        "If `n` is odd, add $a to it; otherwise halve it.",
        "n = n + $a if n % 2 else n // 2",
        ("n = n // 2 if n % 2 else n + $a",),
        {"a": integer(1, 9)},
    ),
    Rule(
        "Double `n` if it is less than $a.",
        "n = 2 * n if n < $a else n",
        ("n = 2 * n if n <= $a else n", "n = 2 * n"),
        {"a": integer(5, 20)},
    ),
)
PAIR = (
    Rule(
        "Remove every $c.",
        "one, two = one.replace($c, ''), two.replace($c, '')",
        ("one, two = one.replace($c, '', 1), two.replace($c, '', 1)",),
        {"c": choice(*"abcd")},
        once=True,
    ),
    Rule("Reverse it.", "one, two = one[::-1], two[::-1]", ("one, two = one[::-1], two",)),
    Rule(
        "Replace every $c with $d.",
        "one, two = one.replace($c, $d), two.replace($c, $d)",
        ("one, two = one.replace($d, $c), two.replace($d, $c)",),
        {"c": choice(*"ab"), "d": choice(*"cde")},
    ),
    Rule(
        "Append $s.",
        "one, two = one + $s, two + $s",
        ("one, two = $s + one, $s + two",),
        {"s": choice("ab", "ca", "d", "bb")},
        once=True,
    ),
    Rule(
        "Put a copy of its first letter in front of it (do nothing if it is empty).",
        "one, two = one[:1] + one, two[:1] + two",
        ("one, two = one + one[:1], two + two[:1]",),
    ),
)
GRID = (
    Rule(
        "Flip it vertically, so that the last row becomes the first.",
        "grid = grid[::-1]",
        ("grid = [row[::-1] for row in grid]",),
    ),
    Rule(
        "Transpose it, so that rows become columns.",
        "grid = [list(column) for column in zip(*grid)]",
        ("grid = [list(column) for column in zip(*grid[::-1])]",),
    ),
    Rule(
        "Replace every number below $n with $n.",
        "grid = [[max(v, $n) for v in row] for row in grid]",
        ("grid = [[min(v, $n) for v in row] for row in grid]",),
        {"n": integer(-1, 3)},
        once=True,
    ),
    Rule(
        "Add to every number the index of its row, counted from 0.",
        "grid = [[v + i for v in row] for i, row in enumerate(grid)]",
        (
            "grid = [[v + i for i, v in enumerate(row)] for row in grid]",
            "grid = [[v + i for v in row] for i, row in enumerate(grid, 1)]",
        ),
    ),
    Rule(
        "Multiply by $n every number whose row index plus column index (both counted from 0) is odd.",
        "grid = [[v * $n if (i + j) % 2 else v for j, v in enumerate(row)] for i, row in enumerate(grid)]",
        ("grid = [[v if (i + j) % 2 else v * $n for j, v in enumerate(row)] for i, row in enumerate(grid)]",),
        {"n": choice(-1, 2, 3)},
    ),
)
NON_ADJACENT = (
    "best = [0]\nfor i, v in enumerate(values):\n    best.append(max(best[-1], best[max(i - $k, 0)] + v))\nreturn best[-1]"
)
WAYS = "ways = [1]\nfor i in range(1, n + 1):\n    ways.append(sum(ways[i - s] for s in $steps if s <= i))\nreturn ways[n]"
COINS = (
    "ways = [1] + [0] * n\nfor s in $steps:\n    for i in range(s, n + 1):\n        ways[i] += ways[i - s]\nreturn ways[n]"
)
FEWEST = (
    "best = [0]\nfor i in range(1, n + 1):\n"
    "    best.append(min((best[i - s] + 1 for s in $steps if s <= i and best[i - s] is not None), default=None))\n"
    "return -1 if best[n] is None else best[n]"
)
GREEDY = "count = 0\nfor s in sorted($steps, reverse=True):\n    count += n // s\n    n %= s\nreturn -1 if n else count"
DISTANCE = (
    "row = [j * $a for j in range(len(two) + 1)]\nfor c in one:\n    last, row[0] = row[0], row[0] + $b\n"
    "    for j, d in enumerate(two, 1):\n"
    "        last, row[j] = row[j], min(row[j] + $b, row[j - 1] + $a, last + (0 if c == d else $c))\nreturn row[-1]"
)
COMMON = (
    "row = [0] * (len(two) + 1)\nfor c in one:\n    last = 0\n    for j, d in enumerate(two, 1):\n"
    "        last, row[j] = row[j], last + 1 if c == d else max(row[j], row[j - 1])\nreturn row[-1]"
)
SUBSTRING = "return max(j - i for i in range(len(one) + 1) for j in range(i, len(one) + 1) if one[i:j] in two)"
PATHS = (
    "for i, row in enumerate(grid):\n    for j in range(len(row)):\n"
    "        before = ([grid[i - 1][j]] if i else []) + ([row[j - 1]] if j else [])\n"
    "        row[j] += max(before, default=0)\nreturn grid[-1][-1]"
)
FALL = (
    "best = grid[0]\nfor row in grid[1:]:\n    best = [v + min(best[max(j - 1, 0):j + 2]) for j, v in "
    "enumerate(row)]\nreturn min(best)"
)
RISING = (
    "best = []\nfor i, v in enumerate(values):\n"
    "    best.append(1 + max((best[j] for j in range(i) if v - values[j] >= $d), default=0))\n"
    "return max(best, default=0)"
)
RUN = "best = here = 0\nfor v in values:\n    here = max(here + v, 0)\n    best = max(best, here)\nreturn best"
HALVES = "sums = {0}\nfor v in values:\n    sums |= {s + v for s in sums}\nreturn len(sums)"
ENDS = (
    *typed(
        "values",
        (
            Rule(
                "the largest sum of numbers chosen so that the positions of any two of them differ by more than $k; "
                "choosing none gives the sum 0.",
                NON_ADJACENT,
                (
                    NON_ADJACENT.replace("i - $k", "i - $k + 1"),
                    "return max((sum(v for v in values[i::$k + 1] if v > 0) for i in range($k + 1)), default=0)",
                ),
                {"k": integer(1, 3)},
            ),
            Rule(
                "the length of the longest subsequence (left to right, not necessarily contiguous) in which each "
                "number is greater than the one before it by at least $d.",
                RISING,
                (
                    RISING.replace(">= $d", "> $d"),
                    "run = best = 1\nfor a, b in zip(values, values[1:]):\n"
                    "    run = run + 1 if b - a >= $d else 1\n    best = max(best, run)\n"
                    "return best if values else 0",
                ),
                {"d": integer(1, 4)},
            ),
            Rule(
                "the largest sum of a contiguous part of the list (the empty part has the sum 0).",
                RUN,
                (
                    "return sum(v for v in values if v > 0)",
                    RUN.replace("max(here + v, 0)", "max(here + v, v)").replace("best = here = 0", "best = here = -99"),
                ),
            ),
            Rule(
                "the number of different sums that can be formed by adding up any of the numbers, each at most once "
                "(choosing none gives the sum 0).",
                HALVES,
                (
                    "return len({0} | {sum(values[i:j]) for i in range(len(values)) for j in range(i, len(values) + 1)})",
                    "return 2 ** len(values)",
                ),
            ),
        ),
    ),
    *typed(
        "target",
        (
            Rule(
                "in how many orders steps of the lengths $steps, each used as often as one likes, add up to "
                "`n` (1 for `n` = 0).",
                WAYS,
                (COINS,),
                {"steps": subset(range(1, 7), 2, 4)},
            ),
            Rule(
                "in how many ways coins of the values $steps, each used as often as one likes, add up to `n`, "
                "whatever their order (1 for `n` = 0).",
                COINS,
                (WAYS,),
                {"steps": subset(range(1, 9), 2, 4)},
            ),
            Rule(
                "the smallest number of coins that add up to `n`, where the coin values are $steps and each may be "
                "used any number of times, or -1 if it is impossible.",
                FEWEST,
                (GREEDY, FEWEST.replace("-1 if", "0 if")),
                {"steps": subset(range(2, 12), 2, 4)},
            ),
        ),
    ),
    *typed(
        "pair",
        (
            Rule(
                "the smallest cost of turning `one` into `two`, where inserting a letter costs $a, deleting one "
                "costs $b and replacing one costs $c.",
                DISTANCE,
                (
                    DISTANCE.replace("(0 if c == d else $c)", "$c"),
                    DISTANCE.replace("last + (0 if c == d else $c)", "last + (0 if c == d else $c + 1)"),
                    "return abs(len(one) - len(two)) + sum(c != d for c, d in zip(one, two))",
                ),
                {"a": integer(1, 3), "b": integer(1, 3), "c": integer(1, 4)},
            ),
            Rule(
                "the length of the longest common subsequence of the two strings (its letters appear in both in the "
                "same order, but not necessarily next to one another).",
                COMMON,
                (SUBSTRING, "return len(set(one) & set(two))"),
            ),
            Rule(
                "the length of the longest common substring of the two strings (a contiguous part of both).",
                SUBSTRING,
                (COMMON, "return next((i for i, (c, d) in enumerate(zip(one, two)) if c != d), min(len(one), len(two)))"),
            ),
        ),
    ),
    *typed(
        "grid",
        (
            Rule(
                "the largest sum of numbers along a path from the first number of the first row to the last number "
                "of the last row that moves only right or down.",
                PATHS,
                (
                    PATHS.replace("max(before, default=0)", "min(before, default=0)"),
                    "return sum(grid[0]) + sum(row[-1] for row in grid[1:])",
                ),
            ),
            Rule(
                "the smallest sum of numbers along a path from any number in the first row to any in the last row, "
                "where each step goes to the next row, in the same column or an adjacent one.",
                FALL,
                (FALL.replace("best[max(j - 1, 0):j + 2]", "best[j:j + 2]"), "return sum(min(row) for row in grid)"),
            ),
        ),
    ),
)
FAMILY = ProgramFamily(
    "dynamic",
    FRAMES,
    typed("values", VALUES) + typed("target", TARGET) + typed("pair", PAIR) + typed("grid", GRID),
    ENDS,
    names=("best", "optimise", "count_ways", "choose", "score"),
)
