"""Bit work: a number of a fixed width, shifted, masked, turned round and counted."""

from agentgym.envs.code.families.family import Family, Frame, Plan, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, one


def _number(rng: Rng, difficulty: int, plan: Plan) -> list[object]:
    width: int = plan.frame.values["w"]
    if rng.random() < 0.15:
        return [one([0, 1, (1 << width) - 1, 1 << (width - 1)], rng)]
    return [int(rng.integers(1 << 32)) % (1 << width)]


def _two(rng: Rng, difficulty: int, plan: Plan) -> list[object]:
    return _number(rng, difficulty, plan) + _number(rng, difficulty, plan)


WIDTHS = choice(6, 8, 10, 12, 16, 20, 24, 32)
FRAMES = (
    Frame(
        "`x` is a number of $w bits (from 0 to 2 ** $w - 1).",
        "x",
        _number,
        "w = $w",
        slots={"w": WIDTHS},
        gives="x",
        asks="Take these steps, in this order; bit 0 is the least significant one and bits beyond that width are always "
        "dropped:",
    ),
    Frame(
        "`x` and `y` are numbers of $w bits (from 0 to 2 ** $w - 1).",
        "x, y",
        _two,
        "w = $w\nx = x ^ y",
        ("w = $w\nx = x | y", "w = $w\nx = x & y"),
        slots={"w": WIDTHS},
        gives="x",
        asks="Replace `x` by the exclusive or of both and take these steps, in this order; bit 0 is the least "
        "significant one "
        "and bits beyond that width are always dropped:",
    ),
)
TURN = "x = int(format(x, f'0{w}b')[::-1], 2)"
RULES = (
    Rule(
        "Shift `x` to the left by $n.",
        "x = x << $n & (1 << w) - 1",
        ("x = (x << $n | x >> w - $n) & (1 << w) - 1", "x = x >> $n"),
        {"n": integer(1, 4)},
    ),
    Rule(
        "Shift `x` to the right by $n.", "x = x >> $n", ("x = (x >> $n | x << w - $n) & (1 << w) - 1",), {"n": integer(1, 2)}
    ),
    Rule(
        "Rotate `x` to the left by $n: what leaves on the left comes back on the right.",
        "x = (x << $n | x >> w - $n) & (1 << w) - 1",
        ("x = (x >> $n | x << w - $n) & (1 << w) - 1", "x = x << $n & (1 << w) - 1"),
        {"n": integer(1, 5)},
    ),
    Rule(
        "Rotate `x` to the right by $n: what leaves on the right comes back on the left.",
        "x = (x >> $n | x << w - $n) & (1 << w) - 1",
        ("x = (x << $n | x >> w - $n) & (1 << w) - 1", "x = x >> $n"),
        {"n": integer(1, 5)},
    ),
    Rule("Turn over every bit (0 to 1, 1 to 0).", "x = ~x & (1 << w) - 1", ("x = -x & (1 << w) - 1",)),
    Rule("Put the bits in reverse order, bit 0 in the highest place.", TURN, ("x = int(bin(x)[:1:-1], 2)",)),
    Rule(
        "Replace `x` by its exclusive or with $m.",
        "x = x ^ $m & (1 << w) - 1",
        ("x = x | $m & (1 << w) - 1", "x = x & $m"),
        {"m": integer(3, 63, 20)},
    ),
    Rule("Set bit $n to 1.", "x = x | 1 << $n", ("x = x ^ 1 << $n", "x = x | 1 << $n - 1"), {"n": integer(1, 5)}),
    Rule("Set bit $n to 0.", "x = x & ~(1 << $n)", ("x = x ^ 1 << $n", "x = x & ~(1 << $n - 1)"), {"n": integer(1, 5)}),
    Rule(
        "Exchange bit $a and bit $b.",
        "x = x ^ ((1 << $a | 1 << $b) if (x >> $a ^ x >> $b) & 1 else 0)",
        ("x = x ^ (1 << $a | 1 << $b)",),
        {"a": integer(0, 2), "b": integer(3, 5)},
    ),
    Rule(
        "Exchange the bits of every pair (bit 0 with bit 1, bit 2 with bit 3 and so on).",
        "x = sum((x >> (i ^ 1) & 1) << i for i in range(w))",
        (TURN,),
    ),
    Rule("Turn the lowest 1 of `x` into 0 (a 0 stays 0).", "x = x & x - 1 if x else 0", ("x = x & ~1", "x = x & -x")),
    Rule(
        "Replace `x` by its exclusive or with `x` shifted to the right by one (its Gray code).",
        "x = x ^ x >> 1",
        ("x = x ^ x << 1 & (1 << w) - 1",),
    ),
    Rule("Add $n to `x`.", "x = x + $n & (1 << w) - 1", ("x = x ^ $n & (1 << w) - 1",), {"n": integer(1, 40, 10)}),
)
RUN = "return max(len(run) for run in format(x, f'0{w}b').split('0'))"
ENDS = (
    Rule("`x`.", "return x"),
    Rule("the number of ones in `x`.", "return bin(x).count('1')", ("return bin(x).count('0')",)),
    Rule(
        "the number of zeros in `x`, those before its first 1 included.",
        "return w - bin(x).count('1')",
        ("return bin(x)[2:].count('0')",),
    ),
    Rule(
        "the length of the longest run of ones in `x`.",
        RUN,
        (RUN.replace("split('0')", "split('1')"), "return bin(x).count('1')"),
    ),
    Rule(
        "`x` in binary as a string of that width, zeros in front included.",
        "return format(x, f'0{w}b')",
        ("return bin(x)[2:]", "return bin(x)"),
    ),
    Rule(
        "the list of the places of its ones, the lowest first.",
        "return [i for i in range(w) if x >> i & 1]",
        (
            "return [i for i, c in enumerate(format(x, f'0{w}b')) if c == '1']",
            "return [i for i in reversed(range(w)) if x >> i & 1]",
        ),
    ),
    Rule(
        "`x` read as a signed number in two's complement of that width.",
        "return x - (1 << w) if x >> w - 1 else x",
        ("return -(x & (1 << w - 1) - 1) if x >> w - 1 else x",),
    ),
    Rule("whether the number of ones in `x` is odd.", "return bin(x).count('1') % 2 == 1", ("return x % 2 == 1",)),
)
FAMILY = Family(
    "bits", FRAMES, typed("x", RULES), typed("x", ENDS), names=("mix", "encode", "scramble", "register", "flags")
)
