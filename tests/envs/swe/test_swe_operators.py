"""Each operator makes the bugs that it is named after, and leaves the rest of the file as it was."""

import textwrap
from itertools import islice

import pytest

from agentgym.envs.swe.maker.code import Code
from agentgym.envs.swe.maker.mutate import OPERATORS, mutations
from agentgym.envs.swe.tasks.source import tree_of

CASES = {
    "boundary": ("return a < b <= c", ["return a <= b <= c", "return a < b < c"]),
    "opposite comparison": ("return a not in b", ["return a in b"]),
    "other arithmetic": ("return a // b", ["return a / b"]),
    "off by one": (
        "for i in range(2, a + 1):\n    pass",
        ["for i in range(2, a):\n    pass", "for i in range(2, a + 2):\n    pass"],
    ),
    "and for or": ("return a and b  # not or", ["return a or b  # not or"]),
    "dropped condition": ("return [x for x in a if x > b]", ["return [x for x in a]"]),
    "dropped not": ("return not a", ["return a"]),
    "swapped operands": ("return (a + b) - c", ["return c - (a + b)"]),
    "swapped arguments": (
        "return f(a, b=1) or f(a, b, 3)",
        ["return f(a, b=1) or f(b, a, 3)", "return f(a, b=1) or f(a, 3, b)"],
    ),
    "swapped results": ("return a if b else c", ["return c if b else a"]),
    "wrong variable": (
        "return a.x + b[c]",
        ["return a.x + a[c]", "return a.x + c[c]", "return a.x + b[a]", "return a.x + b[b]"],
    ),
    "wrong attribute": ("return a.start - a.end", ["return a.end - a.end", "return a.start - a.start"]),
    "wrong slice": ("return a[1:]", ["return a[2:]", "return a[0:]", "return a[:]"]),
    "wrong index": ("return a[0] + b[-1]", ["return a[-1] + b[-1]", "return a[0] + b[0]"]),
    "wrong default": ("return a.get(b, 0)", ["return a.get(b, 1)"]),
    "wrong constant": ("return a * 10", ["return a * 11"]),
    "neighbouring function": ("return a.lstrip()", ["return a.rstrip()"]),
    "wrong order": ("return sorted(a, key=b)", ["return sorted(a)", "return sorted(a, key=b, reverse=True)"]),
    "missing copy": (
        "return list(a), b[:], c.copy()",
        ["return a, b[:], c.copy()", "return list(a), b, c.copy()", "return list(a), b[:], c"],
    ),
    "dropped statement": ("a.append(b)\nreturn a", ["return a"]),
    "dropped guard": ("if a:\n    return b\nreturn c", ["return c"]),
    "dropped branch": (
        "if a:\n    b = 1\nelif c:\n    b = 2\nreturn b",
        ["if a:\n    b = 1\nreturn b"],
    ),
    "early exit": ("for x in a:\n    break", ["for x in a:\n    continue"]),
    "early return": (
        "for x in a:\n    b += x\n\nreturn b",
        ["for x in a:\n    b += x\n\n    return b"],
    ),
    "other error": ("raise ValueError(a)", ["raise TypeError(a)"]),
    "other update": ("a += b", ["a -= b", "a = b"]),
    "one after the other": ("a, b = b, a + b", ["a = b\nb = a + b"]),
}


def wrapped(body: str) -> str:
    return "def f(a, b, c):  # f\n" + textwrap.indent(body, "    ") + "\n    # the end\n"


def made(name: str, body: str) -> list[str]:
    code = Code("x.py", wrapped(body).encode())
    operator = OPERATORS[name]
    nodes = [node for node in code.candidates() if isinstance(node, operator.kinds)]
    splices = [splice for node in nodes for splice in operator.changes(code, node) if splice is not None]
    return [code.spliced(splice).decode() for splice in splices]


def test_every_operator_has_a_case() -> None:
    assert set(CASES) == set(OPERATORS)
    assert len(OPERATORS) >= 20


@pytest.mark.parametrize("name", CASES)
def test_operator(name: str) -> None:
    body, expected = CASES[name]
    assert set(made(name, body)) == {wrapped(one) for one in expected}


def test_dropping_the_only_statement_leaves_pass() -> None:
    assert made("dropped statement", "if a:\n    b.clear()\nreturn b") == [wrapped("if a:\n    pass\nreturn b")]


def test_bytes_beyond_ascii_are_where_they_were() -> None:
    assert made("and for or", "return 'größe' == a and b") == [wrapped("return 'größe' == a or b")]


def test_docstrings_annotations_decorators_and_module_code_stay() -> None:
    text = b'LIMIT = 1 + 1\n\n\n@cache(1 + 1)\ndef f(a: "1 < 2") -> "1 < 2":\n    """a < b."""\n    return f"{a < 1}"\n'
    assert list(mutations({"x.py": text})) == []


def test_mutations_parse_differ_and_repeat() -> None:
    tree = tree_of("package:larder")
    first = [(one.operator, one.path, one.splice) for one in islice(mutations(tree, seed=3), 20)]
    assert first == [(one.operator, one.path, one.splice) for one in islice(mutations(tree, seed=3), 20)]
    assert first != [(one.operator, one.path, one.splice) for one in islice(mutations(tree, seed=4), 20)]
    contents = {one.content for one in islice(mutations(tree), 100)}
    assert len(contents) == 100
    for content in contents:
        compile(content, "x.py", "exec")


def test_tests_are_never_mutated() -> None:
    tree = {"shop.py": b"def f(a):\n    return a < 1\n", "test_shop.py": b"def f(a):\n    return a < 1\n"}
    more = {f"{folder}/x.py": tree["shop.py"] for folder in ("tests", "pkg/test", "docs", "pkg")}
    assert {one.path for one in mutations({**tree, **more})} == {"shop.py", "pkg/x.py"}
