"""A repository's tests in a sandbox: how each ended, and what is not believed."""

import pytest

from agentgym.envs.swe.tasks.pytest_run import PACKAGES, _read, roots, run_files, run_tests
from agentgym.sandbox import Limits, sandbox
from agentgym.sandbox.protocol import Result

CODE = b"def double(number):\n    return 2 * number\n"
TESTS = b"""
import unittest
import pytest
import shop

def test_right():
    assert shop.double(2) == 4

def test_wrong():
    assert shop.double(2) == 5

@pytest.mark.skip
def test_skipped():
    pass

@pytest.mark.xfail
def test_expected():
    assert False

@pytest.mark.parametrize("text", ["a", "b::c[d]", "x/y.py", "\\xe4"])
def test_text(text):
    assert text != "a"

class TestShop:
    class TestInner:
        def test_deep(self):
            assert True

class OldTest(unittest.TestCase):
    def test_old(self):
        self.assertEqual(shop.double(1), 2)

@pytest.fixture
def broken():
    raise KeyError("no")

def test_fixture(broken):
    pass
"""
FILE = "tests/test_shop.py"
PASSING = [f"{FILE}::{name}" for name in ("test_right", "TestShop::TestInner::test_deep", "OldTest::test_old")]


@pytest.fixture(scope="module")
def box():
    with sandbox(packages=PACKAGES, limits=Limits(timeout=30)) as made:
        yield made


def outcomes(box, tree, ids):
    return [run_tests(box, tree, [f"{FILE}::{name}"])[f"{FILE}::{name}"] for name in ids]


def test_outcomes(box):
    report = run_files(box, {"shop.py": CODE, FILE: TESTS}, [FILE])
    assert report.problem == ""
    found = {test.removeprefix(f"{FILE}::"): outcome for test, outcome in report.outcomes.items()}
    assert {name: outcome for name, outcome in found.items() if not name.startswith("test_text")} == {
        "test_right": "passed",
        "test_wrong": "failed",
        "test_skipped": "skipped",
        "test_expected": "skipped",
        "TestShop::TestInner::test_deep": "passed",
        "OldTest::test_old": "passed",
        "test_fixture": "failed",
    }
    assert [outcome for name, outcome in found.items() if name.startswith("test_text")] == ["failed", *["passed"] * 3]
    assert found["test_text[b::c[d]]"] == "passed"
    assert "assert 4 == 5" in report.messages[f"{FILE}::test_wrong"]


def test_tests_that_are_not_there_are_missing(box):
    tree = {"shop.py": CODE, FILE: TESTS}
    assert run_tests(box, tree, [f"{FILE}::test_gone", PASSING[0]]) == {
        f"{FILE}::test_gone": "missing",
        PASSING[0]: "passed",
    }
    assert set(run_tests(box, {"shop.py": CODE}, PASSING).values()) == {"missing"}
    for files in ([], ["tests/test_gone.py"]):
        report = run_files(box, tree, files)
        assert not report.outcomes and "none of the test files" in report.problem


def test_source_folders(box):
    assert roots({"src/shop/__init__.py": b"", "a.py": b""}) == ["", "src"]
    assert roots({"shop/__init__.py": b"", "src/__init__.py": b""}) == [""]
    tree = {
        "src/shop.py": CODE,
        "pkg/__init__.py": b"",
        FILE: b"import shop, pkg\ndef test_right():\n    assert shop and pkg\n",
    }
    assert run_tests(box, tree, PASSING[:1]) == {PASSING[0]: "passed"}


def test_tests_inside_of_the_package(box):
    test = b"import shop\ndef test_a():\n    assert shop.double(1) == 2\n"
    inside = {"shop/__init__.py": CODE, "shop/tests/__init__.py": b"", "shop/tests/test_a.py": test}
    assert run_tests(box, inside, ["shop/tests/test_a.py::test_a"]) == {"shop/tests/test_a.py::test_a": "passed"}


def test_a_file_that_cannot_be_imported_hides_only_its_own_tests(box):
    other = "tests/test_other.py"
    tree = {"shop.py": CODE, FILE: TESTS, other: b"import nothing\ndef test_x():\n    pass\n"}
    found = run_tests(box, tree, [PASSING[0], f"{other}::test_x"])
    assert found == {PASSING[0]: "passed", f"{other}::test_x": "missing"}


HOOK = b"""
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
FORGER = b"""
from _pytest.junitxml import _NodeReporter as Reporter
Reporter.append_failure = Reporter.append_error = lambda self, report: None
"""
FORGERIES = {
    "exit at import": {"shop.py": b"import os\nos._exit(0)\n"},
    "exit by exception": {"shop.py": b"raise SystemExit(0)\n"},
    "exit at the end": {"shop.py": CODE + b"import atexit, os\natexit.register(os._exit, 0)\n"},
    "exit in a test": {"shop.py": b"import os\ndef double(number):\n    os._exit(0)\n"},
    "report without failures": {"shop.py": CODE + FORGER},
    "hook": {"conftest.py": HOOK, "tests/conftest.py": HOOK},
    "options": {"pytest.ini": b"[pytest]\naddopts = --collect-only\n", "setup.cfg": b"[tool:pytest]\naddopts = --co\n"},
    "another pytest": {"pytest.py": b"def main(words):\n    print('1 passed')\n    return 0\n"},
    "another library": {"xml.py": b"raise SystemExit(0)\n", "_pytest/__init__.py": b"raise SystemExit(0)\n"},
    "report of its own": {"report.xml": b"<testsuites/>", "a.xml": b"<testsuites/>"},
    "endless": {"shop.py": b"while True:\n    pass\n"},
}


@pytest.mark.long
@pytest.mark.parametrize("name", FORGERIES)
def test_a_wrong_test_never_passes(box, name):
    tree = {"shop.py": CODE, FILE: TESTS, **FORGERIES[name]}
    timeout = 2.0 if name == "endless" else None
    assert run_tests(box, tree, [f"{FILE}::test_wrong"], timeout=timeout)[f"{FILE}::test_wrong"] in ("failed", "missing")


def test_what_ends_early_is_not_believed(box):
    for name in ("exit at import", "exit in a test", "endless"):
        timeout = 2.0 if name == "endless" else None
        found = run_tests(box, {"shop.py": CODE, FILE: TESTS, **FORGERIES[name]}, PASSING, timeout=timeout)
        assert set(found.values()) == {"missing"}, name


def test_the_next_run_in_a_sandbox_sees_nothing_of_the_last(box):
    run_tests(box, {"shop.py": b"open('left.txt', 'w').write('x')\n" + CODE, FILE: TESTS}, PASSING)
    look = b"import os\ndef test_right():\n    assert sorted(os.listdir()) == ['tests'] and len(os.listdir('..')) == 1\n"
    assert run_tests(box, {FILE: look}, PASSING[:1]) == {PASSING[0]: "passed"}


CASE = '<testcase file="test_a.py" classname="test_a" name="test_b"/>'
ENTITY = '<!DOCTYPE a [<!ENTITY b "b">]>'


@pytest.mark.parametrize(
    "document",
    [
        f'<?xml version="1.0" encoding="no-such"?>{CASE}<'.encode(),
        f'<?xml version="1.0" encoding="utf-16"?>{ENTITY}{CASE}'.encode("utf-16"),
        f"{ENTITY}{CASE}".encode(),
        b"\xff",
        b"<a>" + b"<a/>" * (2 << 20) + CASE.encode() + b"</a>",
    ],
)
def test_a_report_that_pytest_did_not_write_is_none(document):
    ended = Result(0, b"", b"", "exit", 0.1)
    assert not _read(document, ended).outcomes and _read(document, ended).problem
    assert _read(CASE.encode(), ended).outcomes == {"test_a.py::test_b": "passed"}
