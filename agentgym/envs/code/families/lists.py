"""Lists of integers: filtered, sorted, shifted, grouped and summed."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, numbers

FRAMES = (
    Frame(
        "`values` is a list of integers; it may be empty.",
        "values",
        lambda rng, difficulty, _: [numbers(rng, difficulty)],
        "values = list(values)",
        gives="list",
    ),
    Frame(
        "`first` and `second` are lists of integers of any length.",
        "first, second",
        lambda rng, difficulty, _: [numbers(rng, difficulty, most=5), numbers(rng, difficulty, most=5)],
        "values = first + second",
        ("values = second + first",),
        gives="list",
        asks="Start with the numbers of `first` followed by those of `second` and apply these steps in order:",
    ),
    Frame(
        "`rows` is a list of lists of integers; any of them may be empty.",
        "rows",
        lambda rng, difficulty, _: [[numbers(rng, 0, most=4) for _number in range(int(rng.integers(0, 4 + difficulty)))]],
        "values = [value for row in rows for value in row]",
        ("values = [sum(row) for row in rows]",),
        gives="list",
        asks="Start with all numbers in one list, row after row, and apply these steps in order:",
    ),
)
RULES = (
    Rule(
        "Keep only the numbers that are greater than $n.",
        "values = [v for v in values if v > $n]",
        ("values = [v for v in values if v >= $n]",),
        {"n": integer(-8, 6)},
    ),
    Rule(
        "Drop the numbers that are divisible by $n.",
        "values = [v for v in values if v % $n]",
        ("values = [v for v in values if v % $n == 0]",),
        {"n": integer(2, 5)},
    ),
    Rule(
        "Replace each number with its distance from $n.",
        "values = [abs(v - $n) for v in values]",
        ("values = [v - $n for v in values]",),
        {"n": integer(-9, 9)},
    ),
    Rule("Sort the numbers, largest first.", "values = sorted(values, reverse=True)", ("values = values[::-1]",)),
    Rule(
        "Sort the numbers by absolute value, smallest first; of numbers with the same absolute value, the negative "
        "ones come first.",
        "values = sorted(values, key=lambda v: (abs(v), v))",
        ("values = sorted(values, key=lambda v: (abs(v), -v))", "values = sorted(values)"),
    ),
    Rule(
        "Drop duplicates, keeping the last occurrence of each number.",
        "values = [v for i, v in enumerate(values) if v not in values[i + 1:]]",
        ("values = list(dict.fromkeys(values))", "values = sorted(set(values))"),
    ),
    Rule(
        "Replace the list with the differences between neighbors, each number minus the one before it (so the list "
        "gets shorter by one, unless it is empty).",
        "values = [b - a for a, b in zip(values, values[1:])]",
        (
            "values = [a - b for a, b in zip(values, values[1:])]",
            "values = [abs(b - a) for a, b in zip(values, values[1:])]",
        ),
    ),
    Rule(
        "Replace each number with the sum of all numbers up to and including it.",
        "values = [sum(values[:i + 1]) for i in range(len(values))]",
        ("values = [sum(values[:i]) for i in range(len(values))]",),
        once=True,
    ),
    Rule(
        "Rotate the list right by $n positions, wrapping around as often as needed.",
        "values = values[-($n % len(values)):] + values[:-($n % len(values))] if values and $n % len(values) else values",
        ("values = values[$n:] + values[:$n]",),
        {"n": integer(1, 6, 2)},
    ),
    Rule(
        "Replace every number below $a with $a and every number above $b with $b.",
        "values = [min(max(v, $a), $b) for v in values]",
        ("values = [v for v in values if $a <= v <= $b]",),
        {"a": integer(-12, -3), "b": integer(3, 12)},
    ),
    Rule(
        "Split the list into chunks of $n (the last may be shorter) and replace each chunk with its sum.",
        "values = [sum(values[i:i + $n]) for i in range(0, len(values), $n)]",
        (
            "values = [sum(values[i:i + $n]) for i in range(0, len(values) - $n + 1, $n)]",
            "values = [sum(values[i:i + $n]) for i in range(len(values) - $n + 1)]",
        ),
        {"n": integer(2, 4)},
    ),
    Rule(
        "Keep only the first number and the numbers that are greater than the one before them in the list.",
        "values = [v for i, v in enumerate(values) if i == 0 or v > values[i - 1]]",
        (
            "values = [v for i, v in enumerate(values) if v > values[i - 1]]",
            "values = [v for i, v in enumerate(values) if i == 0 or v >= values[i - 1]]",
        ),
    ),
    Rule(
        "Add $n times its index to each number, where the first has index 0.",
        "values = [v + $n * i for i, v in enumerate(values)]",
        ("values = [v + $n * i for i, v in enumerate(values, 1)]",),
        {"n": choice(-3, -2, -1, 1, 2, 3, 4, 5)},
    ),
    Rule(
        "Reorder the numbers: the first, the last, the second, the second to last, and so on, until all are used.",
        "values = [values[i // 2] if i % 2 == 0 else values[-1 - i // 2] for i in range(len(values))]",
        ("values = [values[-1 - i // 2] if i % 2 == 0 else values[i // 2] for i in range(len(values))]",),
    ),
)
ENDS = (
    Rule("the list.", "return values"),
    Rule("the sum of the numbers.", "return sum(values)", ("return sum(set(values))",)),
    Rule(
        "the largest sum of $n consecutive numbers, or None if there are fewer than $n numbers.",
        "return max((sum(values[i:i + $n]) for i in range(len(values) - $n + 1)), default=None)",
        (
            "return max((sum(values[i:i + $n]) for i in range(len(values) - $n)), default=None)",
            "return sum(sorted(values)[-$n:]) if len(values) >= $n else None",
        ),
        {"n": integer(2, 4)},
    ),
    Rule(
        "the second largest of the distinct numbers, or None if there are fewer than two.",
        "return sorted(set(values))[-2] if len(set(values)) > 1 else None",
        ("return sorted(values)[-2] if len(values) > 1 else None",),
    ),
    Rule(
        "the list of all indices (from 0) at which the smallest number occurs.",
        "return [i for i, v in enumerate(values) if v == min(values)]",
        ("return [values.index(min(values))] if values else []",),
    ),
    Rule(
        "the most frequent number (in a tie, the smallest), or None for an empty list.",
        "return min(values, key=lambda v: (-values.count(v), v)) if values else None",
        ("return max(values, key=values.count) if values else None",),
    ),
    Rule(
        "a tuple of two lists, the even numbers and the odd numbers, each in their original order.",
        "return [v for v in values if v % 2 == 0], [v for v in values if v % 2]",
        (
            "return [v for v in values[::2]], [v for v in values[1::2]]",
            "return [[v for v in values if v % 2 == 0], [v for v in values if v % 2]]",
        ),
    ),
    Rule(
        "the number of pairs of indices i < j for which the number at i is greater than the number at j.",
        "return sum(a > b for i, a in enumerate(values) for b in values[i + 1:])",
        (
            "return sum(a > b for a, b in zip(values, values[1:]))",
            "return sum(a >= b for i, a in enumerate(values) for b in values[i + 1:])",
        ),
    ),
)
FAMILY = ProgramFamily(
    "lists",
    FRAMES,
    typed("list", RULES),
    typed("list", ENDS),
    names=("reduce_list", "arrange", "summarise", "sift", "shape"),
)
