"""Grading in which tests share a process with the code they test: what it still stops, and who has to ask for it."""

from importlib.util import find_spec

import pytest
import swe_files
from swe_forgeries import AGAINST_THE_OTHER_END, IN_CODE, forging, judged

from agentgym.envs.swe import SWE
from agentgym.envs.swe.grading import grading
from agentgym.errors import MissingExtra


@pytest.fixture
def task(tasks):
    return tasks["purse-discount"]


def test_an_honest_repair_is_believed_and_a_wrong_one_is_not(task):
    verdict = judged(task, {"purse.py": swe_files.CODE + "# repaired\n"}, one_process=True)
    assert (verdict.resolved, verdict.fail_to_pass, verdict.pass_to_pass) == (True, 1.0, 1.0), verdict
    wrong = judged(task, {"purse.py": task.broken()["purse.py"].decode() + "\n"}, one_process=True)
    assert (wrong.resolved, wrong.fail_to_pass, wrong.pass_to_pass) == (False, 0.0, 1.0)


@pytest.mark.parametrize("name", ["reports that always say passed", "an object that equals everything"])
def test_what_is_blind_to_altered_tests_earns_nothing(task, name):
    assert not judged(task, {"purse.py": forging(task, IN_CODE[name])}, one_process=True).resolved


@pytest.mark.long
def test_who_leaves_no_time_for_altered_tests_is_not_believed(task, monkeypatch):
    monkeypatch.setattr(grading, "SECONDS", 6.0)
    monkeypatch.setattr(grading, "MORE", 1)
    slow = "\nimport time\ntime.sleep(4)\n" + IN_CODE["reports that always say passed"]
    assert not judged(task, {"purse.py": forging(task, slow)}, one_process=True).resolved


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sleeps in a call", "takes all memory", "kills"])
def test_what_the_code_does_to_its_process_is_its_failure(task, monkeypatch, name):
    monkeypatch.setattr(grading, "SECONDS", 6.0)
    assert not judged(task, {"purse.py": forging(task, AGAINST_THE_OTHER_END[name])}, one_process=True).resolved


@pytest.mark.skipif(find_spec("harbor") is not None, reason="harbor is installed; ./dev test-harbor tests it")
def test_where_harbor_is_missing_it_says_so():
    with pytest.raises(MissingExtra, match="pip install harbor"):
        SWE(backend="harbor", backend_options={"image": "any"}, grading="one-process")
