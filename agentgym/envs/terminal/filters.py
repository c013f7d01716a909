"""Small text filters that agents write or repair.

Each function is its own reference implementation. It runs here to compute expected outputs, and its source, including the
docstring, becomes part of the oracle's program and of tasks.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym.envs.terminal.scenario import Rng, pick, shuffled
from agentgym.envs.terminal.words import THINGS, VERBS, number


@dataclass(frozen=True)
class Filter:
    """A filter: its description, code, bugs and test inputs."""

    spec: str
    work: Callable[[str], str]
    bugs: tuple[tuple[str, str], ...]
    """(source fragment, faulty replacement) pairs; the faulty output differs on inputs of `draw`."""
    draw: Callable[[Rng, int], str]
    """Function that draws an input of a given size."""
    edge_cases: tuple[str, ...] = ()
    """Edge-case inputs that are always tested."""


FILTERS: dict[str, Filter] = {}


def program(sources: Mapping[str, str]) -> str:
    """Return a program of the given filters (name -> source); `python3 FILE NAME` applies one to standard input."""
    table = "".join(f"    '{name}': {name},\n" for name in sources)
    body = "\n\n".join(sources.values())
    return f"import sys\n\n\n{body}\n\nCOMMANDS = {{\n{table}}}\nsys.stdout.write(COMMANDS[sys.argv[1]](sys.stdin.read()))\n"


def source(name: str, bug: int | None = None) -> str:
    """Return a filter's source, optionally with one of its bugs."""
    text = inspect.getsource(FILTERS[name].work)
    if bug is not None:
        right, wrong = FILTERS[name].bugs[bug]
        assert right in text, f"{name}: {right!r} is not in its source"
        text = text.replace(right, wrong)
    return text


def frequent(text: str) -> str:
    """Return the most frequent words."""
    counts: dict[str, int] = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return "".join(f"{word} {counts[word]}\n" for word in order[:3])


def runs(text: str) -> str:
    """Return the lines, run-length encoded."""
    lines: list[str] = []
    for line in text.splitlines():
        packed, place = "", 0
        while place < len(line):
            end = place
            while end < len(line) and line[end] == line[place]:
                end += 1
            packed += f"{end - place}{line[place]}"
            place = end
        lines.append(packed + "\n")
    return "".join(lines)


def intervals(text: str) -> str:
    """Return the union of the intervals, sorted; adjacent ones are merged."""
    merged: list[list[int]] = []
    for first, last in sorted([*map(int, line.split())] for line in text.splitlines() if line.strip()):
        if merged and first <= merged[-1][1] + 1:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return "".join(f"{first} {last}\n" for first, last in merged)


def brackets(text: str) -> str:
    """Return where the brackets of each line go wrong."""
    answers: list[str] = []
    for line in text.splitlines():
        open_brackets: list[tuple[str, int]] = []
        problem = None
        for place, sign in enumerate(line, 1):
            if sign in "([{":
                open_brackets.append((sign, place))
            elif sign in ")]}" and (not open_brackets or open_brackets.pop()[0] + sign not in ("()", "[]", "{}")):
                problem = place
                break
        if problem is None and open_brackets:
            problem = open_brackets[-1][1]
        answers.append("ok\n" if problem is None else f"{problem}\n")
    return "".join(answers)


def columns(text: str) -> str:
    """Return the table transposed."""
    rows = [line.split() for line in text.splitlines()]
    width = max(map(len, rows), default=0)
    turned = [[row[place] if place < len(row) else "-" for row in rows] for place in range(width)]
    return "".join(" ".join(row) + "\n" for row in turned)


def total(text: str) -> str:
    """Return the sum of the integers, and how many lines are not integers."""
    sum_of, bad = 0, 0
    for line in text.splitlines():
        try:
            sum_of += int(line.strip(), 10)
        except ValueError:
            bad += 1
    return f"sum {sum_of}\nbad {bad}\n"


def binary(text: str) -> str:
    """Return the numbers in base 2."""
    answers: list[str] = []
    for line in text.split():
        value, digits = int(line), ""
        while value > 0:
            value, digits = value // 2, str(value % 2) + digits
        answers.append((digits or "0") + "\n")
    return "".join(answers)


def blocks(text: str) -> str:
    """Return how many lines each block has."""
    blocks_found: list[str] = []
    block: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.strip():
            block.append(line)
        elif block:
            blocks_found.append(f"{len(block)} {block[0].strip()}\n")
            block = []
    return "".join(blocks_found)


def _words(rng: Rng, size: int) -> str:
    few = shuffled(rng, THINGS)[:6]
    body = [*few, *few[:4], few[3], few[2], few[2].capitalize()]
    body += [pick(rng, few) for _ in range(size)]
    mixed = shuffled(rng, body)
    return "".join(f"{word}{pick(rng, (' ', '  ', chr(10)))}" for word in mixed) + "\n"


def _letters(rng: Rng, size: int) -> str:
    return "".join("".join(pick(rng, "abc ") * number(rng, 1, 12) for _ in range(3 + size)) + "x\n" for _ in range(3))


def _pairs(rng: Rng, size: int) -> str:
    rows = ["10 30", "12 15", "31 33", "-5 -2", "40 40"]
    rows += [f"{low} {low + number(rng, 0, 9)}" for low in (number(rng, -50, 50) * 4 for _ in range(size))]
    return "".join(f"{row}\n" for row in shuffled(rng, rows))


def _nested(rng: Rng, size: int) -> str:
    rows = ["(a[b]{c})", "(]", "((x)", "x)", "[(])", ""]
    rows += ["".join(pick(rng, "()[]{}ab") for _ in range(4 + size)) for _ in range(4)]
    return "".join(f"{row}\n" for row in shuffled(rng, rows))


def _table(rng: Rng, size: int) -> str:
    rows = [[pick(rng, VERBS) for _ in range(number(rng, 1, 4 + size))] for _ in range(3)]
    rows.append([pick(rng, VERBS) for _ in range(6 + size)])
    return "".join(" ".join(row) + "\n" for row in shuffled(rng, rows))


def _numbers(rng: Rng, size: int) -> str:
    rows = ["7", "-12", "3.5", "x", "", " 40 ", *(str(number(rng, -99, 99)) for _ in range(size))]
    return "".join(f"{row}\n" for row in shuffled(rng, rows))


def _naturals(rng: Rng, size: int) -> str:
    return "".join(f"{value}\n" for value in shuffled(rng, [0, 1, 2, *(number(rng, 3, 9999) for _ in range(size + 2))]))


def _paragraphs(rng: Rng, size: int) -> str:
    parts = ["\n".join(pick(rng, THINGS) for _ in range(number(rng, 1, 4))) for _ in range(3 + size)]
    return "\n" + pick(rng, ("\n\n", "\n\n\n", "\n \n")).join(parts) + "\n"


FILTERS.update(
    {
        "frequent": Filter(
            "the three most frequent words (separated by whitespace, converted to lowercase), each as `WORD COUNT`, the "
            "most frequent first, ties in alphabetical order; fewer lines if there are fewer words",
            frequent,
            (("text.lower()", "text"), ("(-counts[word], word)", "-counts[word]"), ("[:3]", "[:4]")),
            _words,
            ("", "b a\n", "one One\n"),
        ),
        "runs": Filter(
            "each line with every run of the same character written as its length and the character: "
            "`aaab` becomes `3a1b`; an empty line stays empty",
            runs,
            (
                ("line[end] == line[place]:", "line[end] == line[place] and end - place < 9:"),
                ("place = end\n", "place = end - 1\n"),
            ),
            _letters,
            ("\n", "zzzzzzzzzzzzzzz\n"),
        ),
        "intervals": Filter(
            "closed intervals of integers, one `FIRST LAST` per line, merged where they overlap or touch (`1 3` and `4 6` "
            "become `1 6`), in ascending order; empty lines are left out",
            intervals,
            (("[1] + 1", "[1]"), ("max(merged[-1][1], last)", "last"), ("int, line.split()", "str, line.split()")),
            _pairs,
            ("", "5 9\n\n1 3\n"),
        ),
        "brackets": Filter(
            "for each line `ok` if its round, square and curly brackets are balanced; else the position "
            "(from 1) of the first closing bracket without a matching opening bracket, or, if there is none, of the last "
            "opening bracket that is never closed",
            brackets,
            (
                ("if problem is None and open_brackets", "if False"),
                ("enumerate(line, 1)", "enumerate(line)"),
                ('"()", "[]", "{}"', '"()", "[]", "{}", "(]"'),
            ),
            _nested,
            ("\n", "}\n"),
        ),
        "columns": Filter(
            "the table of words transposed: the first words of all lines become the first line, and so on, separated by one "
            "space; `-` stands for a missing word",
            columns,
            (("max(map(len, rows), default=0)", "len(rows[0]) if rows else 0"), ('"-"', '""')),
            _table,
            ("", "a\nb c\n"),
        ),
        "total": Filter(
            "`sum N` and, on a second line, `bad M`: the sum of the lines that are integers (whitespace around them does "
            "not matter), and the number of lines that are not, empty ones included",
            total,
            (
                ("int(line.strip(), 10)", "int(float(line))"),
                ("bad += 1", "bad += bool(line)"),
                ("sum_of += int", "sum_of = int"),
            ),
            _numbers,
            ("", "\n", "1\n2\n"),
        ),
        "binary": Filter(
            "each natural number (separated by whitespace) in base 2, one per line; 0 is `0`",
            binary,
            (('"0"', '""'), ("value > 0", "value > 1"), ("value // 2, str", "value // 2 or value, str")),
            _naturals,
            ("0\n", "255 256\n"),
        ),
        "blocks": Filter(
            "for each block of lines (blocks are separated by one or more blank lines) the number of its lines, a space and "
            "its first line without leading and trailing whitespace",
            blocks,
            (
                ('[*text.splitlines(), ""]', "text.splitlines()"),
                ("if line.strip()", "if line"),
                ("block = []\n", "block = block[:0] or block\n"),
            ),
            _paragraphs,
            ("", "a\n \nb"),
        ),
    }
)
