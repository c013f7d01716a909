"""What an environment or an agent raises ends its own episode: none is lost, and the others go on."""

import asyncio
import sys

import pytest

from agentgym import collect
from agentgym.agents.policies import RandomAgent
from agentgym.envs.guess_number import GuessNumber
from agentgym.rollout.pool import RolloutConfig

TASKS = GuessNumber().tasks(3)


class Ending(GuessNumber):
    """Raises what would end more than its episode, in one task of three."""

    raises: type[BaseException] = SystemExit

    def act(self, action):
        if self.turn == 2 and self.task.id == TASKS[1].id:
            raise self.raises("from inside")
        return super().act(action)


class EndingCancelled(Ending):
    raises = asyncio.CancelledError


class EndingElsewhere(Ending):
    blocking = True


class EndingBefore(GuessNumber):
    def begin(self, task):
        if task.id == TASKS[1].id:
            sys.exit(3)
        return super().begin(task)


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("kind", [Ending, EndingCancelled, EndingBefore])
def test_what_would_end_more_than_its_episode_is_a_crash(kind, concurrency):
    episodes = collect(RandomAgent(), kind, tasks=TASKS, config=RolloutConfig(concurrency))
    assert [episode.task_id for episode in episodes] == [task.id for task in TASKS]
    assert [episode.fault for episode in episodes] == [False, True, False]
    assert episodes[1].reason == "crash" and "the environment raised" in str(episodes[1].error)


def test_a_worker_answers_for_it_too():
    episodes = collect(RandomAgent(), EndingElsewhere, tasks=TASKS, config=RolloutConfig(3, workers=1, step_seconds=20.0))
    assert [(e.reason == "crash", e.fault) for e in episodes] == [(False, False), (True, True), (False, False)]
    assert "SystemExit: from inside" in str(episodes[1].error)


class Cancelled(RandomAgent):
    """An agent that waits for something that was cancelled."""

    def begin(self, task, tools):
        if task.id == TASKS[1].id:
            raise asyncio.CancelledError
        return super().begin(task, tools)


def test_what_an_agent_waits_for_may_be_cancelled():
    episodes = collect(Cancelled(), GuessNumber, tasks=TASKS, config=RolloutConfig(1))
    assert [episode.reason == "crash" for episode in episodes] == [False, True, False]
    assert "CancelledError" in str(episodes[1].error)


class NotClosing(GuessNumber):
    def close(self):
        raise ConnectionError("it is gone")


class NotClosingAfterFault(NotClosing):
    def act(self, action):
        if self.task.id == TASKS[1].id:
            raise ConnectionError("it is gone")
        return super().act(action)


@pytest.mark.parametrize("kind", [NotClosing, NotClosingAfterFault])
def test_an_environment_that_cannot_be_closed_takes_no_episode_with_it(kind):
    with pytest.warns(UserWarning, match="closing an environment .* failed: ConnectionError"):
        episodes = collect(RandomAgent(), kind, tasks=TASKS)
    assert [episode.fault for episode in episodes] == [False, kind is NotClosingAfterFault, False]


def test_no_episode_is_left_out_in_silence():
    class Waits(RandomAgent):
        def begin(self, task, tools):
            asyncio.current_task().cancel()  # pyright: ignore[reportOptionalMemberAccess]
            raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="3 of 3 episodes were cancelled"):
        collect(Waits(), GuessNumber, tasks=TASKS, config=RolloutConfig(3))
