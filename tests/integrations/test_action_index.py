"""Actions as numbers: a number selects the admissible command, and the mask says which numbers have one."""

import gymnasium
import numpy as np
import pytest

import agentgym
from agentgym.errors import BadConfig
from agentgym.integrations.action_index import FEATURES, ActionIndexEnv, hashed_words


def test_a_number_is_the_command_of_the_moment():
    env, alone = ActionIndexEnv(agentgym.make("rlvr/TicTacToe-v0"), actions=9), agentgym.make("rlvr/TicTacToe-v0")
    (encoded, info), (observation, _) = env.reset(seed=3), alone.reset(seed=3)
    while True:
        commands = info["admissible"]
        assert np.array_equal(encoded, hashed_words(observation, info)) and encoded in env.observation_space
        assert env.action_masks().tolist() == [place < len(commands) for place in range(9)]
        observation, reward, terminated, truncated, _ = alone.step(commands[-1])
        encoded, *outcome, info = env.step(np.int64(len(commands) - 1))
        assert outcome == [reward, terminated, truncated]
        if terminated or truncated:
            break
    assert info["success"] is alone.success and env.action_masks().any()


def test_a_number_without_a_command_costs_a_turn():
    env = ActionIndexEnv(agentgym.make("rlvr/TicTacToe-v0"), actions=12)
    _, info = env.reset(seed=3)
    _, reward, *_, after = env.step(11)
    assert (reward, after["valid"], after["state_key"]) == (0.0, False, info["state_key"])
    assert env.step(-1)[4]["valid"] is False  # not the last command


def test_the_encoding_tells_the_order_of_the_commands():
    one = hashed_words("x", {"admissible": ["left", "right"]})
    assert one.shape == (FEATURES,) and not np.array_equal(one, hashed_words("x", {"admissible": ["right", "left"]}))


def test_the_mask_in_the_observation_is_the_mask():
    env = ActionIndexEnv(agentgym.make("rlvr/FrozenLake-v0"), actions=6, mask_in_observation=True)
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    assert observation["action_mask"].tolist() == [1.0] * len(info["admissible"]) + [0.0] * (6 - len(info["admissible"]))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ActionIndexEnv(agentgym.make("rlvr/GuessNumber-v0")).reset(seed=0), "no finite list of commands"),
        (lambda: ActionIndexEnv(agentgym.make("rlvr/FrozenLake-v0"), actions=2).reset(seed=0), "set actions=4"),
        (lambda: ActionIndexEnv(gymnasium.make("CartPole-v1")), "not a text environment"),
    ],
)
def test_what_has_no_numbers_is_refused(make, words):
    with pytest.raises(BadConfig, match=words):
        make()
