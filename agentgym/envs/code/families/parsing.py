"""Parsing: pairs in several notations, arithmetic with custom precedence, brackets."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, length, one, word

LEVELS = ["info", "warn", "error", "debug"]


def _name(rng: Rng) -> str:
    return one(["a", "b", "ab", "key", "id", word(rng, 1, 4)], rng)


def _pairs(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    equals, comma = plan.frame.values["eq"], plan.frame.values["sep"]

    def spaced(text: str) -> str:
        return " " * int(rng.integers(2)) + text + " " * int(rng.integers(2))

    pieces = [
        f"{spaced(_name(rng))}{equals}{spaced(str(int(rng.integers(-9, 100))))}"
        for _number in range(length(rng, difficulty, 6))
    ]
    if pieces and rng.random() < 0.2:
        pieces.insert(int(rng.integers(len(pieces))), " " * int(rng.integers(2)))
    return [comma.join(pieces)]


def _runs(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return ["".join(f"{one(['', 2, 3, 7, 12], rng)}{one('abcxyz', rng)}" for _number in range(length(rng, difficulty, 7)))]


def _lines(rng: Rng, difficulty: int, plan: ProgramSpec) -> list[object]:
    mark = plan.frame.values["mark"]
    lines: list[str] = []
    for _number in range(length(rng, difficulty, 7)):
        line = f"{one(LEVELS, rng)} {int(rng.integers(0, 60))}"
        kind = rng.random()
        lines.append(
            "" if kind < 0.12 else mark + line if kind < 0.25 else f"{line} {mark} {word(rng)}" if kind < 0.4 else line
        )
    return ["\n".join(lines)]


def _sum(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    text = str(int(rng.integers(0, 20)))
    for _number in range(int(rng.integers(0, 5 + difficulty))):
        text += f"{one(['+', '-', '*', ' + ', ' - ', ' * '], rng)}{int(rng.integers(0, 13))}"
    return [text]


def _brackets(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    text, open_ = "", list[str]()
    for _number in range(int(rng.integers(0 if rng.random() < 0.1 else 3, 12 + 3 * difficulty))):
        kind = rng.random()
        if kind < 0.4:
            open_.append(one("([", rng))
            text += open_[-1]
        elif kind < 0.75 and open_:
            text += ")" if open_.pop() == "(" else "]"
        else:
            text += one("abcxy", rng)
    text += "".join(")" if c == "(" else "]" for c in reversed(open_))
    if text and rng.random() < 0.35:
        place = int(rng.integers(len(text)))
        text = text[:place] + one(["", ")", "(", "]"], rng) + text[place + 1 :]
    return [text]


PAIRS = (
    "pairs = []\nfor piece in text.split($sep):\n    if piece.strip():\n"
    "        name, _, number = piece.partition($eq)\n        pairs.append((name.strip(), int(number)))"
)
LOG = (
    "pairs = []\nfor line in text.split('\\n'):\n    line = line.partition($mark)[0].strip()\n    if line:\n"
    "        name, number = line.split()\n        pairs.append((name, int(number)))"
)
RUNS = (
    "pairs, number = [], ''\nfor c in text:\n    if c.isdigit():\n        number += c\n    else:\n"
    "        pairs.append((c, int(number or 1)))\n        number = ''"
)
TOKENS = "import re\ntokens = [int(t) if t.isdigit() else t for t in re.findall(r'[0-9]+|[-+*]', text)]"
FRAMES = (
    Frame(
        "`text` consists of entries separated by $sep. Each entry is a name of lowercase letters, $eq and an "
        "integer, which may be negative. Ignore spaces around names and numbers, and ignore blank entries; the text "
        "may be empty.",
        "text",
        _pairs,
        PAIRS,
        (PAIRS.replace("name.strip()", "name"), PAIRS + "\npairs = list(dict(pairs).items())"),
        {"eq": choice("=", ":", "->"), "sep": choice(";", ",", "|", "/")},
        gives="pairs",
        asks="Parse it into a list of pairs (name, number) and apply these steps in order:",
    ),
    Frame(
        "`text` has lines such as 'warn 12': a word, a space and an integer. Everything from $mark to the end of the "
        "line is a comment; ignore lines with nothing else on them.",
        "text",
        _lines,
        LOG,
        (LOG.replace("line.partition($mark)[0].strip()", "'' if $mark in line else line"),),
        {"mark": choice("#", "%", "!")},
        gives="pairs",
        asks="Parse it into a list of pairs (word, number) and apply these steps in order:",
    ),
    Frame(
        "`text` is a run-length encoding such as '3ab12c': letters, each preceded by the number of times it is "
        "repeated (once if there is no number).",
        "text",
        _runs,
        RUNS,
        ("pairs = [(c, int(b) if b.isdigit() else 1) for b, c in zip('1' + text, text) if c.isalpha()]",),
        gives="pairs",
        asks="Parse it into a list of pairs (letter, number) and apply these steps in order:",
    ),
    Frame(
        "`text` is an arithmetic expression: non-negative integers separated by +, - or *, with optional spaces.",
        "text",
        _sum,
        TOKENS,
        ("tokens = [int(t) if t.isdigit() else t for t in text.replace(' ', '')]",),
        gives="tokens",
        asks="Parse it and apply these steps in order:",
    ),
    Frame(
        "`text` is a string of lowercase letters and the brackets ( ) [ ], in any order; it may be empty.",
        "text",
        _brackets,
        gives="brackets",
    ),
)
RULES = (
    *typed(
        "pairs",
        (
            Rule(
                "Of pairs with the same name, keep only the last, in its position.",
                "pairs = [p for i, p in enumerate(pairs) if all(q[0] != p[0] for q in pairs[i + 1:])]",
                ("pairs = list(dict(pairs).items())", "pairs = list(dict.fromkeys(pairs))"),
                once=True,
            ),
            Rule(
                "Of pairs with the same name, keep only the first.",
                "pairs = [p for i, p in enumerate(pairs) if all(q[0] != p[0] for q in pairs[:i])]",
                ("pairs = list(dict(pairs).items())", "pairs = list(dict.fromkeys(pairs))"),
                once=True,
            ),
            Rule(
                "Drop the pairs whose number is less than $n.",
                "pairs = [p for p in pairs if p[1] >= $n]",
                ("pairs = [p for p in pairs if p[1] > $n]",),
                {"n": integer(2, 12)},
            ),
            Rule(
                "Multiply the number of every one-letter name by $n.",
                "pairs = [(a, b * $n if len(a) == 1 else b) for a, b in pairs]",
                ("pairs = [(a, b * $n) for a, b in pairs]", "pairs = [(a, b * $n if len(a) > 1 else b) for a, b in pairs]"),
                {"n": integer(2, 5)},
            ),
            Rule(
                "Replace each number with the sum of all numbers up to and including it.",
                "pairs = [(a, sum(q[1] for q in pairs[:i + 1])) for i, (a, _) in enumerate(pairs)]",
                ("pairs = [(a, sum(q[1] for q in pairs[:i])) for i, (a, _) in enumerate(pairs)]",),
                once=True,
            ),
            Rule(
                "Sort the pairs by number, largest first; break ties by name.",
                "pairs = sorted(pairs, key=lambda p: (-p[1], p[0]))",
                ("pairs = sorted(pairs, key=lambda p: (p[1], p[0]), reverse=True)", "pairs = sorted(pairs)"),
            ),
            Rule(
                "Subtract $n from each number, but leave numbers less than $n unchanged.",
                "pairs = [(a, b - $n if b >= $n else b) for a, b in pairs]",
                (
                    "pairs = [(a, max(b - $n, 0)) for a, b in pairs]",
                    "pairs = [(a, b - $n if b > $n else b) for a, b in pairs]",
                ),
                {"n": integer(2, 12)},
            ),
        ),
    ),
    *typed(
        "tokens",
        (
            Rule(
                "Replace every $a with $b.",
                "tokens = [$b if t == $a else t for t in tokens]",
                ("tokens = [$a if t == $b else t for t in tokens]",),
                {"a": choice("+", "-", "*"), "b": choice("+", "-", "*")},
            ),
            Rule(
                "Replace every number with its remainder after division by $n.",
                "tokens = [t if isinstance(t, str) else t % $n for t in tokens]",
                ("tokens = [t if isinstance(t, str) else t // $n for t in tokens]",),
                {"n": integer(5, 9)},
                once=True,
            ),
            Rule("Add $n to the first number.", "tokens[0] += $n", ("tokens[-1] += $n",), {"n": integer(1, 9)}),
            Rule(
                "Reverse the order of the numbers and leave the operators between them in place.",
                "tokens[::2] = tokens[::2][::-1]",
                ("tokens = tokens[::-1]",),
            ),
            Rule(
                "Append the operator $op and the number $n.",
                "tokens = [*tokens, $op, $n]",
                ("tokens = [$n, $op, *tokens]",),
                {"op": choice("+", "-", "*"), "n": integer(2, 9)},
            ),
        ),
    ),
    *typed(
        "brackets",
        (
            Rule(
                "Remove the letters.",
                "text = ''.join(c for c in text if c in '()[]')",
                ("text = ''.join(c for c in text if c in '()')",),
                once=True,
            ),
            Rule(
                "Replace [ with ( and ] with ).",
                "text = text.replace('[', '(').replace(']', ')')",
                ("text = text.replace('[', '(')", "text = text.replace('[', ')').replace(']', '(')"),
                once=True,
            ),
            Rule("Enclose the whole string in ( and ).", "text = '(' + text + ')'", ("text = '[' + text + ']'",), once=True),
            Rule(
                "Remove every occurrence of $s, in one pass from left to right.",
                "text = text.replace($s, '')",
                ("while $s in text:\n    text = text.replace($s, '')",),
                {"s": choice("()", "[]", "a", "(a")},
                once=True,
            ),
            Rule(
                "Reverse it and replace every bracket with its mirror image.",
                "text = text[::-1].translate(str.maketrans('()[]', ')(]['))",
                ("text = text[::-1]",),
            ),
            Rule(
                "Double every letter.",
                "text = ''.join(c + c if c.isalpha() else c for c in text)",
                ("text = ''.join(c + c for c in text)",),
                once=True,
            ),
        ),
    ),
)
LEFT = (
    "value = tokens[0]\nfor op, n in zip(tokens[1::2], tokens[2::2]):\n"
    "    value = value + n if op == '+' else value - n if op == '-' else value * n\nreturn value"
)
USUAL = (
    "total, value = 0, tokens[0]\nfor op, n in zip(tokens[1::2], tokens[2::2]):\n    if op == '*':\n"
    "        value *= n\n    else:\n        total, value = total + value, n if op == '+' else -n\n"
    "return total + value"
)
SUMS = (
    "product, value = 1, tokens[0]\nfor op, n in zip(tokens[1::2], tokens[2::2]):\n    if op == '*':\n"
    "        product, value = product * value, n\n    else:\n        value += n if op == '+' else -n\n"
    "return product * value"
)
POLISH = (
    "out, waiting = [], []\nfor t in tokens:\n    if isinstance(t, int):\n        out.append(str(t))\n"
    "        continue\n    while waiting and (waiting[-1] == '*' or t != '*'):\n        out.append(waiting.pop())\n"
    "    waiting.append(t)\nreturn ' '.join(out + waiting[::-1])"
)
BALANCED = (
    "waiting = []\nfor i, c in enumerate(text):\n    if c in '([':\n        waiting.append(c)\n"
    "    elif c in ')]' and (not waiting or waiting.pop() + c not in ('()', '[]')):\n        return $bad\n"
    "return $good"
)
DEPTH = "depth = most = 0\nfor c in text:\n    depth += (c in '([') - (c in ')]')\n    most = max(most, depth)\nreturn most"
ENDS = (
    *typed(
        "pairs",
        (
            Rule("the list of pairs as tuples.", "return pairs"),
            Rule(
                "a dictionary from each name to the sum of its numbers.",
                "table = {}\nfor a, b in pairs:\n    table[a] = table.get(a, 0) + b\nreturn table",
                ("return dict(pairs)",),
            ),
            Rule(
                "a dictionary from each name to the list of its numbers, in order.",
                "table = {}\nfor a, b in pairs:\n    table.setdefault(a, []).append(b)\nreturn table",
                (
                    "return {a: [b] for a, b in pairs}",
                    "table = {}\nfor a, b in pairs:\n    table.setdefault(a, []).insert(0, b)\nreturn table",
                ),
            ),
            Rule(
                "the name with the largest number (the first in a tie), or an empty string if there are no pairs.",
                "return max(pairs, key=lambda p: p[1])[0] if pairs else ''",
                (
                    "return max(pairs)[0] if pairs else ''",
                    "return max(reversed(pairs), key=lambda p: p[1])[0] if pairs else ''",
                ),
            ),
            Rule(
                "a string of all pairs, each written as name, $eq and number, separated by $sep.",
                "return $sep.join(a + $eq + str(b) for a, b in pairs)",
                ("return ''.join(a + $eq + str(b) + $sep for a, b in pairs)",),
                {"eq": choice("@", "~", "=>"), "sep": choice(" ", "&", ", ")},
            ),
            Rule(
                "the sum of the numbers.",
                "return sum(b for a, b in pairs)",
                ("return sum({b for a, b in pairs})", "return sum(dict(pairs).values())"),
            ),
        ),
    ),
    *typed(
        "tokens",
        (
            Rule("its value, evaluated strictly from left to right.", LEFT, (USUAL, SUMS)),
            Rule("its value, where * takes precedence over + and -.", USUAL, (LEFT, USUAL.replace("-n", "n"))),
            Rule("its value, where + and - take precedence over *.", SUMS, (LEFT, USUAL)),
            Rule(
                "the expression in reverse Polish notation as a string (* takes precedence over + and -, and "
                "operators of equal precedence associate left to right), separated by single spaces.",
                POLISH,
                (
                    POLISH.replace("(waiting[-1] == '*' or t != '*')", "waiting[-1] == '*'"),
                    POLISH.replace("(waiting[-1] == '*' or t != '*')", "True"),
                ),
            ),
        ),
    ),
    *typed(
        "brackets",
        (
            Rule("the text.", "return text"),
            Rule(
                "whether every bracket is matched by one of the same kind and all are properly nested.",
                BALANCED.replace("$bad", "False").replace("$good", "not waiting"),
                (
                    BALANCED.replace("$bad", "False").replace("$good", "True"),
                    "return text.count('(') == text.count(')') and text.count('[') == text.count(']')",
                ),
            ),
            Rule(
                "the index (from 0) of the first closing bracket that does not match the innermost open bracket (or "
                "finds no open bracket), or -1 if there is no such bracket.",
                BALANCED.replace("$bad", "i").replace("$good", "-1"),
                (
                    BALANCED.replace("$bad", "i").replace("$good", "len(text) if waiting else -1"),
                    BALANCED.replace("$bad", "i + 1").replace("$good", "-1"),
                ),
            ),
            Rule(
                "the greatest depth at any point, starting from 0, where every opening bracket adds 1 to the depth "
                "and every closing one subtracts 1.",
                DEPTH,
                ("return text.count('(') + text.count('[')", DEPTH.replace("return most", "return depth")),
            ),
        ),
    ),
)
FAMILY = ProgramFamily("parsing", FRAMES, RULES, ENDS, names=("parse", "read_text", "decode", "interpret", "scan"))
