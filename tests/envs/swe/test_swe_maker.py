"""Tasks made from a small repository: valid, repeatable, resumable; and what is no repository is refused."""

import gzip

import pytest

from agentgym.cli import main
from agentgym.envs.swe.maker.candidates import reverted, single
from agentgym.envs.swe.maker.issue import gives_away
from agentgym.envs.swe.maker.maker import Maker, MakerOptions
from agentgym.envs.swe.maker.survey import Survey
from agentgym.envs.swe.maker.trial import Workbench
from agentgym.envs.swe.tasks import read
from agentgym.envs.swe.tasks.instance import edited
from agentgym.envs.swe.tasks.pytest_run import PACKAGES, run_tests
from agentgym.envs.swe.tasks.source import pack
from agentgym.errors import BadData
from agentgym.sandbox import Limits, SandboxFault, sandbox
from agentgym.sandbox.bubblewrap.sandbox import missing

SHOP = b'''"""A shop."""


def total(prices, discount=0):
    """Return the sum of prices, less a discount in per cent."""
    if not 0 <= discount <= 100:
        raise ValueError("no such discount")
    return sum(prices) * (100 - discount) / 100


def cheapest(prices, count=1):
    """Return the smallest prices, in order."""
    return sorted(prices)[:count]


def runs(items):
    """Return how often each item follows itself."""
    found = []
    for item in items:
        if found and found[-1][0] == item:
            found[-1][1] += 1
        else:
            found.append([item, 1])
    return found
'''
TESTS = b"""import pytest
import shop


@pytest.mark.parametrize(("discount", "expected"), [(0, 60), (50, 30), (100, 0)])
def test_total(discount, expected):
    assert shop.total([10, 20, 30], discount) == expected


def test_default():
    assert shop.total([5]) == 5


def test_discount():
    with pytest.raises(ValueError, match="no such"):
        shop.total([5], 101)


def test_cheapest():
    prices = [3, 1, 2]
    assert shop.cheapest(prices, 2) == [1, 2]
    assert prices == [3, 1, 2]


def test_cheapest_one():
    assert shop.cheapest([3, 1, 2]) == [1]


def test_runs():
    assert shop.runs("aab") == [["a", 2], ["b", 1]]
    assert shop.runs("") == []
"""
TREE = {"shop.py": SHOP, "test/test_shop.py": TESTS}
PLAN = MakerOptions(count=3, combined=0.4)


def open_sandbox():
    return sandbox(packages=PACKAGES, limits=Limits(timeout=30))


@pytest.fixture(scope="module")
def idle():
    """Return the sandboxes that no maker uses now: a run replaces all that another left in one."""
    sandboxes = []
    yield sandboxes
    for made in sandboxes:
        made.close()


def make(tree, tmp_path, plan, idle, *, older=None, say=lambda line: None, workers=1):
    def take():
        try:
            return idle.pop()
        except IndexError:
            return open_sandbox()

    (tmp_path / "shop.tar").write_bytes(pack(tree))
    maker = Maker(
        ("shop", str(tmp_path / "shop.tar"), tree),
        plan,
        open_sandbox=take,
        close_sandbox=idle.append,
        workers=workers,
        journal=tmp_path / "journal",
        say=say,
    )
    return maker.make(older)


@pytest.fixture(scope="module")
def made(tmp_path_factory, idle):
    return make(TREE, tmp_path_factory.mktemp("made"), PLAN, idle, workers=2)


def of(made):
    return [(task.id, task.issue, task.bug, task.fail_to_pass, task.kind) for task in made.instances]


@pytest.mark.long
def test_tasks_are_valid(made):
    """Holds the maker to its word by other means: the bug fails exactly those tests, and its repair none."""
    assert len(made.instances) == 3
    with open_sandbox() as sandbox:
        for task in made.instances:
            tests = task.repository.tests
            found = run_tests(sandbox, edited(TREE, task.bug), tests)
            assert tuple(test for test in tests if found[test] != "passed") == task.fail_to_pass
            assert set(task.fail_to_pass) | set(task.pass_to_pass) == set(tests) and task.pass_to_pass
            assert edited(edited(TREE, task.bug), task.gold) == TREE


def test_tasks_differ(made):
    assert len({task.id for task in made.instances}) == 3
    assert len({task.bug for task in made.instances}) == 3
    several = [task for task in made.instances if "+" in task.kind]
    assert several and all(len(task.bug) == 2 and task.difficulty >= 2 for task in several)


def test_issues_give_nothing_away(made):
    for task in made.instances:
        changed = {edit.path: (TREE[edit.path].decode(), edited(TREE, task.bug)[edit.path].decode()) for edit in task.bug}
        assert not gives_away(task.issue, task.fail_to_pass, changed)


def test_gives_away_sees_what_it_is_for():
    bug = {"shop.py": ("    return sorted(prices)\n", "    return prices\n")}
    tests = ["test/test_shop.py::test_cheapest[1]"]
    assert gives_away("test_cheapest fails", tests, bug) == "the name of test/test_shop.py::test_cheapest[1]"
    assert gives_away("look at shop.py", tests, bug) == "the file shop.py"
    assert gives_away("it should return sorted(prices)", tests, bug).startswith("a line of the repair")
    assert gives_away("it returns prices as they come", tests, bug) == ""


def test_the_same_again_in_whatever_order_verdicts_come(made, tmp_path, idle):
    assert of(make(TREE, tmp_path, PLAN, idle)) == of(made)


@pytest.mark.long
def test_an_interrupted_maker_goes_on(made, tmp_path, idle):
    lines = []

    def interrupt(line):
        lines.append(line)
        if len(lines) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(TREE, tmp_path, PLAN, idle, say=interrupt)
    journal = (tmp_path / "journal").read_text().splitlines()
    assert len(journal) >= 2
    (tmp_path / "journal").write_text("\n".join(journal) + '\n{"key": "half a li')
    assert of(make(TREE, tmp_path, PLAN, idle)) == of(made)
    assert not (tmp_path / "journal").exists()


def test_verdicts_of_other_settings_are_not_used(tmp_path, idle):
    (tmp_path / "journal").write_text('{"seed": 3}\n{"key": "x", "rejected": ""}\n')
    assert len(make(TREE, tmp_path, MakerOptions(count=1, combined=0, attempts=1, seed=5), idle).instances) == 1


def test_older_versions_are_brought_back(tmp_path, idle):
    older = {**TREE, "shop.py": SHOP.replace(b"<= 100", b"<= 1000").replace(b'"no such discount"', b'"no such"')}
    found = make(TREE, tmp_path, MakerOptions(count=5, mutate=False), idle, older=older)
    assert [(task.kind, task.fail_to_pass) for task in found.instances] == [
        ("reverted hunk", ("test/test_shop.py::test_discount",))
    ]
    assert found.rejected == {}
    kinds = [one.kind for one in reverted({**TREE, "a.py": b"x = 1\n"}, {**older, "a.py": b"x = 2\n"})]
    assert kinds == ["reverted hunk", "reverted hunk", "reverted version"]


def test_flaky_tests_are_left_out(tmp_path, idle):
    flaky = b"\n\ndef test_flaky():\n    assert hash('a') % 1000 == int(open('/proc/self/stat').read().split()[21]) % 1000\n"
    random = b"\n\ndef test_random(n=[]):\n    import os\n    assert os.urandom(2) < b'\\x80'\n"
    tree = {**TREE, "test/test_shop.py": TESTS + flaky + random}
    found = make(tree, tmp_path, MakerOptions(count=1, combined=0, attempts=1), idle)
    names = " ".join(found.survey.tests)
    assert "test_flaky" not in names and len(found.survey.tests) in (8, 9)


UNSTEADY = b"""import os
import pytest


@pytest.mark.parametrize("number", range(40))
def test_a(number):
    assert number == 0 or os.urandom(1) < bytes([128])
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ({}, "there are no tests in it"),
        ({"test_shop.py": b"import nothing\n\ndef test_a():\n    pass\n"}, "cannot be run: .*No module named 'nothing'"),
        ({"test_shop.py": b"def test_a():\n    assert 0, 'why'\n"}, "none of 1 tests passes.*why"),
        ({"test_shop.py": b"import os\nos._exit(3)\n"}, "no report"),
        ({"test_shop.py": b"def test_a():\n    pass\n"}, "none of .* made a task: .*no test notices it"),
        ({"test_shop.py": UNSTEADY}, "end differently when they are run again"),
    ],
)
def test_what_tasks_cannot_be_made_from(tmp_path, idle, tests, message):
    with pytest.raises(BadData, match="(?s)shop: .*" + message):
        make({"shop.py": SHOP, **tests}, tmp_path, MakerOptions(count=2, combined=0, attempts=2), idle)


@pytest.mark.long
def test_conftest_is_used_where_tests_need_it(tmp_path, idle):
    conftest = b"import pytest\n\n\n@pytest.fixture\ndef prices():\n    return [3, 1, 2]\n"
    test = b"import shop\n\n\ndef test_prices(prices):\n    assert shop.cheapest(prices) == [1]\n"
    tree = {**TREE, "test/conftest.py": conftest, "test/test_more.py": test}
    found = make(tree, tmp_path, MakerOptions(count=1, combined=0), idle)
    assert found.instances[0].repository.conftest
    assert "test/test_more.py::test_prices" in found.survey.tests


def test_bugs_that_show_as_a_crash_alone_are_left_out(tmp_path):
    kinds = [one for one in single({"shop.py": b"def f(a, b):\n    return a.x - b\n"}, 0) if one.kind == "wrong variable"]
    assert [one.files["shop.py"] for one in kinds] == [b"def f(a, b):\n    return a.x - a\n"]


@pytest.mark.long
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_command(tmp_path, capsys):
    folder = tmp_path / "shop"
    (folder / "test").mkdir(parents=True)
    for path, content in TREE.items():
        (folder / path).write_bytes(content)
    (tmp_path / "cart-1.2.tar.gz").write_bytes(gzip.compress(pack({f"cart-1.2/{path}": c for path, c in TREE.items()})))
    out = tmp_path / "tasks.jsonl"
    assert main(["swe", "make", str(folder), "--out", str(out), "--count", "2", "--split", "test"]) == 0
    assert "2 of 2 tasks made" in capsys.readouterr().out
    assert main(["swe", "make", str(tmp_path / "cart-1.2.tar.gz"), "--out", str(out), "--count", "1"]) == 0
    found = read(out)
    assert [(task.package, task.split) for task in found] == [("shop", "test"), ("shop", "test"), ("cart", "train")]
    (folder / "shop.py").write_text("changed = True\n")
    assert found[0].base() == TREE, "the tasks keep the repository they were made from"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cart-1.2.tar.gz",
        "shop",
        "tasks.cart.tar.gz",
        "tasks.jsonl",
        "tasks.shop.tar.gz",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mkae", "x"], "no action of swe 'mkae'. Did you mean 'make'?"),
        (["make", "absent", "--out", "t.jsonl"], "absent: no such repository"),
        (["make", "package:spans", "--out", "no/t.jsonl"], "expected a file in a folder that exists"),
        (["make", "package:spans", "--out", "t.jsonl", "--count", "0"], "--count is 0; expected at least 1"),
        (["make", "package:spans", "--out", "t.jsonl", "--no-mutate"], "--no-mutate without --older"),
        (["make", "package:spans", "--out", "t.jsonl", "--nmae", "x"], "no flag '--nmae'"),
    ],
)
def test_command_refuses(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["swe", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_command_that_makes_nothing_leaves_nothing(tmp_path, capsys):
    (tmp_path / "cart-1.2.tar").write_bytes(pack({"cart-1.2/cart.py": SHOP}))
    assert main(["swe", "make", str(tmp_path / "cart-1.2.tar"), "--out", str(tmp_path / "tasks.jsonl")]) == 2
    assert "cart: there are no tests in it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["cart-1.2.tar"]


def test_a_sandbox_that_breaks_is_replaced_once():
    opened, closed = [], []

    def open_one():
        opened.append(open_sandbox())
        if len(opened) == 1:
            opened[0].close()  # as if something had ended it
        return opened[-1]

    bench = Workbench(open_one, lambda sandbox: (closed.append(sandbox), sandbox.close()))
    found = Survey(("test/test_shop.py::test_default",), (), 0, 1.0, False)
    try:
        assert bench.run(0, TREE, found).outcomes["test/test_shop.py::test_default"] == "passed"
        assert (len(opened), closed) == (2, opened[:1])
        for sandbox in opened:
            sandbox.close()
        opened.clear()
        with pytest.raises(SandboxFault):
            bench.run(0, TREE, found)
    finally:
        bench.close()
