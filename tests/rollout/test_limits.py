"""How long an environment in this process may take: limits one by one, and many under one alarm."""

import asyncio
import signal
import threading
import time
from typing import Any

import pytest

import agentgym
from agentgym.agents import consult
from agentgym.agents.policies import ExpertConversation
from agentgym.core.outcome import Outcome
from agentgym.envs.guess_number import GuessNumber
from agentgym.errors import Fault
from agentgym.rollout.collect import finished
from agentgym.rollout.hosted import LocalEnv
from agentgym.rollout.limits import one_alarm, time_limit
from agentgym.rollout.loop_runner import LoopRunner
from agentgym.rollout.pool import RolloutConfig


def sleeps(seconds: float, allowed: float) -> None:
    with time_limit(allowed, "step"):
        time.sleep(seconds)


def test_under_one_alarm_every_block_has_its_own_limit() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with one_alarm():
        for _ in range(6):  # longer together than one may take
            sleeps(0.05, 0.2)
        started = time.monotonic()
        with pytest.raises(Fault, match=r"step took longer than 0.2 s") as late:
            sleeps(5, 0.2)
        assert late.value.reason == "timeout" and 0.19 < time.monotonic() - started < 2
        sleeps(0.05, 0.2)
        with pytest.raises(Fault, match=r"longer than 0\.1 s"):  # the timer is wound up again, also to less than before
            sleeps(5, 0.1)
        time.sleep(0.3)  # between blocks nothing is late
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_limit_of_its_own_rings_and_is_taken_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Fault, match=r"longer than 0\.1 s"):
        sleeps(5, 0.1)
    with one_alarm(), one_alarm(), pytest.raises(Fault):  # the outer one serves
        sleeps(5, 0.1)
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_another_thread_has_no_limit() -> None:
    done: list[bool] = []

    def work() -> None:
        with one_alarm():
            sleeps(0.15, 0.05)
        done.append(True)

    with one_alarm():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(5)
    assert done


class Stalls(GuessNumber):
    """Its expert and its hint never end where the number is even; in this process."""

    def expert(self):
        self.stalled()
        yield from super().expert()

    def hint(self, level: float) -> str:
        self.stalled()
        return super().hint(level)

    def stalled(self) -> None:
        if self.task.data["secret"] % 2 == 0:
            time.sleep(120)


agentgym.register("me/Stalls-v0", Stalls, horizon=9)


def rings(*_: object) -> None:
    raise RuntimeError("a handler of the environment's")


HANDLERS = {"ignored": signal.SIG_IGN, "default": signal.SIG_DFL, "own": rings}


class Rude(Stalls):
    """Its turns leave another handler of SIGALRM."""

    left = "ignored"

    def act(self, action: str) -> str | Outcome:
        signal.signal(signal.SIGALRM, HANDLERS[self.left])
        return super().act(action)


agentgym.register("me/Rude-v0", Rude, horizon=9)


def tasks(*secrets: int) -> list[agentgym.Task]:
    return [agentgym.Task("guess", {"secret": n, "limit": 100}, id=f"train/0/{n}") for n in secrets]


def test_an_expert_that_hangs_in_this_process_ends_its_own_episode_alone() -> None:
    started = time.monotonic()
    config = RolloutConfig(step_seconds=0.3)
    episodes = agentgym.collect(agentgym.ExpertAgent(), "me/Stalls-v0", tasks=tasks(3, 4, 5), config=config)
    assert [episode.success for episode in episodes] == [True, None, True]
    assert episodes[1].reason == "timeout" and "answer to an agent took longer than 0.3 s" in str(episodes[1].error)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("left", HANDLERS)
def test_an_environment_that_replaces_the_handler_is_limited(left: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent takes longer than a step may, and the second task's expert hangs."""
    choose = ExpertConversation.choose

    async def slow(*arguments: Any) -> str:
        await asyncio.sleep(0.5)
        return await choose(*arguments)

    monkeypatch.setattr(ExpertConversation, "choose", slow)
    monkeypatch.setattr(Rude, "left", left)
    before = signal.getsignal(signal.SIGALRM)
    config = RolloutConfig(step_seconds=0.3, concurrency=1)
    episodes = agentgym.collect(agentgym.ExpertAgent(), "me/Rude-v0", tasks=tasks(25, 4), config=config)
    assert [episode.reason for episode in episodes] == ["success", "timeout"]
    assert signal.getsignal(signal.SIGALRM) is before and signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_what_an_agent_asks_in_its_own_way_reaches_the_environment() -> None:
    env = LocalEnv(GuessNumber())
    asyncio.run(env.reset(0, {"task": tasks(7)[0]}, 0.5))
    assert env.env.secret == 7 and asyncio.run(consult(env.env, lambda inner: inner.secret)) == 7
    with pytest.raises(Fault, match=r"longer than 0\.5 s"):
        asyncio.run(consult(env.env, lambda inner: time.sleep(120)))


def test_a_result_is_never_formatted() -> None:
    """Python formats the handlers of Ctrl-C, and so the task of an event loop with its result."""

    class Loud:
        formatted = 0

        def __repr__(self) -> str:
            Loud.formatted += 1
            return "Loud"

    async def work() -> list[Loud]:
        return [Loud()]

    assert len(finished(work())) == 1 and Loud.formatted == 0
    loop = LoopRunner()
    assert len(loop.run(work())) == 1 and Loud.formatted == 0
    loop.close(lambda: None)
