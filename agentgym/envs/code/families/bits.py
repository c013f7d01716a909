"""Bit manipulation: numbers of a fixed width, shifted, masked, reversed and counted."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, one


def _number(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    width: int = plan.frame.values["w"]
    if rng.random() < 0.15:
        return [one([0, 1, (1 << width) - 1, 1 << (width - 1)], rng)]
    return [int(rng.integers(1 << 32)) % (1 << width)]


def _two(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    return _number(rng, difficulty, plan) + _number(rng, difficulty, plan)


WIDTHS = choice(6, 8, 10, 12, 16, 20, 24, 32)
FRAMES = (
    Frame(
        "`x` is an unsigned $w-bit integer (from 0 to 2 ** $w - 1).",
        "x",
        _number,
        "w = $w",
        slots={"w": WIDTHS},
        gives="x",
        asks="Apply these steps in order. Bit 0 is the least significant bit, and bits beyond that width are always "
        "dropped:",
    ),
    Frame(
        "`x` and `y` are unsigned $w-bit integers (from 0 to 2 ** $w - 1).",
        "x, y",
        _two,
        "w = $w\nx = x ^ y",
        ("w = $w\nx = x | y", "w = $w\nx = x & y"),
        slots={"w": WIDTHS},
        gives="x",
        asks="Replace `x` with the XOR of both, then apply these steps in order. Bit 0 is the least significant bit, "
        "and bits beyond that width are always dropped:",
    ),
)
TURN = "x = int(format(x, f'0{w}b')[::-1], 2)"
RULES = (
    Rule(
        "Shift `x` left by $n.",
        "x = x << $n & (1 << w) - 1",
        ("x = (x << $n | x >> w - $n) & (1 << w) - 1", "x = x >> $n"),
        {"n": integer(1, 4)},
    ),
    Rule("Shift `x` right by $n.", "x = x >> $n", ("x = (x >> $n | x << w - $n) & (1 << w) - 1",), {"n": integer(1, 2)}),
    Rule(
        "Rotate `x` left by $n: bits that leave on the left come back on the right.",
        "x = (x << $n | x >> w - $n) & (1 << w) - 1",
        ("x = (x >> $n | x << w - $n) & (1 << w) - 1", "x = x << $n & (1 << w) - 1"),
        {"n": integer(1, 5)},
    ),
    Rule(
        "Rotate `x` right by $n: bits that leave on the right come back on the left.",
        "x = (x >> $n | x << w - $n) & (1 << w) - 1",
        ("x = (x << $n | x >> w - $n) & (1 << w) - 1", "x = x >> $n"),
        {"n": integer(1, 5)},
    ),
    Rule("Flip every bit.", "x = ~x & (1 << w) - 1", ("x = -x & (1 << w) - 1",)),
    Rule(
        "Reverse the order of the bits, so that bit 0 becomes the most significant one.",
        TURN,
        ("x = int(bin(x)[:1:-1], 2)",),
    ),
    Rule(
        "Replace `x` with `x` XOR $m.",
        "x = x ^ $m & (1 << w) - 1",
        ("x = x | $m & (1 << w) - 1", "x = x & $m"),
        {"m": integer(3, 63, 20)},
    ),
    Rule("Set bit $n to 1.", "x = x | 1 << $n", ("x = x ^ 1 << $n", "x = x | 1 << $n - 1"), {"n": integer(1, 5)}),
    Rule("Set bit $n to 0.", "x = x & ~(1 << $n)", ("x = x ^ 1 << $n", "x = x & ~(1 << $n - 1)"), {"n": integer(1, 5)}),
    Rule(
        "Swap bit $a and bit $b.",
        "x = x ^ ((1 << $a | 1 << $b) if (x >> $a ^ x >> $b) & 1 else 0)",
        ("x = x ^ (1 << $a | 1 << $b)",),
        {"a": integer(0, 2), "b": integer(3, 5)},
    ),
    Rule(
        "Swap the bits of every pair (bit 0 with bit 1, bit 2 with bit 3, and so on).",
        "x = sum((x >> (i ^ 1) & 1) << i for i in range(w))",
        (TURN,),
    ),
    Rule("Clear the lowest set bit of `x` (0 stays 0).", "x = x & x - 1 if x else 0", ("x = x & ~1", "x = x & -x")),
    Rule(
        "Replace `x` with `x` XOR (`x` shifted right by one), which is its Gray code.",
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
        "the number of zeros in `x`, including leading zeros.",
        "return w - bin(x).count('1')",
        ("return bin(x)[2:].count('0')",),
    ),
    Rule(
        "the length of the longest run of ones in `x`.",
        RUN,
        (RUN.replace("split('0')", "split('1')"), "return bin(x).count('1')"),
    ),
    Rule(
        "`x` in binary as a string of that width, including leading zeros.",
        "return format(x, f'0{w}b')",
        ("return bin(x)[2:]", "return bin(x)"),
    ),
    Rule(
        "the list of the positions of its ones, lowest first.",
        "return [i for i in range(w) if x >> i & 1]",
        (
            "return [i for i, c in enumerate(format(x, f'0{w}b')) if c == '1']",
            "return [i for i in reversed(range(w)) if x >> i & 1]",
        ),
    ),
    Rule(
        "`x` interpreted as a signed two's complement integer of that width.",
        "return x - (1 << w) if x >> w - 1 else x",
        ("return -(x & (1 << w - 1) - 1) if x >> w - 1 else x",),
    ),
    Rule("whether the number of ones in `x` is odd.", "return bin(x).count('1') % 2 == 1", ("return x % 2 == 1",)),
)
FAMILY = ProgramFamily(
    "bits", FRAMES, typed("x", RULES), typed("x", ENDS), names=("mix", "encode", "scramble", "register", "flags")
)
