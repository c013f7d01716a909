"""What one role's view of an episode of two holds, and what it leaves out."""

import pytest

import agentgym
from agentgym.agents.policies import RandomAgent
from agentgym.episodes.episode import Episode, groups, view


@pytest.mark.parametrize("id", ["rlvr/TicTacToe-v0", "rlvr/Negotiation-v0"])
def test_each_role_has_its_own_success_reward_and_turns(id):
    played = agentgym.collect(RandomAgent(), id, tasks=8, attempts=2, env_options={"opponent": "self"})
    roles = agentgym.make(id).roles
    differ = 0
    for episode in played:
        assert set(episode.role_success) == set(roles)
        assert episode.role_success == {role: reward == 1 for role, reward in episode.final_rewards.items()}
        for role in roles:
            seen = view(episode, role)
            assert all(turn.role == role for turn in seen.turns)
            assert seen.reward == episode.final_rewards[role] and seen.success is (seen.reward == 1)
            assert seen.final_rewards == {role: seen.reward} and seen.role_success == {role: seen.success}
            assert episode.reason not in ("success", "failure") or seen.reason == ("success" if seen.success else "failure")
            differ += seen.success is not episode.success
        assert Episode.from_json(episode.to_json()).role_success == episode.role_success
    assert differ and {group.role for group in groups(played)} == set(roles)


def test_an_episode_of_one_role_is_its_own_view():
    [episode] = agentgym.collect(RandomAgent(), "guessnumber", tasks=1)
    assert episode.role_success == {} and view(episode, "agent") is episode
