"""SWE-RL: repairs compared with the known one, by hand and without a test being run."""

import json
import time

import pytest
import swe_files

from agentgym.envs.swe import SWE
from agentgym.envs.swe import env as swe_env
from agentgym.envs.swe.similarity import FACTOR, FREE, changes, similarity
from agentgym.errors import BadConfig

BEFORE = {"a.py": b"x = 1\ny = 2\n", "b.py": b"z = 3\n", "tests/test_a.py": b"old\n"}


def changed(**files):
    return {**BEFORE, **{name.replace("_py", ".py"): text.encode() for name, text in files.items()}}


def test_similarity_by_hand():
    known = changed(a_py="x = 1\ny = 5\n")
    assert changes(BEFORE, known) == {"a.py": "@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 5"}
    assert similarity(BEFORE, known, known) == 1.0
    # one of 36 characters differs on either side: 2 * 35 / 72
    assert similarity(BEFORE, changed(a_py="x = 1\ny = 7\n"), known) == pytest.approx(2 * 35 / 72)
    # a second file is changed too: the mean of 1 and 0
    assert similarity(BEFORE, changed(a_py="x = 1\ny = 5\n", b_py="z = 4\n"), known) == 0.5
    assert similarity(BEFORE, BEFORE, known) == 0.0
    assert similarity(BEFORE, changed(b_py="z = 4\n"), known) == 0.0


def test_tests_and_caches_are_as_they_were_and_long_changes_are_not_compared():
    known = changed(a_py="x = 1\ny = 5\n")
    more = {**known, "tests/test_a.py": b"easier\n", "__pycache__/a.pyc": b"\0\xff"}
    assert similarity(BEFORE, more, known) == 1.0
    assert similarity(BEFORE, changed(a_py="x = 1\ny = 5\n" + "#" * (FACTOR * 40 + FREE)), known) == 0.0
    assert similarity(BEFORE, {**BEFORE, "a.py": b"\xff\xfe"}, known) < 1.0


@pytest.mark.parametrize(
    "change", [{"b.py": b"z = 3"}, {"b.py": b"z = 3\r\n"}, {"b.py": b"z = 3\n\n"}, {f"new{n}.py": b"" for n in range(9)}]
)
def test_what_changes_nothing_that_is_known_is_worth_nothing(change):
    """Line ends and empty files show in no line of a diff."""
    known = changed(a_py="x = 1\ny = 5\n")
    assert similarity(BEFORE, {**BEFORE, **change}, known) == 0.0
    assert similarity(BEFORE, {**known, **change}, known) == 1 / (1 + len(change))


def test_different_files_are_never_quite_alike():
    known = {**BEFORE, "b.py": b"z = \xff\n"}
    assert similarity(BEFORE, {**BEFORE, "b.py": b"z = \xfe\n"}, known) < 1.0
    gone = {name: content for name, content in BEFORE.items() if name != "b.py"}
    assert similarity(BEFORE, {**BEFORE, "b.py": b""}, gone) == 0.0 and similarity(BEFORE, gone, gone) == 1.0


@pytest.mark.parametrize("unit", ["e ", " ", " \n", "    return self.value\n"])
def test_no_change_takes_long_to_be_compared(unit):
    lines = [f"    value_{n} = self.find({n * 7919 % 1000}, key={n % 10})\n\n" for n in range(300)]
    known = changed(a_py="".join(lines))
    started = time.process_time()
    assert similarity(BEFORE, changed(a_py=(unit * 60_000)[:50_000]), known) < 0.2
    assert 0.1 < similarity(BEFORE, changed(a_py="".join(lines[::2])), known) < 1.0
    assert time.process_time() - started < 10


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(swe_files.make(tmp_path_factory.mktemp("swe")))


@pytest.fixture
def environment(data, monkeypatch):
    def no_tests(*_):
        raise AssertionError("a test was run")

    monkeypatch.setattr(swe_env, "grade", no_tests)
    env = SWE(data=data, grading="patch")
    env.reset(seed=0, options={"task": "purse-largest"})
    yield env
    env.close()


def edit(environment, old, new):
    return environment.step(json.dumps({"name": "edit", "arguments": {"path": "purse.py", "old": old, "new": new}}))


def test_the_known_repair_wins_and_no_test_is_run(environment):
    assert environment.info()["metrics"] == {"similarity": 0.0}
    edit(environment, "min(self", "max(self")
    observation, reward, terminated, _, info = environment.step("submit[]")
    assert (reward, terminated, info["metrics"]) == (1.0, True, {"similarity": 1.0}) and "known repair" in observation


def test_another_repair_is_told_how_it_did_and_never_what_was_right(environment):
    seen = [environment.observation, edit(environment, "min(self.coins", "sorted(self.coins")[0]]
    observation, reward, terminated, _, info = environment.step("submit[]")
    seen.append(observation)
    assert (reward, terminated, info["success"]) == (0.0, True, False) and 0.5 < info["metrics"]["similarity"] < 1.0
    assert not any("max(self.coins" in text for text in seen)


def test_nothing_submitted_has_nothing_in_common(environment):
    _, reward, _, _, info = environment.step("submit[]")
    assert (reward, info["metrics"]) == (0.0, {"similarity": 0.0})


def test_a_grading_that_is_none_is_refused(data):
    with pytest.raises(BadConfig, match="grading of SWE is 'guess'; expected 'tests', 'one-process', 'patch'"):
        SWE(data=data, grading="guess")
