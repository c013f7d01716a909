"""Tasks that clients ask for: up to the difficulty that is served, and made while the other sessions go on."""

import asyncio
import time
from pathlib import Path

import pytest

from agentgym.core.env import TextEnv
from agentgym.core.tasks import Task
from agentgym.env_server import Limits, Sessions
from agentgym.envs.guess_number import GuessNumber
from agentgym.serving.asgi import Refusal


class Slow(TextEnv):
    """Tasks of difficulty 1 are made once a file is there, and say in another that they wait for it."""

    settings = ("folder",)
    folder = ""

    def generate(self, rng, difficulty):
        if difficulty:
            Path(self.folder, "waiting").touch()
            while not Path(self.folder, "go").exists():
                time.sleep(0.01)
        return Task(instruction="Say go.", data={"n": int(rng.integers(1000))})

    def begin(self, task):
        return task.instruction

    def act(self, action):
        return self.win("Right.") if action == "go" else "Wrong."

    def state(self):
        return ()


class Make:
    """Makes one, also in a worker."""

    def __init__(self, folder, blocking=False):
        self.folder, self.blocking = str(folder), blocking

    def __call__(self):
        env = Slow(folder=self.folder, difficulty=1)
        env.blocking = self.blocking
        return env


@pytest.mark.parametrize("blocking", [False, True])
def test_others_play_while_a_task_is_made(tmp_path, blocking):
    async def main():
        sessions = Sessions(Make(tmp_path, blocking), Limits())
        try:
            one, other, third = (sessions.begin() for _ in range(3))
            await sessions.reset(one, {"task": "train/0/1"})
            slow = asyncio.ensure_future(sessions.reset(other, {"task": "train/1/1"}))
            while not (tmp_path / "waiting").exists():
                await asyncio.sleep(0.01)
            assert (await sessions.step(one, "no"))["observation"]["text"] == "Wrong."
            assert (await sessions.reset(third, {"task": "train/0/2"}))["observation"]["text"] == "Say go."
            with pytest.raises(Refusal, match="busy"):
                await sessions.reset(other, {"task": "train/0/1"})
            assert (await sessions.step(one, "go"))["done"]
            assert not slow.done()
            (tmp_path / "go").touch()
            assert (await slow)["observation"]["info"]["task_id"] == "train/1/1"
        finally:
            sessions.close()

    asyncio.run(main())


def test_a_task_that_takes_too_long_is_refused_and_the_next_is_made(tmp_path):
    async def main():
        sessions = Sessions(Make(tmp_path), Limits(step_seconds=1.0))
        try:
            session = sessions.begin()
            with pytest.raises(Refusal, match=r"cannot be made \(timeout\)"):
                await sessions.reset(session, {"task": "train/1/1"})
            assert (await sessions.reset(session, {"task": "train/0/1"}))["observation"]["text"] == "Say go."
        finally:
            sessions.close()

    asyncio.run(main())


REFUSED = {
    "test/1000000/0": "difficulty above 2",
    "test/3/0": "difficulty above 2",
    "test/٣/0": "difficulty above 2",
    "test/" + "9" * 400 + "/0": "difficulty above 2",
    "test/" + "9" * 5000 + "/0": "500",
    "nowhere/0/0": "expected SPLIT/DIFFICULTY/NUMBER",
    "test/0/-1": "expected SPLIT/DIFFICULTY/NUMBER",
    -1: "numbers start at 0",
}


def test_tasks_that_are_not_served():
    async def main():
        sessions = Sessions(lambda: GuessNumber(difficulty=2), Limits())
        try:
            session = sessions.begin()
            for task, why in REFUSED.items():
                await sessions.reset(session, {"task": "test/0/0"})
                with pytest.raises(Refusal, match=why) as refusal:
                    await sessions.reset(session, {"task": task})
                assert refusal.value.status == 422 and len(refusal.value.detail) <= 500
                answer = await sessions.step(session, "1")
                assert answer["observation"]["info"]["task_id"] == "test/0/0"  # it goes on
        finally:
            sessions.close()

    asyncio.run(main())


@pytest.mark.parametrize("data", [{"seed": 5}, {"seed": 5, "task": 3}, {"seed": 5, "task": "valid/1/7"}])
def test_the_episode_is_the_one_that_the_environment_itself_starts(data):
    env = GuessNumber(difficulty=2)
    options = {"task": data["task"]} if "task" in data else {}
    text, info = env.reset(seed=5, options=options)

    async def main():
        sessions = Sessions(lambda: GuessNumber(difficulty=2), Limits())
        try:
            answer = await sessions.reset(sessions.begin(), data)
        finally:
            sessions.close()
        assert (answer["observation"]["text"], answer["observation"]["info"]["task_id"]) == (text, info["task_id"])

    asyncio.run(main())
