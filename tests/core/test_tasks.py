"""Tasks by number, and the splits they fall into; names, seeds and the errors about them."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentgym
from agentgym import BadConfig, Task, TextEnv, UnknownName
from agentgym.core.seeding import derive, generator, share
from agentgym.errors import no_such
from agentgym.registry import load, make


class Numbers(TextEnv):
    """Tasks are numbers below `top`."""

    settings = ("top",)
    top: int = 10**6

    def begin(self, task):
        return "say it"

    def generate(self, rng, difficulty):
        return Task("n", {"n": int(rng.integers(self.top))})


def test_a_split_is_a_function_of_content_alone():
    env, shares = Numbers(), {"train": 0, "valid": 0, "test": 0}
    for n in range(4000):
        split = env.split_of(Task("n", {"n": n}, id=str(n), split="anything", difficulty=n))
        assert split == Numbers().split_of(Task("n", {"n": n}))
        shares[split] += 1
    assert shares["train"] / 4000 == pytest.approx(0.8, abs=0.03) and shares["test"] / 4000 == pytest.approx(0.1, abs=0.02)


def test_splits_never_meet():
    env = Numbers()
    found = {split: {task.data["n"] for task in env.tasks(50, split)} for split in env.splits}
    assert all(len(numbers) == 50 for numbers in found.values())
    assert not (found["train"] & found["valid"] or found["valid"] & found["test"] or found["train"] & found["test"])


@given(st.integers(0, 10**9), st.sampled_from(["train", "valid", "test"]), st.integers(0, 3))
def test_ids_lead_back(number, split, difficulty):
    task = Numbers().numbered(number, split, difficulty)
    assert task.id == f"{split}/{difficulty}/{number}" and Numbers().find(task.id) == task == Numbers(split="test").find(
        task.id
    )


def test_the_evaluation_list_only_grows():
    env = Numbers(top=60)
    assert env.tasks(5) == env.tasks(12)[:5]
    assert len({task.data["n"] for task in env.tasks(20)}) == 20


def test_a_space_too_small_to_split_is_refused():
    with pytest.raises(BadConfig, match="too small to split"):
        lonely = Numbers(top=1)
        [lonely.numbered(0, split) for split in lonely.splits]
    with pytest.raises(BadConfig, match="different tasks; 99 were asked for"):
        Numbers(top=20).tasks(99)


@pytest.mark.parametrize("task_id", ["", "train", "train/0", "train/0/x", "train/-1/3", "tran/0/3", "train/0/3/4"])
def test_wrong_ids_say_what_is_expected(task_id):
    with pytest.raises(BadConfig, match="expected SPLIT/DIFFICULTY/NUMBER, for example train/0/17"):
        Numbers().find(task_id)


def test_an_environment_without_tasks_says_so():
    class Empty(TextEnv):
        pass

    with pytest.raises(NotImplementedError, match="define generate"):
        Empty().reset(seed=0)


def test_seeds_are_fixed_forever():
    assert derive("a", 1, None) == 826007063250732241 != derive("a", "1", None)
    assert 0 <= share("x") < 1 and derive("\ud800") >= 0
    assert generator("a").integers(10**9) == generator("a").integers(10**9) != generator("b").integers(10**9)
    assert np.mean([share("mean", i) for i in range(2000)]) == pytest.approx(0.5, abs=0.03)


def test_errors_suggest_the_closest():
    assert no_such("split", "tran", ["train", "test"]) == "no split 'tran'. Did you mean 'train'? Known: test, train."
    assert no_such("flag", "zzz", [f"f{i}" for i in range(20)], "See.") == "no flag 'zzz'. See."
    assert issubclass(UnknownName, LookupError) and issubclass(BadConfig, ValueError)


def test_make_suggests_and_loads_what_is_named():
    with pytest.raises(UnknownName, match="Did you mean 'rlvr/FrozenLake-v0'"):
        make("rlvr/FrozenLak-v0")
    with pytest.raises(UnknownName, match="no module 'nowhere'"):
        make("nowhere:me/Env-v0")
    with pytest.raises(BadConfig, match=r"no option of GuessNumber 'horizn'. Did you mean 'horizon'"):
        make("rlvr/GuessNumber-v0", horizn=3)
    with pytest.raises(BadConfig, match="not a text environment"):
        make("CartPole-v1") if "CartPole-v1" in gymnasium.registry else make("missing")
    assert load("agentgym.core.tasks:Task", "thing", {}) is Task and load("t", "thing", {"t": "agentgym:Task"}) is Task
    for wrong in ("agentgym.core.tasks:Tsk", "agentgym.nowhere:Task", "plain"):
        with pytest.raises(UnknownName):
            load(wrong, "thing", {})


def test_an_error_inside_a_module_is_not_hidden(tmp_path, monkeypatch):
    (tmp_path / "needs_more.py").write_text("import not_there_at_all")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadConfig, match=r"needs_more\.py, line 1: ModuleNotFoundError: No module named 'not_there_at_all'"):
        make("needs_more:me/Env-v0")


def test_registering_a_class_takes_its_first_line():
    agentgym.register("tests/Numbers-v0", Numbers, top=7)
    assert agentgym.registry.DESCRIPTIONS.pop("tests/Numbers-v0") == "Tasks are numbers below `top`."
    assert make("tests/Numbers-v0").top == 7
    del gymnasium.registry["tests/Numbers-v0"]
