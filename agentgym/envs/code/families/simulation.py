"""Simulation: a robot, a stack machine and a cellular automaton; the task defines their commands and rules."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, length, one, subset


def _commands(plan: ProgramSpec) -> list[str]:
    """Return the commands of a plan: the first text in backticks of each step."""
    return [step.says.split("`")[1] for step in plan.steps]


def _walk(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    letters = [*_commands(plan), "F", "F", "L"]
    return ["".join(one(letters, rng) for _number in range(length(rng, difficulty, 14)))]


def _program(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    words = _commands(plan)
    return [
        [
            f"push {int(rng.integers(-9, 10))}" if rng.random() < 0.5 else one(words, rng)
            for _number in range(length(rng, difficulty, 10) + 2)
        ]
    ]


def _cells(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [[int(rng.random() < 0.45) for _number in range(int(rng.integers(1, 12 + 2 * difficulty)))]]


TURN = (
    "x, y, dx, dy = 0, 0, 0, 1\nfor c in commands:\n    if c == 'F':\n        x, y = x + $n * dx, y + $n * dy\n"
    "    elif c == 'L':\n        dx, dy = -dy, dx"
)
MACHINE = (
    "stack = []\nfor command in commands:\n    word, *rest = command.split()\n    if word == 'push':\n"
    "        stack.append(int(rest[0]))"
)
FRAMES = (
    Frame(
        "A robot starts at (0, 0) facing north, toward (0, 1); east is toward (1, 0). `commands` is a string of "
        "letters that are executed one after another: F moves forward by $n, L turns left in place.",
        "commands",
        _walk,
        TURN,
        (TURN.replace("-dy, dx", "dy, -dx"),),
        {"n": integer(1, 3)},
        gives="robot",
        indent=1,
        asks="The other commands are:",
    ),
    Frame(
        "A machine has a stack of integers, initially empty. `commands` is a list of strings that are executed one "
        "after another: 'push 7' pushes 7 (or any other integer). A command that needs more numbers than the stack "
        "holds does nothing.",
        "commands",
        _program,
        MACHINE,
        (),
        gives="machine",
        indent=1,
        asks="The other commands are:",
    ),
    Frame(
        "`cells` is a list of zeros and ones with at least one element.",
        "cells",
        _cells,
        "cells = list(cells)",
        gives="cells",
        asks="Apply these rules in order; each rule reads all cells as they were before it was applied:",
    ),
)
ROBOT = (
    Rule("`R` turns right.", "if c == 'R':\n    dx, dy = dy, -dx", ("if c == 'R':\n    dx, dy = -dx, -dy",), once=True),
    Rule(
        "`B` moves backward by $n without turning.",
        "if c == 'B':\n    x, y = x - $n * dx, y - $n * dy",
        ("if c == 'B':\n    dx, dy = -dx, -dy\n    x, y = x + $n * dx, y + $n * dy", "if c == 'B':\n    y -= $n"),
        {"n": integer(1, 5)},
        once=True,
    ),
    Rule(
        "`U` turns around by 180 degrees.",
        "if c == 'U':\n    dx, dy = -dx, -dy",
        ("if c == 'U':\n    dx, dy = dy, dx",),
        once=True,
    ),
    Rule(
        "`N` makes it face north.",
        "if c == 'N':\n    dx, dy = 0, 1",
        ("if c == 'N':\n    y += 1",),
        once=True,
    ),
    Rule(
        "`H` moves it to (0, 0) without turning.",
        "if c == 'H':\n    x = y = 0",
        ("if c == 'H':\n    x, y, dx, dy = 0, 0, 0, 1",),
        once=True,
    ),
    Rule(
        "`M` swaps its coordinates without turning: (x, y) becomes (y, x).",
        "if c == 'M':\n    x, y = y, x",
        ("if c == 'M':\n    x, y, dx, dy = y, x, dy, dx", "if c == 'M':\n    x, y = -x, -y"),
        once=True,
    ),
    Rule(
        "`S` moves sideways by $n to its left, without turning.",
        "if c == 'S':\n    x, y = x - $n * dy, y + $n * dx",
        ("if c == 'S':\n    x, y = x + $n * dy, y - $n * dx", "if c == 'S':\n    x -= $n"),
        {"n": integer(1, 4)},
        once=True,
    ),
    Rule(
        "`J` moves forward by $n if x is even; otherwise it turns left.",
        "if c == 'J':\n    x, y, dx, dy = (x + $n * dx, y + $n * dy, dx, dy) if x % 2 == 0 else (x, y, -dy, dx)",
        (
            "if c == 'J':\n    x, y, dx, dy = (x + $n * dx, y + $n * dy, dx, dy) if y % 2 == 0 else (x, y, -dy, dx)",
            "if c == 'J':\n    x, y = x + $n * dx, y + $n * dy",
        ),
        {"n": integer(2, 6)},
        once=True,
    ),
)
STACK = (
    Rule(
        "`add` replaces the top two numbers with their sum.",
        "if word == 'add' and len(stack) > 1:\n    stack.append(stack.pop() + stack.pop())",
        ("if word == 'add' and stack:\n    stack.append(sum(stack))",),
        once=True,
    ),
    Rule(
        "`sub` replaces the top two numbers with the second one minus the top one.",
        "if word == 'sub' and len(stack) > 1:\n    top = stack.pop()\n    stack.append(stack.pop() - top)",
        ("if word == 'sub' and len(stack) > 1:\n    stack.append(stack.pop() - stack.pop())",),
        once=True,
    ),
    Rule(
        "`dup` pushes a copy of the top number.",
        "if word == 'dup' and stack:\n    stack.append(stack[-1])",
        ("if word == 'dup' and stack:\n    stack.append(stack[0])", "if word == 'dup' and stack:\n    stack[-1] *= 2"),
        once=True,
    ),
    Rule(
        "`swap` swaps the top two numbers.",
        "if word == 'swap' and len(stack) > 1:\n    stack[-1], stack[-2] = stack[-2], stack[-1]",
        ("if word == 'swap' and len(stack) > 1:\n    stack[0], stack[-1] = stack[-1], stack[0]",),
        once=True,
    ),
    Rule(
        "`neg` negates the top number.",
        "if word == 'neg' and stack:\n    stack[-1] = -stack[-1]",
        ("if word == 'neg' and stack:\n    stack[-1] = -abs(stack[-1])",),
        once=True,
    ),
    Rule(
        "`over` pushes a copy of the second number from the top.",
        "if word == 'over' and len(stack) > 1:\n    stack.append(stack[-2])",
        (
            "if word == 'over' and len(stack) > 1:\n    stack.append(stack[1])",
            "if word == 'over' and len(stack) > 1:\n    stack.append(stack[-1])",
        ),
        once=True,
    ),
    Rule(
        "`rot` moves the number at the bottom to the top.",
        "if word == 'rot' and stack:\n    stack.append(stack.pop(0))",
        ("if word == 'rot' and stack:\n    stack.insert(0, stack.pop())",),
        once=True,
    ),
    Rule(
        "`max` replaces the top two numbers with the larger one.",
        "if word == 'max' and len(stack) > 1:\n    stack.append(max(stack.pop(), stack.pop()))",
        ("if word == 'max' and len(stack) > 1:\n    stack.append(max(stack))",),
        once=True,
    ),
    Rule(
        "`mod` replaces the top number with its remainder after division by $n.",
        "if word == 'mod' and stack:\n    stack[-1] %= $n",
        (
            "if word == 'mod' and stack:\n    stack[-1] //= $n",
            "if word == 'mod' and stack:\n    stack[-1] = abs(stack[-1]) % $n",
        ),
        {"n": integer(2, 7)},
        once=True,
    ),
    Rule(
        "`clear` removes all numbers but the top one.",
        "if word == 'clear' and stack:\n    stack = stack[-1:]",
        ("if word == 'clear':\n    stack = []", "if word == 'clear' and stack:\n    stack = stack[:1]"),
        once=True,
    ),
)
CELLS = (
    Rule(
        "A cell becomes 1 if the number of ones among itself and its two neighbors is in $counts, and 0 otherwise; "
        "cells beyond the ends count as 0.",
        "padded = [0, *cells, 0]\ncells = [int(sum(padded[i:i + 3]) in $counts) for i in range(len(cells))]",
        (
            "padded = [cells[-1], *cells, cells[0]]\n"
            "cells = [int(sum(padded[i:i + 3]) in $counts) for i in range(len(cells))]",
            "padded = [0, *cells, 0]\ncells = [int(padded[i] + padded[i + 2] in $counts) for i in range(len(cells))]",
        ),
        {"counts": subset(range(0, 4), 1, 3)},
    ),
    Rule(
        "A cell becomes 1 if exactly one of its two neighbors is 1, and 0 otherwise; the first and the last cell are "
        "neighbors.",
        "cells = [cells[i - 1] ^ cells[(i + 1) % len(cells)] for i in range(len(cells))]",
        (
            "padded = [0, *cells, 0]\ncells = [padded[i] ^ padded[i + 2] for i in range(len(cells))]",
            "cells = [cells[i - 1] | cells[(i + 1) % len(cells)] for i in range(len(cells))]",
        ),
    ),
    Rule(
        "Every 1 moves one cell to the right if that cell exists and is 0; all of them move at once.",
        "cells = [int(c and not (i + 1 < len(cells) and not cells[i + 1]) or not c and i > 0 and cells[i - 1]) "
        "for i, c in enumerate(cells)]",
        ("cells = [0, *cells[:-1]]", "cells = [cells[-1], *cells[:-1]]"),
    ),
    Rule(
        "Every cell takes the value of its left neighbor; the first one becomes $v.",
        "cells = [$v, *cells[:-1]]",
        ("cells = [cells[-1], *cells[:-1]]", "cells = [*cells[1:], $v]"),
        {"v": choice(0, 1)},
    ),
    Rule(
        "Every cell whose index (from 0) is divisible by $n flips: 0 becomes 1 and 1 becomes 0.",
        "cells = [1 - c if i % $n == 0 else c for i, c in enumerate(cells)]",
        (
            "cells = [1 - c if i % $n == 0 else c for i, c in enumerate(cells, 1)]",
            "cells = [1 - c if i % $n else c for i, c in enumerate(cells)]",
        ),
        {"n": integer(2, 5)},
    ),
    Rule(
        "A 1 with no 1 on either side becomes 0; cells beyond the ends count as 0.",
        "padded = [0, *cells, 0]\ncells = [int(c and padded[i] + padded[i + 2] > 0) for i, c in enumerate(cells)]",
        ("padded = [0, *cells, 0]\ncells = [int(c and padded[i] + padded[i + 2] < 2) for i, c in enumerate(cells)]",),
    ),
)
ENDS = (
    *typed(
        "robot",
        (
            Rule("its position as a tuple (x, y).", "return x, y", ("return y, x",)),
            Rule(
                "its Manhattan distance from (0, 0): the sum of the absolute values of x and y.",
                "return abs(x) + abs(y)",
                ("return abs(x + y)", "return max(abs(x), abs(y))"),
            ),
            Rule(
                "a tuple of x, y and the direction it faces: 'N', 'E', 'S' or 'W'.",
                "return x, y, {(0, 1): 'N', (1, 0): 'E', (0, -1): 'S', (-1, 0): 'W'}[dx, dy]",
                ("return x, y, {(0, 1): 'N', (1, 0): 'W', (0, -1): 'S', (-1, 0): 'E'}[dx, dy]",),
            ),
            Rule(
                "x plus $n times y.",
                "return x + $n * y",
                ("return $n * (x + y)", "return $n * x + y"),
                {"n": choice(-10, 10, 100, 1000)},
            ),
        ),
    ),
    *typed(
        "machine",
        (
            Rule("the stack as a list, bottom first.", "return stack", ("return stack[::-1]",)),
            Rule(
                "the top number, or None if the stack is empty.",
                "return stack[-1] if stack else None",
                ("return stack[-1] if stack else 0", "return stack[0] if stack else None"),
            ),
            Rule(
                "a tuple of the count of the numbers and their sum.",
                "return len(stack), sum(stack)",
                ("return len(set(stack)), sum(stack)", "return sum(stack), len(stack)"),
            ),
        ),
    ),
    *typed(
        "cells",
        (
            Rule("the list.", "return cells"),
            Rule("the number of ones.", "return sum(cells)", ("return len(cells) - sum(cells)",)),
            Rule(
                "a string of the cells, with # for 1 and . for 0.",
                "return ''.join('#' if c else '.' for c in cells)",
                ("return ''.join('.' if c else '#' for c in cells)",),
            ),
            Rule(
                "the list of the indices (from 0) of the ones.",
                "return [i for i, c in enumerate(cells) if c]",
                ("return [i for i, c in enumerate(cells, 1) if c]",),
            ),
        ),
    ),
)
FAMILY = ProgramFamily(
    "simulation",
    FRAMES,
    typed("robot", ROBOT) + typed("machine", STACK) + typed("cells", CELLS),
    ENDS,
    names=("simulate", "run_all", "play", "execute", "evolve"),
)
