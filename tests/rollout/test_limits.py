"""How long an environment in this process may take: limits one by one, and many under one alarm."""

import signal
import threading
import time

import pytest

from agentgym.errors import Fault
from agentgym.rollout.limits import one_alarm, time_limit


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
