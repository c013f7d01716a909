"""What an environment or an agent raises ends its own episode: none is lost, and the others go on."""

import asyncio
import signal
import subprocess
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


class Own(BaseException):
    """What is no Exception."""

    def __repr__(self):
        raise Own


RAISED = [
    GeneratorExit(),
    KeyboardInterrupt(),
    StopIteration(1),
    StopAsyncIteration(),
    RecursionError(),
    MemoryError(),
    Own(),
    BaseExceptionGroup("several", [GeneratorExit(), KeyboardInterrupt()]),
]
names = dict(ids=lambda value: value if isinstance(value, str) else type(value).__name__)


class Anywhere(GuessNumber):
    """Raises something in one of its methods, in one task of three."""

    settings = (*GuessNumber.settings, "place", "error")
    place = ""
    error: BaseException = RuntimeError()

    def hit(self, place):
        if place == self.place and self.task.id == TASKS[1].id:
            raise self.error

    def begin(self, task):
        self.hit("begin")
        return super().begin(task)

    def act(self, action):
        self.hit("act")
        return super().act(action)

    def state(self):
        self.hit("state")
        return super().state()

    def admissible(self):
        self.hit("admissible")
        return super().admissible()

    @property
    def role(self):
        if self.turn:
            self.hit("role")
        return super().role

    def close(self):
        self.hit("close")


class Make:
    """Makes one, also in a worker."""

    def __init__(self, place, error, blocking=False):
        self.place, self.error, self.blocking = place, error, blocking

    def __call__(self):
        env = Anywhere(place=self.place, error=self.error)
        env.blocking = self.blocking
        return env


def faults(agent, make, **options):
    return [episode.fault for episode in collect(agent, make, tasks=TASKS, config=RolloutConfig(1, **options))]


@pytest.mark.parametrize("place", ["begin", "act", "state", "admissible", "role"])
@pytest.mark.parametrize("error", RAISED, **names)
def test_whatever_it_raises_and_where_is_the_fault_of_that_episode(error, place):
    assert faults(RandomAgent(), Make(place, error)) == [False, True, False]


@pytest.mark.parametrize("error", [GeneratorExit(), KeyboardInterrupt(), Own()], **names)
def test_closing_may_raise_it_too(error):
    class Both(Anywhere):
        def close(self):
            raise error

    with pytest.warns(UserWarning, match="closing an environment"):
        assert faults(RandomAgent(), lambda: Both(place="act", error=error)) == [False, True, False]


@pytest.mark.parametrize("error", RAISED, **names)
def test_an_agent_may_raise_it(error):
    class Raising(RandomAgent):
        async def take(self, observation, info, *, env, seed, session):
            if env.task.id == TASKS[1].id:
                raise error
            return await super().take(observation, info, env=env, seed=seed, session=session)

    assert faults(Raising(), GuessNumber) == [False, True, False]


class Unreadable:
    """Cannot be read where it arrives."""

    def __reduce__(self):
        return _raise, ()


def _raise():
    raise GeneratorExit


class Unsendable:
    """Cannot be sent."""

    def __reduce__(self):
        raise GeneratorExit


class Answering(RandomAgent):
    """Has a worker return something odd, in one task of three."""

    def __init__(self, kind):
        self.kind = kind

    def choose(self, env, info, rng):
        return self.kind() if env.task.id == TASKS[1].id else super().choose(env, info, rng)


@pytest.mark.long
@pytest.mark.parametrize("kind", [Unreadable, Unsendable])
def test_answers_of_a_worker_that_raise_when_they_are_sent_or_read(kind):
    assert faults(Answering(kind), Make("", None, True), workers=1, step_seconds=20.0) == [False, True, False]


@pytest.mark.long
def test_a_worker_outlives_them_all():
    for error in (GeneratorExit(), KeyboardInterrupt(), StopIteration()):
        assert faults(RandomAgent(), Make("act", error, True), workers=1, step_seconds=20.0) == [False, True, False]


@pytest.mark.parametrize("where", ["act", "take"])
def test_ctrl_c_of_the_user_ends_the_rollout(where, tmp_path):
    """The first one cancels; here the environment, or the agent, lets the loop have no turn until the second."""
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, signal, time
from agentgym import collect
from agentgym.agents.policies import RandomAgent
from agentgym.envs.guess_number import GuessNumber

def struck():
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

class Struck(GuessNumber):
    def act(self, action):
        if "{where}" == "act":
            struck()
        return super().act(action)

class Agent(RandomAgent):
    async def take(self, *arguments, **options):
        if "{where}" == "take":
            struck()
        return await super().take(*arguments, **options)

collect(Agent(), Struck, tasks=3)
print("not reached")
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert "not reached" not in done.stdout and done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert done.returncode in (1, 130, -signal.SIGINT)


def test_a_session_of_others_and_a_point_inside_an_episode(tmp_path):
    from agentgym.rollout.session import Session

    for error in RAISED:
        session = Session(Anywhere(place="act", error=error))
        session.reset(TASKS[1])
        assert "failed" in session.act("3") and session.reason == "crash" and session.success is None
