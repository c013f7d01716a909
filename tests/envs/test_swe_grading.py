"""Grading of repaired repositories: honest repairs pass, and nothing that only says so does."""

import random
import textwrap

import pytest
import swe_files

from agentgym.envs.swe import grading
from agentgym.envs.swe.canaries import alter, other
from agentgym.envs.swe.grading import grade
from agentgym.sandbox.stock import take
from agentgym.tasks.swe import Edit, Instance, Repository, read
from agentgym.tasks.swe.source import digest, tree_of

HOOK = """
import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
"""
ALWAYS_PASSED = """
from _pytest.reports import TestReport
_made = TestReport.from_item_and_call.__func__
def _forged(kind, item, call):
    report = _made(kind, item, call)
    report.outcome, report.longrepr = "passed", None
    return report
TestReport.from_item_and_call = classmethod(_forged)
"""
FORGED_XML = """
import gc, os, sys
from _pytest.config import Config
config = next(one for one in gc.get_objects() if isinstance(one, Config))
names = [line for line in open("tests/test_purse.py") if line.strip().startswith("def test_")]
cases = ""
for line in names:
    name, place = line.split("def ")[1].split("(")[0], "tests.test_purse"
    place += ".TestPurse" if line.startswith(" ") else ""
    for end in ("[0]", "[-1]") if "nobody" in name else ("",):
        cases += f'<testcase classname="{place}" name="{name}{end}" file="tests/test_purse.py" line="1" time="0.0"/>'
with open(config.option.xmlpath, "w") as file:
    head = '<?xml version="1.0"?><testsuites><testsuite tests="8" failures="0" errors="0">'
    file.write(head + cases + "</testsuite></testsuites>")
os._exit(0)
"""
READS_THE_TEST = """
import ast, linecache, sys
def total(prices, discount=0):
    frame = sys._getframe(1)
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return eval(line.split("==")[1], frame.f_globals, frame.f_locals)
"""
EQUALS_ALL = """
class Any(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __floordiv__(self, other): return self
    def __sub__(self, other): return self
    __add__ = __mul__ = __rsub__ = __radd__ = __rmul__ = __sub__
def total(prices, discount=0):
    return Any(3)
"""
PATCHED_CALL = """
from _pytest.python import Function
Function.runtest = lambda self: None
"""
IN_CODE = {  # what a repair may have added to the module, instead of repairing it
    "reports that always say passed": ALWAYS_PASSED,
    "a report of its own": FORGED_XML,
    "tests that are not run": PATCHED_CALL,
    "the end at import": "import os\nos._exit(0)\n",
    "the end at exit": "import atexit, os\natexit.register(os._exit, 0)\n",
    "exit at import": "import sys\nsys.exit(0)\n",
    "skipping": "import pytest\ndef total(prices, discount=0):\n    pytest.skip('not here')\n",
    "skipping the module": "import pytest\npytest.skip('not here', allow_module_level=True)\n",
    "another kind of failure": "import builtins, pytest\nbuiltins.AssertionError = pytest.skip.Exception\n",
    "an object that equals everything": EQUALS_ALL,
    "what the test expects": READS_THE_TEST,
    "a plugin": "import sys\nsys.path.insert(0, '.')\npytest_plugins = ['forged']\n",
}
AS_FILES = {  # files that a repair may have added to the repository
    "conftest": {"conftest.py": HOOK, "tests/conftest.py": HOOK},
    "pytest.ini": {"pytest.ini": "[pytest]\naddopts = --co\n"},
    "hidden pytest.ini": {".pytest.ini": "[pytest]\naddopts = --co\n"},
    "pyproject": {"pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p forged'\n", "forged.py": HOOK},
    "setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = --co\n"},
    "tox.ini": {"tox.ini": "[pytest]\naddopts = --co\n"},
    "pytest itself": {
        "pytest.py": "import os\nprint('1 passed')\nos._exit(0)\n",
        "_pytest/__init__.py": "import os\nos._exit(0)\n",
    },
    "site": {"sitecustomize.py": ALWAYS_PASSED, "usercustomize.py": ALWAYS_PASSED, "forged.pth": "import os; os._exit(0)\n"},
    "an entry point": {
        "forged-1.0.dist-info/entry_points.txt": "[pytest11]\nforged = forged\n",
        "forged-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: forged\nVersion: 1.0\n",
        "forged.py": HOOK,
    },
    "the standard library": {"xml/__init__.py": ALWAYS_PASSED, "json.py": ALWAYS_PASSED, "random.py": ALWAYS_PASSED},
    "a compiled test": {"tests/__pycache__/test_purse.cpython-311-pytest-9.2.0.pyc": "forged"},
    "easier tests": {"tests/test_purse.py": "def test_total_with_a_discount(): pass\n"},
}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return {task.id: task for task in read(swe_files.make(tmp_path_factory.mktemp("swe")))}


def elsewhere(work):
    jail = take(packages=("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"))
    try:
        return work(jail)
    finally:
        jail.close()


def judged(task, changes):
    grading._known.clear()
    return grade(task, task.broken() | {path: text.encode() for path, text in changes.items()}, elsewhere)


@pytest.mark.parametrize("name", ["discount", "largest", "nobody"])
def test_an_honest_repair_is_believed_and_a_wrong_one_is_not(tasks, name):
    task = tasks[f"purse-{name}"]
    clean = task.base()["purse.py"].decode()
    verdict = judged(task, {"purse.py": clean})
    assert (verdict.resolved, verdict.fail_to_pass, verdict.pass_to_pass) == (True, 1.0, 1.0), verdict
    wrong = judged(task, {"purse.py": task.broken()["purse.py"].decode() + "\n"})
    assert not wrong.resolved and wrong.fail_to_pass == 0.0 and wrong.pass_to_pass == 1.0


LEAN_ON_ONE_ANOTHER = """
from purse import total

KEPT = []

def test_leaves():
    KEPT.append(1)
    assert total([1, 2]) == 3
    KEPT.clear()

def test_needs():
    assert not KEPT

def test_discount():
    assert total([100], 10) == 90
"""


def test_tests_that_lean_on_one_another_do_not_harm_an_honest_repair(tmp_path, monkeypatch):
    swe_files.make(tmp_path)
    root = tmp_path / "purse-1.0"
    (root / "tests" / "test_purse.py").write_text(LEAN_ON_ONE_ANOTHER)
    ids = [f"tests/test_purse.py::test_{name}" for name in ("leaves", "needs", "discount")]
    repository = Repository("purse", str(root), digest(tree_of(str(root))), "train", tuple(ids))
    bug = (Edit("purse.py", *swe_files.BUGS["discount"][:2]),)
    task = Instance("lean", repository, "?", bug, (ids[2],), tuple(ids[:2]), "by hand", 0, 0.3)
    asked = []
    run = grading._run
    monkeypatch.setattr(grading, "_run", lambda jail, of, tree: asked.append(tree["purse.py"]) or run(jail, of, tree))
    for seed in range(2, 4):
        monkeypatch.setattr(grading.secrets, "randbits", lambda bits, seed=seed: seed)
        assert judged(task, {"purse.py": swe_files.CODE + "# repaired\n"}).resolved
    assert swe_files.CODE.encode() in asked  # the clean code was asked, for a test failed that had not been made to


def test_a_repair_may_do_more(tasks):
    clean = tasks["purse-discount"].base()["purse.py"].decode()
    more = {"purse.py": clean + "\n\ndef more():\n    return 1\n", "tests/test_purse.py": "", "README": "x"}
    assert judged(tasks["purse-discount"], more).resolved


def test_a_repair_that_breaks_something_else_fails(tasks):
    clean = tasks["purse-discount"].base()["purse.py"].decode()
    verdict = judged(tasks["purse-discount"], {"purse.py": clean.replace("default=None", "default=0")})
    assert (verdict.resolved, verdict.fail_to_pass) == (False, 1.0)
    assert verdict.pass_to_pass == 6 / 7


@pytest.mark.parametrize("name", IN_CODE)
def test_code_that_forges_earns_nothing(tasks, name):
    task = tasks["purse-discount"]
    code = task.broken()["purse.py"].decode()
    at = code.index("\n\n\ndef share")
    changes = {"purse.py": code[:at] + "\n\n\n" + textwrap.dedent(IN_CODE[name]) + code[at:], "forged.py": HOOK}
    assert not judged(task, changes).resolved


@pytest.mark.parametrize("name", AS_FILES)
def test_files_that_forge_earn_nothing(tasks, name):
    assert not judged(tasks["purse-discount"], AS_FILES[name]).resolved


WOULD_PASS = (
    "reports that always say passed",
    "a report of its own",
    "tests that are not run",
    "an object that equals everything",
    "what the test expects",
)


@pytest.mark.parametrize("name", WOULD_PASS)
def test_without_canaries_these_forgeries_would_pass(tasks, monkeypatch, name):
    monkeypatch.setattr(grading, "_believed", lambda *_: True)
    task = tasks["purse-discount"]
    code = task.broken()["purse.py"].decode()
    at = code.index("\n\n\ndef share")
    changes = {"purse.py": code[:at] + "\n\n\n" + IN_CODE[name] + code[at:]}
    assert judged(task, changes).resolved


def test_nothing_changed_is_not_run(tasks):
    def never(_):
        raise AssertionError("a jail was asked for")

    task = tasks["purse-discount"]
    assert not grade(task, task.broken() | {"tests/new.py": b"", "conftest.py": b""}, never).resolved


SUITE = b"""
import pytest, unittest

def test_literal():
    value = [1, {"a": "x"}]
    assert value == [1, {"a": "x"}]

def test_call():
    assert sorted([2, 1]) == list((1, 2))
    assert "a" in "abc" and not False

def test_left():
    assert "\xc3\xa9t\xc3\xa9" == "".join(["\xc3\xa9", "t", "\xc3\xa9"])  # more than one byte a letter

def test_raises():
    with pytest.raises(ValueError, match="invalid"):
        int("x")

def test_over_lines():
    assert (
        sum([1, 2])
        == 3
    )

def test_leaves():
    for n in range(3):
        if n:
            return
    assert False

def test_nothing():
    print("no assertion")

class TestOld(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(len("abc"), 3)

    def test_true(self):
        self.assertTrue("x")

    def test_in(self):
        self.assertIn(1, [1])
"""
NAMES = ("test_literal", "test_call", "test_left", "test_raises", "test_over_lines")
OLD = ("TestOld.test_equal", "TestOld.test_true", "TestOld.test_in")


def outcome(source, name):
    """Return whether a test of a source passes."""
    space = {}
    exec(compile(source, "suite", "exec"), space)
    try:
        kind, _, method = name.rpartition(".")
        getattr(space[kind](method), method)() if kind else space[name]()
    except Exception:
        return "failed"
    return "passed"


@pytest.mark.parametrize("seed", range(8))
def test_altered_tests_fail_and_swept_ones_pass(seed):
    rng = random.Random(seed)
    altered, must_fail = alter(SUITE, {*NAMES, *OLD, "test_leaves", "test_nothing", "no_such"}, (), rng)
    assert must_fail == {*NAMES, *OLD}
    assert all(outcome(SUITE, name) == "passed" and outcome(altered, name) == "failed" for name in must_fail)
    assert outcome(altered, "test_leaves") == "passed"
    swept, none = alter(SUITE, (), {*NAMES, *OLD}, rng)
    assert not none and swept != SUITE
    assert all(outcome(swept, name) == "passed" for name in (*NAMES, *OLD))


@pytest.mark.parametrize("value", [0, -1, 1.5, float("inf"), True, None, "", "a", b"", [], [[]], (), {1}, {}, {"a": {}}])
def test_another_value_differs(value):
    assert all(other(value, random.Random(seed)) != value for seed in range(20))
