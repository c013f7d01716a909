"""Grading of repaired repositories: honest repairs pass, and nothing that only says so does."""

import subprocess
import sys

import pytest
import swe_files
import swe_memorized
import swe_quoted
from swe_forgeries import AGAINST_THE_OTHER_END, AS_FILES, HOOK, IN_CODE, elsewhere, forging, judged

from agentgym.envs.swe.grading import grading, reference, shared_process
from agentgym.envs.swe.grading.grading import grade
from agentgym.envs.swe.grading.two_sandboxes import Clock
from agentgym.envs.swe.tasks import Edit, Instance, Repository, read
from agentgym.envs.swe.tasks.pytest_run import run_tests
from agentgym.envs.swe.tasks.source import digest, tree_of
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import SandboxFault


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
    test_ids = [*task.fail_to_pass, *task.pass_to_pass]
    assert set(elsewhere(lambda sandbox: run_tests(sandbox, tree, test_ids)).values()) == {"passed"}


def test_in_one_process_altered_tests_stop_what_is_blind_to_them(tasks):
    task = tasks["purse-discount"]
    test_ids = [*task.fail_to_pass, *task.pass_to_pass]
    for name in WOULD_PASS:
        tree = task.graded(task.broken() | {"purse.py": forging(task, IN_CODE[name]).encode()})
        ended = shared_process.outcomes(task, tree, test_ids, Clock(30.0), elsewhere)
        assert set(ended.values()) == {"forged"}, name


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

    def busy_at_first(self, pair, is_alone):
        allowed.append(self.clock.left)
        if self.seconds == grading.SECONDS:
            raise SandboxFault("the tests of purse do not run with its clean code: too slow")
        return judge(self, pair, is_alone)

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

    def late_at_first(self, pair, is_alone):
        allowed.append(self.clock.left)
        if len(allowed) == 1:
            self.clock.left, self.clock.worked = 0.0, worked
            return Verdict(False, 0.0, 0.0, "The tests came to no end in time.")
        return judge(self, pair, is_alone)

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
    assert "still there" in verdict.message or verdict.message == grading.FORGED, verdict  # the values drawn say which


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
    tree, answered, quoted = swe_quoted.repair(task)
    assert answered == quoted > 0
    test_ids = [*task.fail_to_pass, *task.pass_to_pass]
    assert set(elsewhere(lambda sandbox: run_tests(sandbox, task.graded(tree), test_ids)).values()) == {"passed"}
    grading._known.clear()
    verdict = grade(task, tree, elsewhere)
    assert not verdict.resolved, verdict
    assert "still there" in verdict.message or verdict.message == grading.FORGED, verdict  # the values drawn say which


def test_what_is_right_for_the_hidden_tests_own_calls_alone_is_no_repair(tasks):
    task = tasks["purse-discount"]
    grading._known.clear()
    verdict = grade(task, swe_memorized.repair(task), elsewhere)
    assert not verdict.resolved, verdict
    assert "still there" in verdict.message or verdict.message == grading.FORGED, verdict  # the values drawn say which


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
