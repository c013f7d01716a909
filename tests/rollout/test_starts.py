"""Episodes that begin at a branch point, also in a worker process: they go on as the first one did."""

import asyncio
import os
import time
from collections import deque
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym import ChatAgent, OracleAgent, Task
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.errors import BadConfig, EngineDead, Fault
from agentgym.registry import Maker
from agentgym.rollout.collect import jobs_of
from agentgym.rollout.play import Job, Start
from agentgym.rollout.pool import RolloutConfig, RolloutPool

MARKS = "AGENTGYM_TEST_MARKS"
TASK = Task("guess", {"secret": 42, "limit": 100}, "train/0/0", "train")


class Lucky(GuessNumber):
    """Tells chance with every answer; may lose its connection, once or for ever."""

    def act(self, action):
        if action == "33" and os.environ.get(MARKS):
            mark = Path(os.environ[MARKS]) / "lost"
            if not mark.exists():
                mark.touch()
                raise Fault("the connection was lost")
        if action == "99":
            time.sleep(30)
        answer = super().act(action)
        return f"{answer} {int(self.np_random.integers(1000))}" if isinstance(answer, str) else answer


class LuckyRemote(Lucky):
    blocking = True


def script(actions):
    """Return replies by what the prompt holds: a fault's repetition and a branch are asked the same again."""
    return lambda text, turn: actions[text.count("Higher. ") + text.count("Lower. ")]


async def branched(kind, actions, *, at=2, seconds=60.0):
    """Play an episode, then another from before its turn `at`, and return both."""
    moments = deque()
    job = Job(TASK, 0, 7, "g", "env", 6)
    with closing(RolloutPool({"env": kind}, RolloutConfig(4, 1, seconds))) as pool:
        agent = ChatAgent(ScriptedEngine(script(actions)))
        (first,) = await pool.collect(agent, [replace(job, moments=moments)])
        start = Start(moments[at].snapshot, moments[at].conversations)
        (branch,) = await pool.collect(agent, [replace(job, group_id="b", start=start)])
    assert len(moments) == len(first.turns)
    return first, branch


@pytest.mark.parametrize("kind", [Lucky, LuckyRemote])
def test_a_branch_goes_on_as_the_first_episode_did(kind):
    actions = ["50", "25", "37", "44", "40", "42"]
    first, branch = asyncio.run(branched(kind, actions))
    assert [t.action for t in first.turns] == actions and first.success
    assert branch.success and [t.action for t in branch.turns] == actions[2:]
    assert branch.horizon == 6 and branch.turns[0].observation == first.turns[2].observation
    assert list(branch.turns[0].prompt_ids) == list(first.turns[2].prompt_ids)  # the conversation goes on in its tokens
    assert [t.state_key for t in branch.turns] == [t.state_key for t in first.turns[2:]]


@pytest.mark.parametrize("kind", [Lucky, LuckyRemote])
def test_a_fault_by_chance_in_a_branch_is_repeated_from_its_snapshot(kind, tmp_path, monkeypatch):
    monkeypatch.setenv(MARKS, str(tmp_path))
    first, branch = asyncio.run(branched(kind, ["50", "25", "37", "33", "42"]))
    assert (tmp_path / "lost").exists() and first.success and branch.success
    (tmp_path / "lost").unlink()
    once, lost = asyncio.run(branched(kind, ["50", "25", "33", "42"]))
    assert once.success and lost.success and [t.action for t in lost.turns] == ["33", "42"]


@pytest.mark.long
@pytest.mark.parametrize("kind", [Lucky, LuckyRemote])
def test_a_hang_that_a_branch_brings_about_is_its_failure(kind):
    first, branch = asyncio.run(branched(kind, ["50", "25", "99"], seconds=0.5))
    for episode in (first, branch):
        assert (episode.reason, episode.success) == ("failure", False) and "caused a timeout twice" in episode.error


def test_a_pool_knows_how_long_its_environments_took():
    with closing(RolloutPool({"guess": Maker("rlvr/GuessNumber-v0", {})})) as pool:
        tasks = pool.probe("guess").tasks(2)
        before = pool.seconds
        asyncio.run(pool.collect(OracleAgent(), jobs_of("guess", tasks, 1, 0)))
        assert before == 0 < pool.seconds


def test_replays_raise_the_same_errors_as_episodes():
    def refuse(env):
        raise BadConfig("no expert here")

    class Dead(ChatAgent):
        def begin(self, task, tools):
            raise EngineDead("the server is gone")

    async def replayed():
        with closing(RolloutPool({"env": Lucky}, RolloutConfig(2))) as pool:
            agent = ChatAgent(ScriptedEngine(script(["50", "42"])))
            (episode,) = await pool.collect(agent, [Job(TASK, 0, 7, "g", "env", 6)])
            with pytest.raises(BadConfig, match="no expert here"):
                await pool.consult("env", [(TASK, episode)] * 2, refuse)
            with pytest.raises(EngineDead, match="the server is gone"):
                await pool.starts(Dead(agent.engine), "env", [(TASK, episode, [1])])

    asyncio.run(replayed())
