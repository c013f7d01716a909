"""What all games of two players share: self-play, who is paid, replies with other spaces, unknown opponents."""

import numpy as np
import pytest

import agentgym
from agentgym import BadConfig

IDS = ("rlvr/TicTacToe-v0", "rlvr/ConnectFour-v0")


@pytest.mark.parametrize("id", IDS)
def test_self_play_goes_on_to_the_end_and_pays_by_role(id):
    env = agentgym.make(id, opponent="self")
    outcomes = set()
    for seed in range(15):
        env.reset(seed=seed)
        rng, side, over = np.random.default_rng(seed), env.side, False
        while not over:
            mover = env.role
            observation, reward, terminated, truncated, info = env.step(str(rng.choice(env.admissible())))
            over = terminated or truncated
            assert observation.startswith(f"You are {env.role}.") or over
        outcomes_by_role = env.role_rewards()
        assert env.outcomes == outcomes_by_role
        assert all(success is (reward == 1.0) for reward, success in outcomes_by_role.values())
        rewards = {role: outcome.reward for role, outcome in outcomes_by_role.items()}
        assert sum(rewards.values()) <= 1 and env.totals == rewards
        assert info["success"] is (rewards[side] == 1.0) and reward == float(info["success"])
        if sum(rewards.values()):
            assert rewards[mover] == 1.0
        outcomes.add(tuple(rewards.values()))
    assert len(outcomes) >= 2


@pytest.mark.parametrize("id", IDS)
def test_spaces_do_not_matter(id):
    env = agentgym.make(id)
    env.reset(seed=0)
    assert env.step("  " + next(env.oracle()).replace(" ", "   ") + "\n")[4]["valid"]


@pytest.mark.parametrize("id", IDS)
def test_an_unknown_opponent_is_refused(id):
    with pytest.raises(BadConfig, match="expected 'minimax' or 'self'"):
        agentgym.make(id, opponent="nobody")
