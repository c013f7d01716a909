"""The real skyrl-gym: made by its registry, stepped as its generator does."""

import pytest

pytest.importorskip("skyrl_gym", reason="skyrl-gym is not installed: ./dev test-integrations")
import skyrl_gym

import agentgym
from agentgym.integrations.skyrl_gym import dataset, register

ENV = "rlvr/GuessNumber-v0"


def test_an_episode_as_its_generator_plays_it() -> None:
    register()
    rows = dataset(ENV, "train", 3)
    secret = agentgym.make(ENV).tasks(3)[1].data["secret"]
    env = skyrl_gym.make(rows[1]["env_class"], env_config={}, extras={"task": rows[1]["task"]})
    messages, _ = env.init(rows[1]["prompt"])
    assert messages[-1]["role"] == "user" and "Guess it" in messages[-1]["content"]
    bad = env.step("I say nothing.")
    assert (bad["done"], bad["reward"], bad["metadata"]["valid"]) == (False, 0.0, False) and bad["observations"]
    won = env.step(f"<think>well</think><action>{secret}</action>")
    assert (won["done"], won["reward"], won["metadata"]["success"]) == (True, 1.0, True) and won["observations"] == []
    assert env.get_metrics() == {"success": 1.0, "turns": 2, "invalid": 1}
    env.close()
