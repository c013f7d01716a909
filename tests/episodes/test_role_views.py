"""What one role's view of an episode of two holds, and what it leaves out."""

import pytest

import agentgym
from agentgym.agents.policies import RandomAgent
from agentgym.episodes.episode import Episode, groups, view
from agentgym.trainers.data.turn_rewards import turn_rewards


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
            assert turn_rewards(seen).sum() == seen.reward == seen.role_outcomes[role]
            assert episode.reason not in ("success", "failure") or seen.reason == ("success" if seen.success else "failure")
            differ += seen.success is not episode.success
        assert Episode.from_json(episode.to_json()).role_success == episode.role_success
    assert differ and {group.role for group in groups(played)} == set(roles)


def test_an_episode_of_one_role_is_its_own_view():
    [episode] = agentgym.collect(RandomAgent(), "guessnumber", tasks=1)
    assert episode.role_success == {} and view(episode, "agent") is episode


def test_shaping_is_in_what_training_compares():
    """Groups are made of views, so what a view leaves out is not trained on."""
    options = {"shaping": {"points": 0.5}}
    episodes = agentgym.collect(RandomAgent(), "negotiation", tasks=4, attempts=4, env_options=options)
    assert any(episode.reward > 0 and not episode.success for episode in episodes)
    for episode in episodes:
        assert view(episode, "A").reward == pytest.approx(episode.reward) == pytest.approx(episode.final_rewards["A"])
        assert episode.role_success == {"A": episode.success, "B": False}


class Tug(agentgym.TextEnv):
    """Two roles move in turn; what each was paid for its moves is not the other's, and half a success is none."""

    roles = ("A", "B")
    declared = agentgym.Declarations()

    def begin(self, task):
        self.moves = 0
        return "pull"

    @property
    def role(self):
        return self.roles[self.__dict__.get("moves", 0) % 2]

    def act(self, action):
        self.moves += 1
        return self.lose("over") if self.moves == 4 else "pull"

    def measures(self):
        return {"rope": (0.0, 1.0, 0.2, 0.9, 0.4)[self.__dict__.get("moves", 0)]}

    def role_rewards(self):
        return {"A": agentgym.RoleReward(0.5, False), "B": agentgym.RoleReward(1.0, True)}

    def generate(self, rng, difficulty):
        return agentgym.Task("pull", {"number": int(rng.integers(10**6))})


def test_a_role_keeps_its_own_shaping_and_succeeds_by_its_outcome_alone():
    [episode] = agentgym.collect(RandomAgent(), lambda: Tug(shaping={"rope": 0.9}), tasks=1)
    assert [turn.reward for turn in episode.turns] == pytest.approx([0.9, -0.72, 0.63, -0.45])
    assert episode.final_rewards == pytest.approx({"A": 0.5 + 0.9 + 0.63, "B": 1.0 - 0.72 - 0.45})
    assert episode.role_success == {"A": False, "B": True}
    assert [view(episode, role).reward for role in "AB"] == pytest.approx([2.03, -0.17])
    assert turn_rewards(view(episode, "A")) == pytest.approx([0.9, 0.63 + 0.5])
    assert turn_rewards(view(episode, "B")) == pytest.approx([-0.72, -0.45 + 1.0])
    stored = Episode.from_json(episode.to_json())
    assert stored.role_outcomes == {"A": 0.5, "B": 1.0}
    assert turn_rewards(view(stored, "B")).tolist() == turn_rewards(view(episode, "B")).tolist()
