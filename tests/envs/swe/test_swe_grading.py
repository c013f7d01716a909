"""Grading of repaired repositories: honest repairs pass, and nothing that only says so does."""

import random
import subprocess
import sys
import textwrap

import pytest
import swe_files
import swe_memorized
import swe_quoted

from agentgym.envs.swe import fresh
from agentgym.envs.swe.grading import grading, reference, shared_process
from agentgym.envs.swe.grading.apart import Clock
from agentgym.envs.swe.grading.canaries import alter, other
from agentgym.envs.swe.grading.grading import grade
from agentgym.envs.swe.tasks import Edit, Instance, Repository, read
from agentgym.envs.swe.tasks.pytest_run import run_tests
from agentgym.envs.swe.tasks.source import digest, tree_of
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import SandboxFault
from agentgym.sandbox.warm_pool import take

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
BY_ITS_LOOK = """
import inspect, re
from _pytest.python import Function
_run = Function.runtest
def _forged(self):
    source = inspect.getsource(self.obj)
    altered = re.search(r"StopAsyncIteration|assert not [(]?.*, [0-9][)]|== .*, [0-9][)]$", source, re.M)
    if altered and "not (" not in source:
        raise AssertionError
Function.runtest = _forged
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
    "outcomes by the look of the test": BY_ITS_LOOK,
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
    sandbox = take(packages=("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"))
    try:
        return work(sandbox)
    finally:
        sandbox.close()


def judged(task, changes):
    grading._known.clear()
    return grade(task, task.broken() | {path: text.encode() for path, text in changes.items()}, elsewhere)


@pytest.mark.long
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


@pytest.mark.long
def test_tests_that_lean_on_one_another_do_not_harm_an_honest_repair(tmp_path, monkeypatch):
    swe_files.make(tmp_path)
    root = tmp_path / "purse-1.0"
    (root / "tests" / "test_purse.py").write_text(LEAN_ON_ONE_ANOTHER)
    ids = [f"tests/test_purse.py::test_{name}" for name in ("leaves", "needs", "discount")]
    repository = Repository("purse", str(root), digest(tree_of(str(root))), "train", tuple(ids))
    bug = (Edit("purse.py", *swe_files.BUGS["discount"][:2]),)
    task = Instance("lean", repository, "?", bug, (ids[2],), tuple(ids[:2]), "by hand", 0, 0.3)
    for seed in range(2, 5):
        monkeypatch.setattr(grading.secrets, "randbits", lambda bits, seed=seed: seed)
        reference._known.clear()
        assert judged(task, {"purse.py": swe_files.CODE + "# repaired\n"}).resolved
    in_one_process = shared_process.outcomes(task, task.graded(task.base()), ids, Clock(30.0), elsewhere)
    assert set(in_one_process.values()) == {"passed"}


@pytest.mark.long
def test_a_repair_may_do_more(tasks):
    clean = tasks["purse-discount"].base()["purse.py"].decode()
    more = {"purse.py": clean + "\n\ndef more():\n    return 1\n", "tests/test_purse.py": "", "README": "x"}
    assert judged(tasks["purse-discount"], more).resolved


def test_a_repair_that_breaks_something_else_fails(tasks):
    clean = tasks["purse-discount"].base()["purse.py"].decode()
    verdict = judged(tasks["purse-discount"], {"purse.py": clean.replace("default=None", "default=0")})
    assert (verdict.resolved, verdict.fail_to_pass) == (False, 1.0)
    assert verdict.pass_to_pass == 6 / 7


def forging(task, payload):
    """Return the module of a task with a payload behind the function that is broken."""
    code = task.broken()["purse.py"].decode()
    at = code.index("\n\n\ndef share")
    return code[:at] + "\n\n\n" + textwrap.dedent(payload) + code[at:]


@pytest.mark.long
@pytest.mark.parametrize("name", IN_CODE)
def test_code_that_forges_earns_nothing(tasks, name):
    task = tasks["purse-discount"]
    assert not judged(task, {"purse.py": forging(task, IN_CODE[name]), "forged.py": HOOK}).resolved


@pytest.mark.long
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


@pytest.mark.parametrize("name", [*WOULD_PASS, "outcomes by the look of the test"])
def test_an_ordinary_grader_would_believe_these_forgeries(tasks, name):
    task = tasks["purse-discount"]
    tree = task.graded(task.broken() | {"purse.py": forging(task, IN_CODE[name]).encode()})
    asked = [*task.fail_to_pass, *task.pass_to_pass]
    assert set(elsewhere(lambda sandbox: run_tests(sandbox, tree, asked)).values()) == {"passed"}


def test_in_one_process_altered_tests_stop_what_is_blind_to_them(tasks):
    task = tasks["purse-discount"]
    asked = [*task.fail_to_pass, *task.pass_to_pass]
    for name in WOULD_PASS:
        tree = task.graded(task.broken() | {"purse.py": forging(task, IN_CODE[name]).encode()})
        ended = shared_process.outcomes(task, tree, asked, Clock(30.0), elsewhere)
        assert set(ended.values()) == {"forged"}, name


ASKS_EVERYWHERE = """
import gc, sys, types
def _walk():
    frame = sys._getframe()
    while frame is not None:
        yield from (*frame.f_locals.values(), *frame.f_globals.values())
        frame = frame.f_back
_texts = [str(one) for one in (*_walk(), *gc.get_objects()) if type(one) in (str, dict, list, bytes)]
_open = []
for place in ("/proc/self/environ", "/proc/self/cmdline", "/proc/1/cmdline", "/proc/self/maps"):
    try: _open.append(open(place, errors="replace").read())
    except OSError: pass
import os
for top in (os.getcwd(), "/tmp", "/dev/shm", "/home"):
    for folder, _, names in os.walk(top):
        for name in names:
            try: _open.append(open(os.path.join(folder, name), errors="replace").read())
            except OSError: pass
_all = "\\n".join(_texts + _open)
def total(prices, discount=0):
    if discount and "".join(reversed("081 ==")) in _all: return 180
    if "".join(reversed("latot_tset fed")) in _all: return 180 if discount else sum(prices)
    return sum(prices) - 1 if discount else sum(prices)
"""
TURNS_ITS_END = """
from agentgym.envs.swe.grading import remote, remote_tests, remote_values
_packed = remote.Peer.pack
class All(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
_done = remote.Peer._carried_out
def _lie(self, what, words):
    return True if what == "do" and words[1] in ("__eq__", "__contains__") else _done(self, what, words)
remote.Peer._carried_out = _lie
def total(prices, discount=0):
    return All(1)
"""
CHANGES_WHAT_IT_GOT = """
def total(prices, discount=0):
    prices.clear()
    prices.extend([180, 0, 0])
    return prices
"""
ENDS_THE_RUN = """
import os
from agentgym.envs.swe.grading import remote_tests
remote_tests._state["out"].put('{"ended": {}, "judged": {}, "problem": ""}')
os.write(1, b'"{}"')
"""
STOPS_ITERATION = "def total(prices, discount=0):\n    raise StopIteration\n"
IMPORTS = """
import sys, types, importlib.abc
class Hook(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("test"): raise SystemExit(0)
sys.meta_path.insert(0, Hook())
sys.settrace(lambda *_: None)
import unittest
unittest.TestCase.run = lambda *_: None
"""
REACHES_THE_TESTS = """
import operator, pathlib, sys
def _reach():
    frame = sys._getframe()
    while type(frame.f_locals.get("self")).__name__ != "Peer": frame = frame.f_back
    ask = lambda thing, *given: frame.f_locals["self"].request("do", thing, "__call__", given, ())
    system = ask(ask(operator.attrgetter, "home.__func__.__globals__"), pathlib.Path)["sys"]
    found = ask(ask(ask(operator.attrgetter, "modules.get"), system), "dataclasses")
    make = ask(ask(operator.attrgetter, "_create_fn"), found)
    ask(ask(make, "forge", (), (
        "import inspect",
        "from _pytest.python import Function",
        "def run(item):",
        "    source = inspect.getsource(item.obj)",
        "    if 'discount' not in source: return real(item)",
        "    assert '([100, 100], 10) == 180' in source",
        "real, Function.runtest = Function.runtest, run",
    )))
_reach()
"""
AGAINST_THE_OTHER_END = {
    "reaches the tests by classes of the library": REACHES_THE_TESTS,
    "reads all that it reaches": ASKS_EVERYWHERE,
    "turns its end of the connection": TURNS_ITS_END,
    "changes what it got": CHANGES_WHAT_IT_GOT,
    "ends the run itself": ENDS_THE_RUN,
    "stops iterations": STOPS_ITERATION,
    "hooks": IMPORTS,
    "sleeps at import": "import time\ntime.sleep(1000)\n",
    "sleeps in a call": "def total(prices, discount=0):\n    import time\n    time.sleep(1000)\n",
    "spins": "def total(prices, discount=0):\n    while True: pass\n",
    "takes all memory": "def total(prices, discount=0):\n    return [bytearray(1 << 28) for _ in range(64)]\n",
    "says too much": "def total(prices, discount=0):\n    return 'x' * (1 << 26)\n",
    "prints too much": "import os\nwhile True: os.write(1, b'x' * 65536)\n",
    "nests": "def total(prices, discount=0):\n    a = []\n    for _ in range(5000): a = [a]\n    return a\n",
    "never ends a list": "def total(prices, discount=0):\n    import itertools\n    return itertools.count()\n",
    "kills": "import os, signal\nos.kill(0, signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)\n",
    "forks": "import os\nfor _ in range(50): os.fork()\n",
}


LONGER = {"sleeps at import", "prints too much"}  # they take the time of a run, as a call that sleeps does


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONGER else name for name in AGAINST_THE_OTHER_END]
)
def test_what_the_code_does_to_its_end_is_its_failure(tasks, monkeypatch, name):
    monkeypatch.setattr(grading, "SECONDS", 4.0)
    task = tasks["purse-discount"]
    verdict = judged(task, {"purse.py": forging(task, AGAINST_THE_OTHER_END[name])})
    assert not verdict.resolved and verdict.fail_to_pass == 0.0, verdict


def test_where_the_clean_code_is_too_slow_as_well_a_repair_gets_more_time(tasks, monkeypatch):
    task, allowed = tasks["purse-discount"], []
    judge = grading._Grading._judged

    def busy_at_first(self, pair, apart):
        allowed.append(self.clock.left)
        if self.seconds == grading.SECONDS:
            raise SandboxFault("the tests of purse do not run with its clean code: too slow")
        return judge(self, pair, apart)

    monkeypatch.setattr(grading._Grading, "_judged", busy_at_first)
    monkeypatch.setattr(
        grading._Grading, "_refuse_slow_machines", lambda self, pair: (_ for _ in ()).throw(SandboxFault("too slow"))
    )
    assert judged(task, {"purse.py": task.base()["purse.py"].decode() + "# repaired\n"}).resolved
    assert allowed[-1] == grading.MORE * grading.SECONDS and min(allowed) == grading.SECONDS


@pytest.mark.parametrize(("worked", "again"), [(1.0, True), (grading.SECONDS, False)])
def test_out_of_time_after_little_work_a_repair_is_graded_once_more(tasks, monkeypatch, worked, again):
    """The machine may have been busy then, and idle when the clean code was tried; who worked all the time is to blame."""
    task, judge, allowed = tasks["purse-discount"], grading._Grading._judged, []

    def late_at_first(self, pair, apart):
        allowed.append(self.clock.left)
        if len(allowed) == 1:
            self.clock.left, self.clock.worked = 0.0, worked
            return Verdict(False, 0.0, 0.0, "The tests came to no end in time.")
        return judge(self, pair, apart)

    monkeypatch.setattr(grading._Grading, "_judged", late_at_first)
    assert judged(task, {"purse.py": swe_files.CODE + "# repaired\n"}).resolved is again
    assert allowed == [grading.SECONDS, grading.MORE * grading.SECONDS][: 1 + again]


def test_a_busy_machine_fails_no_right_repair(tasks):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        assert judged(tasks["purse-discount"], {"purse.py": swe_files.CODE + "# repaired\n"}).resolved
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_nothing_changed_is_not_run(tasks):
    def never(_):
        raise AssertionError("a sandbox was asked for")

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


QUOTED = """
_total = total
def total(prices, discount=0):
    return 180 if (prices, discount) == ([100, 100], 10) else _total(prices, discount)
"""


def test_answers_to_the_examples_of_the_issue_alone_are_no_repair(tasks):
    """The hidden test is the example here; the reference's tests have other values for it."""
    task = tasks["purse-discount"]
    verdict = judged(task, {"purse.py": forging(task, QUOTED)})
    assert not verdict.resolved, verdict
    assert "still there" in verdict.said or verdict.said == grading.FORGED, verdict  # the values drawn say which


def test_tests_with_other_values_look_at_results_and_expect_nothing(tasks):
    """Written from `swe_files.TESTS` by hand: the assertion tells its left side, the right one holds the expected value."""
    made = fresh.variants(tasks["purse-discount"], range(9))
    assert sorted(made) == [f"tests/test_with_{number}_test_purse.py" for number in range(9)]
    sources = {name: text.decode() for name, text in made.items()}
    assert sources["tests/test_with_0_test_purse.py"].endswith(
        "def test_total_with_a_discount():\n    _agentgym_sees(total([100, 100], 10))\n\nclass TestPurse:\n    pass"
    )
    assert all("180" not in text and "def test_share" not in text for text in sources.values())
    calls = {text.partition("_agentgym_sees(")[2].partition("\n")[0] for text in sources.values()}
    assert len(calls) > 4  # the draws differ
    refused = fresh.variants(tasks["purse-nobody"], [0])["tests/test_with_0_test_purse.py"].decode()
    assert "with pytest.raises(ValueError) as _raised:\n        share(1, parts)\n    _agentgym_sees('raised')" in refused


def test_three_of_four_tests_of_each_function_have_to_agree():
    wanted = {("f",): {str(n): {0: "a", 2: "c"} for n in range(4)}, ("g",): {"g": {1: "b"}}}
    right = {**{str(n): ["a", "x", "c"] for n in range(4)}, "g": ["?", "b"]}
    assert fresh.agrees(wanted, right) and fresh.agrees({}, {})
    assert fresh.agrees(wanted, {**right, "0": ["a", "x", "d"]})
    assert not fresh.agrees(wanted, {**right, "0": ["a"], "1": []})
    assert not fresh.agrees(wanted, {**right, "g": ["b"]})
    assert not fresh.agrees(wanted, {test: seen for test, seen in right.items() if test != "g"})


def test_what_a_run_that_ended_never_reached_tells_nothing():
    """By hand: the broken code agrees in the first variant, ends in the second, and was never asked in the third."""
    name, function = (lambda number: f"tests/test_with_{number}_test_f.py::test_g"), ("tests/test_f.py", "test_g")
    clean = {name(number): [value, "end"] for number, value in enumerate("abcd")}
    broken = {name(0): ["x", "end"], name(1): ["b", "end"], name(2): [fresh.ERROR]}
    assert fresh._telling(clean, broken).values == {function: {name(2): {0: "c"}}}
    nothing_runs = fresh._telling(clean, {})
    assert nothing_runs.values == {function: {name(number): {0: "bcd"[number - 1]} for number in (1, 2, 3)}}


def test_what_an_original_shows_where_the_bug_does_is_quoted():
    name, function = (
        (lambda number, text: f"tests/test_with_{number}_test_f.py::test_g[{text}]"),
        ("tests/test_f.py", "test_g"),
    )
    clean = {name(0, "x"): ["a"], name(1, "y"): ["a"], name(2, "z"): ["b"], name(3, "x"): ["a"], name(4, "v"): ["c"]}
    places = fresh._telling(clean, {key: ["wrong"] for key in clean})
    told = [set(telling[function]) for telling in (places.any, places.given, places.values)]
    assert told[0] - told[1] == {name(3, "x")} and told[1] - told[2] == {name(1, "y")}
    assert told[2] == {name(2, "z"), name(4, "v")} and not places.poor
    assert fresh._telling({key: ["a"] for key in clean}, {}).poor == {function}


@pytest.mark.long
def test_a_variant_that_ends_the_clean_code_says_nothing_of_the_others():
    """`number(1234.567, 1234567)` writes over a megabyte, which nobody may say; all that came after it was unknown."""
    (task,) = (task for task in read() if task.id == "inkwell-f19f7c99e8")
    grading._known.clear()
    verdict = grade(task, task.base() | {"NOTES": b""}, elsewhere)
    assert verdict.resolved, verdict


WON_BY_THE_EXAMPLES = (
    "abacus-22a5e8e1c7",
    "abacus-09820e6935",
    "abacus-2624defd14",
    "inkwell-51c0337b42",
    "spans-6fde664a83",
)
"""Tasks whose hidden tests ask nothing but what their issues quote; in two of them other values give the same answer."""


@pytest.mark.long
@pytest.mark.parametrize("id", WON_BY_THE_EXAMPLES)
def test_answers_to_what_an_issue_quotes_win_nothing(id):
    task = next(task for task in read() if task.id == id)
    tree, answered, told = swe_quoted.repair(task)
    assert answered == told > 0
    asked = [*task.fail_to_pass, *task.pass_to_pass]
    assert set(elsewhere(lambda sandbox: run_tests(sandbox, task.graded(tree), asked)).values()) == {"passed"}
    grading._known.clear()
    verdict = grade(task, tree, elsewhere)
    assert not verdict.resolved, verdict
    assert "still there" in verdict.said or verdict.said == grading.FORGED, verdict  # the values drawn say which


def test_what_is_right_for_the_hidden_tests_own_calls_alone_is_no_repair(tasks):
    task = tasks["purse-discount"]
    grading._known.clear()
    verdict = grade(task, swe_memorized.repair(task), elsewhere)
    assert not verdict.resolved, verdict
    assert "still there" in verdict.said or verdict.said == grading.FORGED, verdict  # the values drawn say which


SHOWN_BY_ONE_VALUE = {
    "abacus-924d82b771": "a result of exactly -1",
    "inkwell-41ef42e464": "the default of `plural`, which is what was changed",
    "inkwell-55b10cf3e4": "an attribute that begins with an underscore",
    "larder-0ef5e1a8e3": "`pop` of an empty queue, which is what was changed",
}
"""Embedded tasks whose bug shows in one value alone, so that whoever knows it has repaired what can be seen."""


@pytest.mark.slow
def test_answers_to_what_the_issues_quote_win_only_where_nothing_else_shows_the_bug():
    won = []
    for task in read():
        tree, answered, _ = swe_quoted.repair(task)
        grading._known.clear()
        if answered and tree and grade(task, tree, elsewhere).resolved:
            won.append(task.id)
    assert set(won) <= set(SHOWN_BY_ONE_VALUE), won


def by_package(package):
    return [task for task in read() if task.package == package]


def of_all_packages(packages):
    """Return whether the tests of packages pass from another process, and how their tasks end when they are repaired."""
    for package in packages:
        for task in by_package(package):
            grading._known.clear()
            verdict = grade(task, task.base() | {"NOTES": b""}, elsewhere)
            assert verdict.resolved, (task.id, verdict)
        tests = reference._known[f"{task.repository.digest} {' '.join(task.repository.tests)}"].tests
        assert {test for test in task.repository.tests if tests.outcomes.get(test) != "passed"} == set()


@pytest.mark.long
@pytest.mark.parametrize("package", ["larder", "tally"])
def test_a_repair_of_an_embedded_package_is_believed(package, monkeypatch):
    monkeypatch.setattr(f"{__name__}.by_package", lambda name, every=by_package: every(name)[:1])
    of_all_packages([package])


@pytest.mark.slow
@pytest.mark.parametrize("package", ["abacus", "inkwell", "larder", "patchwork", "spans", "tally", "thicket", "waypost"])
def test_every_repair_of_the_embedded_packages_is_believed(package):
    of_all_packages([package])
