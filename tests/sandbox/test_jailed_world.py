"""Worlds with a jail: what an episode did comes back after a snapshot, and after the jail broke."""

from collections.abc import Iterator

import numpy as np
import pytest

from agentgym.core import Outcome
from agentgym.sandbox.stock import take
from agentgym.sandbox.world import JailedEnv
from agentgym.tasks import Task


class Shell(JailedEnv):
    """Python lines; `$ …` goes to the shell."""

    def begin(self, task: Task) -> str:
        return "Compute."

    def prepare(self, jail) -> None:
        jail.write("given.txt", b"given\n")

    def act(self, action: str) -> str | Outcome:
        result = self.run(action[1:]) if action.startswith("$") else self.compute(action)
        return result.text

    def oracle(self) -> Iterator[str]:
        yield ""

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> Task:
        return Task(data={"number": int(rng.integers(1 << 30))})


@pytest.fixture
def world():
    env = Shell()
    env.reset(seed=0)
    yield env
    env.close()


def test_variables_and_files_come_back_in_another_instance(world):
    world.step("x = 20")
    world.step("$echo more >> given.txt")
    state = world.snapshot()
    world.step("x = 1")
    other = Shell().restore(state)
    assert other.step("x + 1")[0] == "21\n"
    assert other.step("$cat given.txt")[0] == "given\nmore\n"
    other.close()
    world.restore(state)
    assert world.step("x + 2")[0] == "22\n"


def test_a_broken_jail_is_replaced_and_the_episode_goes_on(world):
    world.step("x = 20")
    world._jail._process.kill()
    assert world.step("x + 1")[0] == "21\n"


def test_a_python_that_is_lost_leaves_its_files_and_replays_begin_there(world):
    world.step("open('made.txt', 'w').write('made'); x = 1")
    world.step("import os; os._exit(3)")
    assert world.step("print(open('made.txt').read())")[0] == "made\n"
    assert "NameError" in world.step("x")[0]
    assert [step[1] for step, _ in world.journal] == ["print(open('made.txt').read())", "x"]


def test_a_replay_that_gives_something_else_ends_the_episode_as_a_fault(world):
    world.step("import time; print(time.time_ns())")
    world.restore(world.snapshot())
    _, _, terminated, truncated, info = world.step("1")
    assert (terminated, truncated, info["reason"], info["success"]) == (False, True, "crash", None)
    assert world.reset(seed=1)[0] == "Compute."


def test_a_failure_to_start_is_not_kept_for_the_next_caller():
    with pytest.raises(Exception, match="no_such_package"):
        take(packages=("no_such_package",))
    with pytest.raises(Exception, match="no_such_package"):
        take(packages=("no_such_package",))
