"""Credit that remembers: a moving average of each role, by hand and in runs that are resumed."""

import json
import signal

import numpy as np
import pytest
import torch
from credit_envs import episode, group
from forked import Program
from small_runs import curve, episodes
from whole_runs import CHILD

import agentgym
from agentgym.envs.guess_number import GuessNumber
from agentgym.episodes.episode import Group
from agentgym.trainers import TrainConfig, resume, train
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.credit.interface import resolve


def two_roles(x, o):
    """Return the groups of both roles of one task: returns by role."""
    return [
        Group("t", role, [episode(("a", 0), ("b", 0), reward=reward) for reward in rewards])
        for role, rewards in (("X", x), ("O", o))
    ]


def firsts(found):
    return [[float(array[0]) for array in arrays] for arrays in found]


def test_role_baseline_by_hand():
    credit = resolve("role_baseline", decay=0.5)
    # X: 0.5 * 0 + 0.5 * 0.75 = 0.375; O: 0.5 * -0.5 = -0.25
    found = credit(two_roles([1.0, 0.5], [-1.0, 0.0]), step=0)
    assert firsts(found) == [[0.625, 0.125], [-0.75, 0.25]]
    assert all(len(array) == 2 and len(set(array)) == 1 for arrays in found for array in arrays)
    # X: 0.5 * 0.375 + 0.5 * 1 = 0.6875; O was not seen, and stays
    assert firsts(credit(two_roles([1.0, 1.0], [])[:1], step=1)) == [[0.3125, 0.3125]]
    assert credit.stage.state_dict() == {"e X": 0.6875, "e O": -0.25}


def test_it_goes_on_from_a_checkpoint_to_the_last_digit(tmp_path):
    rng = np.random.default_rng(0)
    steps = [two_roles(rng.normal(size=3), rng.normal(size=3)) for _ in range(6)]
    whole = resolve("role_baseline")
    expected = [firsts(whole(groups)) for groups in steps]
    first, second = resolve("role_baseline"), resolve("role_baseline")
    found = [firsts(first(groups)) for groups in steps[:3]]
    torch.save(first.stage.state_dict(), tmp_path / "state.pt")
    second.stage.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert found + [firsts(second(groups)) for groups in steps[3:]] == expected


def test_processes_share_one_average_though_one_of_them_has_no_groups():
    class Two:
        """Processes one after another: the second one's groups are known from the start."""

        def __init__(self, others):
            self.others = others

        def gather(self, items):
            return [*items, *self.others]

    x, _ = two_roles([1.0, 0.0], [-1.0, 3.0])
    first, second = [resolve("role_baseline", decay=0.5) for _ in range(2)]
    object.__setattr__(first, "run", Two([("e O", -1.0), ("e O", 3.0)]))
    object.__setattr__(second, "run", Two([("e X", 1.0), ("e X", 0.0), ("e O", -1.0), ("e O", 3.0)]))
    assert firsts(first([x])) == [[0.75, -0.25]]
    assert second([]) == []
    assert first.stage.state == second.stage.state == {"e X": 0.25, "e O": 0.5}


def test_a_state_of_ones_own_is_handed_in_with_the_step_and_begins_empty():
    @agentgym.credit("counts")
    def counts(group, *, step, state, scale: float = 1.0):
        state["calls"] = state.get("calls", 0) + 1
        return [np.full(len(e.turns), scale * step + state["calls"]) for e in group]

    credit = resolve("counts", scale=10)  # which tries the function on a group that is made up
    assert credit.stage.state == {}
    assert firsts(credit([group(episode(("a", 0))), group(episode(("a", 0)))], step=3)) == [[31.0], [32.0]]


class Duel(GuessNumber):
    """Two players guess in turn, and chance pays one of them more than the other."""

    roles = ("X", "O")

    @property
    def role(self):
        return self.roles[self.turn % 2]

    def role_rewards(self):
        luck = float(self.np_random.random())
        second = 1.0 - luck if self.success else -luck
        return {"X": agentgym.RoleReward(luck, luck >= 1), "O": agentgym.RoleReward(second, second >= 1)}


agentgym.register("me/Duel-v0", Duel, horizon=4)


def self_play(out, steps=3):
    return TrainConfig(
        env=f"{__name__}:me/Duel-v0", out=str(out), steps=steps, tasks_per_step=2, group_size=2,
        sft_episodes=8, eval_every=0, test_tasks=0, select="keep", threads=1, credit="role_baseline", checkpoint_every=1,
        turn_tokens=6, credit_options={"decay": 0.5},
    )  # fmt: skip


@pytest.mark.long
def test_self_play_that_is_killed_and_resumed_has_the_same_baselines(tmp_path):
    train(self_play(tmp_path / "whole"))
    config = tmp_path / "config.toml"
    config.write_text(to_toml(self_play(tmp_path / "run")))
    assert Program(CHILD, config, "step", 2).wait() == -signal.SIGKILL
    resume(tmp_path / "run")
    assert curve(tmp_path / "run") == curve(tmp_path / "whole")
    assert episodes(tmp_path / "run") == episodes(tmp_path / "whole")
    states = []
    for name in ("run", "whole"):
        newest = sorted((tmp_path / name / "checkpoints").glob("step-*"))[-1]
        states.append(torch.load(newest / "trainer.pt", weights_only=True)["stages"][0]["credit"])
    assert states[0] == states[1] and {key.split()[-1] for key in states[0]} == {"X", "O"}
    roles = {turn["role"] for line in episodes(tmp_path / "run") for turn in line["turns"]}
    assert roles == {"X", "O"} and json.dumps(states[0])


@pytest.mark.parametrize("options", [{"decay": 1.5}, {"decay": -0.1}])
def test_decay_is_a_share(options):
    with pytest.raises(agentgym.BadConfig, match="decay of credit 'role_baseline'"):
        resolve("role_baseline", **options)
