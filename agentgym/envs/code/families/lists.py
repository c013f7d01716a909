"""Lists of whole numbers: filtered, ordered, shifted, grouped and summed up."""

from agentgym.envs.code.families.family import Family, Frame, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, numbers

FRAMES = (
    Frame(
        "`values` is a list of whole numbers; it may be empty.",
        "values",
        lambda rng, difficulty, _: [numbers(rng, difficulty)],
        "values = list(values)",
        gives="list",
    ),
    Frame(
        "`first` and `second` are lists of whole numbers of any lengths.",
        "first, second",
        lambda rng, difficulty, _: [numbers(rng, difficulty, most=5), numbers(rng, difficulty, most=5)],
        "values = first + second",
        ("values = second + first",),
        gives="list",
        asks="Begin with the numbers of `first` followed by those of `second` and take these steps, in this order:",
    ),
    Frame(
        "`rows` is a list of lists of whole numbers; any of them may be empty.",
        "rows",
        lambda rng, difficulty, _: [[numbers(rng, 0, most=4) for _number in range(int(rng.integers(0, 4 + difficulty)))]],
        "values = [value for row in rows for value in row]",
        ("values = [sum(row) for row in rows]",),
        gives="list",
        asks="Begin with all numbers in one list, row after row, and take these steps, in this order:",
    ),
)
RULES = (
    Rule(
        "Keep the numbers that are greater than $n.",
        "values = [v for v in values if v > $n]",
        ("values = [v for v in values if v >= $n]",),
        {"n": integer(-8, 6)},
    ),
    Rule(
        "Drop the numbers that $n divides without remainder.",
        "values = [v for v in values if v % $n]",
        ("values = [v for v in values if v % $n == 0]",),
        {"n": integer(2, 5)},
    ),
    Rule(
        "Replace each number by its distance from $n.",
        "values = [abs(v - $n) for v in values]",
        ("values = [v - $n for v in values]",),
        {"n": integer(-9, 9)},
    ),
    Rule("Sort the numbers, the largest first.", "values = sorted(values, reverse=True)", ("values = values[::-1]",)),
    Rule(
        "Sort the numbers by their absolute values, the smallest first; of numbers with the same one the negative is first.",
        "values = sorted(values, key=lambda v: (abs(v), v))",
        ("values = sorted(values, key=lambda v: (abs(v), -v))", "values = sorted(values)"),
    ),
    Rule(
        "Keep only the last of numbers that are alike.",
        "values = [v for i, v in enumerate(values) if v not in values[i + 1:]]",
        ("values = list(dict.fromkeys(values))", "values = sorted(set(values))"),
    ),
    Rule(
        "Replace the list by the differences between neighbours, each number minus the one before it "
        "(so the list gets shorter by one, unless it is empty).",
        "values = [b - a for a, b in zip(values, values[1:])]",
        (
            "values = [a - b for a, b in zip(values, values[1:])]",
            "values = [abs(b - a) for a, b in zip(values, values[1:])]",
        ),
    ),
    Rule(
        "Replace each number by the sum of all numbers up to and with it.",
        "values = [sum(values[:i + 1]) for i in range(len(values))]",
        ("values = [sum(values[:i]) for i in range(len(values))]",),
        once=True,
    ),
    Rule(
        "Rotate the list to the right by $n places, around the end as often as it takes.",
        "values = values[-($n % len(values)):] + values[:-($n % len(values))] if values and $n % len(values) else values",
        ("values = values[$n:] + values[:$n]",),
        {"n": integer(1, 6, 2)},
    ),
    Rule(
        "Replace every number below $a by $a and every number above $b by $b.",
        "values = [min(max(v, $a), $b) for v in values]",
        ("values = [v for v in values if $a <= v <= $b]",),
        {"a": integer(-12, -3), "b": integer(3, 12)},
    ),
    Rule(
        "Cut the list into pieces of $n (the last may be shorter) and replace each piece by its sum.",
        "values = [sum(values[i:i + $n]) for i in range(0, len(values), $n)]",
        (
            "values = [sum(values[i:i + $n]) for i in range(0, len(values) - $n + 1, $n)]",
            "values = [sum(values[i:i + $n]) for i in range(len(values) - $n + 1)]",
        ),
        {"n": integer(2, 4)},
    ),
    Rule(
        "Keep the numbers that are greater than the one before them in the list; the first has none before it and stays.",
        "values = [v for i, v in enumerate(values) if i == 0 or v > values[i - 1]]",
        (
            "values = [v for i, v in enumerate(values) if v > values[i - 1]]",
            "values = [v for i, v in enumerate(values) if i == 0 or v >= values[i - 1]]",
        ),
    ),
    Rule(
        "Add to each number $n times its position, where the first has position 0.",
        "values = [v + $n * i for i, v in enumerate(values)]",
        ("values = [v + $n * i for i, v in enumerate(values, 1)]",),
        {"n": choice(-3, -2, -1, 1, 2, 3, 4, 5)},
    ),
    Rule(
        "Take in turn the first number, the last, the second, the last but one and so on, until all are taken.",
        "values = [values[i // 2] if i % 2 == 0 else values[-1 - i // 2] for i in range(len(values))]",
        ("values = [values[-1 - i // 2] if i % 2 == 0 else values[i // 2] for i in range(len(values))]",),
    ),
)
ENDS = (
    Rule("the list.", "return values"),
    Rule("the sum of the numbers.", "return sum(values)", ("return sum(set(values))",)),
    Rule(
        "the largest sum of $n neighbours, or None where there are fewer than $n numbers.",
        "return max((sum(values[i:i + $n]) for i in range(len(values) - $n + 1)), default=None)",
        (
            "return max((sum(values[i:i + $n]) for i in range(len(values) - $n)), default=None)",
            "return sum(sorted(values)[-$n:]) if len(values) >= $n else None",
        ),
        {"n": integer(2, 4)},
    ),
    Rule(
        "the second largest of the different numbers, or None where there are fewer than two.",
        "return sorted(set(values))[-2] if len(set(values)) > 1 else None",
        ("return sorted(values)[-2] if len(values) > 1 else None",),
    ),
    Rule(
        "the positions (from 0) of the smallest number, all of them, as a list.",
        "return [i for i, v in enumerate(values) if v == min(values)]",
        ("return [values.index(min(values))] if values else []",),
    ),
    Rule(
        "the most frequent number (the smallest where several are as frequent), or None for an empty list.",
        "return min(values, key=lambda v: (-values.count(v), v)) if values else None",
        ("return max(values, key=values.count) if values else None",),
    ),
    Rule(
        "a tuple of two lists: the even numbers and the odd numbers, each in their order.",
        "return [v for v in values if v % 2 == 0], [v for v in values if v % 2]",
        (
            "return [v for v in values[::2]], [v for v in values[1::2]]",
            "return [[v for v in values if v % 2 == 0], [v for v in values if v % 2]]",
        ),
    ),
    Rule(
        "the number of pairs of positions i < j at which the earlier number is greater than the later.",
        "return sum(a > b for i, a in enumerate(values) for b in values[i + 1:])",
        (
            "return sum(a > b for a, b in zip(values, values[1:]))",
            "return sum(a >= b for i, a in enumerate(values) for b in values[i + 1:])",
        ),
    ),
)
FAMILY = Family(
    "lists",
    FRAMES,
    typed("list", RULES),
    typed("list", ENDS),
    names=("reduce_list", "arrange", "summarise", "sift", "shape"),
)
