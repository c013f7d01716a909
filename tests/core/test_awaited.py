"""Async tools, `act` and `begin`: awaited inside and outside a running loop, with a time limit that nothing escapes."""

import asyncio
import concurrent.futures
import time

import pytest

import agentgym
from agentgym.core.awaited import awaited


class Remote(agentgym.TextEnv):
    """Answers from coroutines, as an HTTP client gives them."""

    tool_seconds = 0.3

    async def begin(self, task):
        await asyncio.sleep(0)
        self.questions = 0
        return "Ask."

    @agentgym.tool
    async def ask(self, seconds: float) -> str | agentgym.Outcome:
        """Ask."""
        await asyncio.sleep(seconds)
        self.questions += 1
        return self.win("Yes.") if self.questions == 2 else "Once more."

    @agentgym.tool
    async def block(self) -> str:
        """Block the loop."""
        time.sleep(3)
        return "awake"

    @agentgym.tool
    async def late(self) -> str:
        """Raise a time-out of its own."""
        raise TimeoutError("the server's")

    @agentgym.tool
    async def number(self) -> int:
        """Return a wrong type."""
        return 7

    @staticmethod
    def generate(rng, difficulty):
        return agentgym.Task("ask", {"salt": int(rng.integers(10**6))})


@pytest.fixture
def env():
    env = Remote()
    assert env.reset(seed=0)[0] == "Ask."
    return env


def test_tools_are_awaited(env):
    assert env.step("ask[0.0]")[0] == "Once more."
    text, reward, terminated, _, info = env.step("ask[0.0]")
    assert (text, reward, terminated, info["success"]) == ("Yes.", 1.0, True, True)


def test_also_where_a_loop_is_running(env):
    async def inside():
        return env.step("ask[0.0]")[0]

    assert asyncio.run(inside()) == "Once more."


@pytest.mark.parametrize("action", ["ask[30]", "block[]"])
def test_one_that_does_not_end_is_an_infrastructure_error(env, action):
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated, info["success"], info["reason"]) == (0.0, False, True, None, "timeout")
    assert "0.3 s" in info["error"]
    env.reset(seed=1)
    assert env.step("ask[0.0]")[0] == "Once more."  # whoever comes next is not held up


def test_what_it_raises_is_raised(env):
    with pytest.raises(TimeoutError, match="the server's"):
        env.step("late[]")
    with pytest.raises(TypeError, match="tool number of Remote returned 7"):
        env.step("number[]")


def test_episodes_side_by_side():
    episodes = agentgym.collect(agentgym.RandomAgent(), Maker(), tasks=4, attempts=1)
    assert len(episodes) == 4


class Maker:
    """Makes Remote without registering it."""

    def __call__(self) -> agentgym.TextEnv:
        return Remote(horizon=2)


def test_what_is_no_awaitable_passes():
    value = object()
    assert awaited(value, 1.0, "x") is value


class Turns(agentgym.TextEnv):
    """Two roles in turn."""

    roles = ("first", "second")

    def begin(self, task):
        self.moves = 0
        return "Move."

    def act(self, action):
        self.moves += 1
        self.role = action if action in ("third",) else self.roles[self.moves % 2]
        return self.win("Over.") if self.moves == 4 else "Move."

    def state(self):
        return self.moves

    @staticmethod
    def generate(rng, difficulty):
        return agentgym.Task("move", {"salt": int(rng.integers(10**6))})


def test_the_role_can_be_set_and_is_in_snapshots():
    env = Turns()
    env.reset(seed=0)
    assert env.role == "first"
    env.step("x")
    state, key = env.snapshot(), env.info()["state_key"]
    assert env.role == "second"
    env.step("x")
    assert env.role == "first"
    env.restore(state)
    assert env.role == "second" and env.info()["state_key"] == key
    env.reset(seed=1)
    assert env.role == "first"
    with pytest.raises(ValueError, match="'third'; expected one of first, second"):
        env.step("third")


@pytest.mark.parametrize("raised", [GeneratorExit, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("inside", ["itself", "its task"])
def test_what_one_function_raises_ends_no_other(raised, inside):
    async def other():
        await began.wait()
        await asyncio.sleep(0.05)
        return "fine"

    async def ends():
        began.set()
        raise raised

    async def ends_inside():
        await asyncio.create_task(ends())

    began = asyncio.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        result = pool.submit(awaited, other(), 20, "other")
        with pytest.raises((raised, concurrent.futures.CancelledError)):
            awaited(ends() if inside == "itself" else ends_inside(), 20, "this one")
        assert result.result() == "fine"
