"""MBPP's odd problems, written by hand in its form: references pass, what is not right does not."""

import json

import pytest

from agentgym.envs.code import Code
from agentgym.envs.code.files import load
from agentgym.envs.code.grading.checks import Checks, run_checks
from agentgym.sandbox.warm_pool import take

NODE = "class Node:\n    def __init__(self, data):\n        self.data = data\n        self.left = self.right = None\n"
HEIGHT = (
    "def height(root):\n    if root is None:\n        return 0\n    return max(height(root.left), height(root.right)) + 1\n"
)
TREE = "root = Node(1)\r\nroot.left = Node(2)\r\nroot.right = Node(3)\r\nroot.left.left = Node(4)"
CHAIN = (
    "class Pair(object):\n    def __init__(self, a, b):\n        self.a = a\n        self.b = b\n"
    "def longest(arr, n):\n    best = [1] * n\n    for i in range(1, n):\n        for j in range(i):\n"
    "            if arr[i].a > arr[j].b and best[i] < best[j] + 1:\n                best[i] = best[j] + 1\n"
    "    return max(best)\n"
)
ROWS = {
    "a tree of the set-up": (
        NODE + HEIGHT,
        ["assert height(root) == 3", "assert height(root.right) == 1", "assert height(root.left) == 2"],
        TREE,
        [NODE + "def height(root): return 3", NODE + "def height(root): return root", "def height(root): return 3"],
    ),
    "a class of its own": (
        CHAIN,
        [
            "assert longest([Pair(5, 24), Pair(15, 25), Pair(27, 40), Pair(50, 60)], 4) == 3",
            "assert longest([Pair(1, 2)], 1) == 1",
        ],
        "",
        [
            CHAIN.replace("return max(best)", "return 3"),
            CHAIN + "class All(list):\n    __eq__ = lambda self, other: True\ndef longest(arr, n): return All()",
            CHAIN + "def longest(arr, n): return arr[0]",
        ],
    ),
    "a type as argument": (
        "def without(test_tuple, data_type):\n    return [one for one in test_tuple if not isinstance(one, data_type)]",
        ["assert without((4, 5, 4, 7.7, 1.2), int) == [7.7, 1.2]", "assert without((7, 8, 'S'), str) == [7, 8]"],
        "",
        ["def without(test_tuple, data_type): return data_type", "def without(test_tuple, data_type): return [7.7, 1.2]"],
    ),
    "an import of the reference": (
        "import sys\ndef size(one):\n    return sys.getsizeof(one)",
        ["assert size(('A', 1)) == sys.getsizeof(('A', 1))", "assert size(()) == sys.getsizeof(())"],
        "",
        ["import sys\nsys.getsizeof = lambda one: 0\ndef size(one): return 0", "def size(one): return True"],
    ),
    "a truth that is no data": (
        "import re\ndef vowel(text):\n    return re.search('^[aeiou]', text)",
        ["assert vowel('apple')", "assert not vowel('pear')"],
        "",
        ["def vowel(text): return object()", "def vowel(text): return None", "def vowel(text): return False"],
    ),
    "a slow reference": (
        "import time\ndef amicable(n):\n    time.sleep(2.6)\n    return 504 if n == 999 else 0",
        ["assert amicable(999) == 504", "assert amicable(99) == 0"],
        "",
        ["def amicable(n): return 504"],
    ),
}


@pytest.fixture(scope="module")
def sandboxes():
    made = [take(limits=Code.limits) for _ in range(2)]
    yield made
    for sandbox in made:
        sandbox.close()


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("mbpp") / "mbpp.jsonl"
    rows = [
        {
            "task_id": 600 + n,
            "text": what,
            "code": code,
            "test_list": tests,
            "test_setup_code": setup,
            "challenge_test_list": [],
        }
        for n, (what, (code, tests, setup, _)) in enumerate(ROWS.items())
    ]
    path.write_text("\ufeff" + "\r\n".join(map(json.dumps, rows)), encoding="utf-8")
    return load(str(path))


def tried(sandboxes, data, code):
    return run_checks(
        *sandboxes, code, Checks(data["names"], data["hidden"], data["before"], data["setup"], data["seconds"])
    )


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(ROWS)), ids=list(ROWS))
def test_references_pass_and_forgeries_fail(number, library, sandboxes):
    data = library.tasks[number].data
    found = tried(sandboxes, data, data["reference"])
    assert all(one.passed for one in found), found
    for forged in ROWS[data["statement"].split("\n")[0]][3]:
        assert not all(one.passed for one in tried(sandboxes, data, forged)), forged


# What a solution can do with an object that the checks hold: f has to return 7.
OBJECTS = {
    "equal to everything": "class A:\n    __eq__ = lambda self, other: True\n    __hash__ = None\ndef f(): return A()",
    "attributes of all kinds": "class A:\n    def __getattr__(self, name): return 7\ndef f(): return A()",
    "a number that is none": "class A(int):\n    __eq__ = lambda self, other: True\ndef f(): return A(0)",
    "a forged handle": "import json\njson.dumps = lambda *a, **k: '[{\"h\": [0, true]}, null]'\ndef f(): return 7.5",
    "a handle of nothing": 'import json\njson.dumps = lambda *a, **k: \'[{"h": ["x", 7]}, null]\'\ndef f(): return 7.5',
    "a type": "def f(): return int",
    "a truth that never ends": "class A:\n    def __bool__(self):\n        while True: pass\ndef f(): return A()",
    "an object with a shown value": "class A:\n    __repr__ = __str__ = lambda self: '7'\ndef f(): return A()",
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_taken_for_no_value(name, sandboxes):
    checks = [
        ["assert f() == 7"],
        ["assert 7 == f()"],
        ["assert f() in (7,)"],
        ["assert [f()] == [7]"],
        ["assert int(f()) == 7"],
    ]
    checks += [["assert str(f()) == '7'"], ["f()", "7"], ["assert not f() != 7"], ["assert f() == f()"]]
    found = run_checks(*sandboxes, OBJECTS[name], Checks(["f"], checks, seconds=0.3))
    equal_to_itself = name == "a type"
    assert [one.passed for one in found] == [False] * 8 + [equal_to_itself]
