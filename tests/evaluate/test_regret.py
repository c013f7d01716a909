"""Regret by the oracle: by hand on a lake, for the oracle itself in many environments, and in an evaluation's files."""

import json

import pytest

import agentgym
from agentgym import Task
from agentgym.cli import main
from agentgym.envs.frozen_lake import FrozenLake
from agentgym.envs.guess_number import GuessNumber
from agentgym.evaluate.regret import Regret, cannot, regret, regrets, sentence
from agentgym.rollout.collect import play_out

LAKE = Task("cross", {"lake": ("FFF", "HFH", "FFG")}, "hand", "test")


class Says:
    """A policy that says what it was told to, in order."""

    engine = None

    def __init__(self, *actions):
        self.actions = list(actions)

    def begin(self, task, tools):
        return self

    def fork(self):
        return self

    async def take(self, observation, info, *, env, seed, session):
        return agentgym.Turn(observation, action=self.actions.pop(0))


def crossed(*actions, horizon=8, **options):
    env = FrozenLake(slip=0.0, **options)
    env.reset(seed=3, options={"task": LAKE, "horizon": horizon})
    episode = play_out(env, Says(*actions))
    episode.seed, episode.horizon = 3, horizon
    return env, episode


def test_by_hand():
    # right, down, down, right is the only way. up: the edge; left: back again; the last left: into a hole
    env, episode = crossed("up", "right", "left", "right", "down", "left")
    assert regret(env, LAKE, episode) == Regret((4, 4, 3, 4, 3, 2, None), lost=6, wasted=2)


def test_what_is_too_late_is_lost_too():
    env, episode = crossed("up", "right", "left", "right", "down", "down", horizon=6)
    # after three turns four are needed and three are left; what comes then is not counted as wasted
    assert regret(env, LAKE, episode) == Regret((4, 4, 3, 4, 3, 2, 1), lost=3, wasted=2)


def test_a_win_and_an_invalid_action():
    env, episode = crossed("right", "jump", "down", "down", "right")
    assert regret(env, LAKE, episode) == Regret((4, 3, 3, 2, 1, 0), lost=None, wasted=1)


def test_an_episode_that_goes_another_way_is_not_told():
    env, episode = crossed("right", "down", "down", "right")
    episode.turns[2].observation += "!"
    assert regret(env, LAKE, episode) is None


@pytest.mark.parametrize("id", ["FrozenLake", "GuessNumber", "TextCraft", "Household", "Search", "Shop", "Wordle"])
def test_the_oracle_regrets_nothing(id):
    env = agentgym.make(f"rlvr/{id}-v0").unwrapped
    for task in env.tasks(2):
        env.reset(seed=1, options={"task": task})
        actions, over = [], False
        while not over:
            actions.append(next(env.oracle()))
            over = env.step(actions[-1])[2]
        env.reset(seed=1, options={"task": task})
        episode = play_out(env, Says(*actions))
        episode.seed, episode.horizon = 1, env.limit
        report = regret(env, task, episode)
        assert report == Regret(tuple(range(len(actions), -1, -1)), None, 0)


def test_the_summary_by_hand():
    report, rows = regrets("rlvr/FrozenLake-v0", [({"slip": 0.0}, [LAKE])], [])
    assert rows == [] and report["episodes"] == 0 and report["wasted"] is None and "0 episodes" in sentence("x", report)
    episodes = [
        crossed("right", "jump", "down", "down", "right")[1],  # won, one more than four turns, one of five wasted
        crossed("up", "right", "left", "right", "down", "left")[1],  # lost after six, two of six wasted
    ]
    for episode in episodes:
        episode.task_id = LAKE.id
    report, rows = regrets("rlvr/FrozenLake-v0", [({"slip": 0.0}, [LAKE])], episodes)
    assert report == {
        "why": "", "episodes": 2, "not_repeated": 0, "distance": 4.0, "excess": 1.0, "wasted": 3 / 11, "lost": 0.5,
        "lost_after": 6.0,
    }  # fmt: skip
    assert rows[1]["distances"] == (4, 4, 3, 4, 3, 2, None)


class Silent(GuessNumber):
    oracle = agentgym.TextEnv.oracle


@pytest.mark.parametrize(
    ("env", "message"), [("rlvr/TicTacToe-v0", "played by X, O"), ("rlvr/Code-v0", "leans on processes")]
)
def test_environments_that_cannot(env, message):
    assert message in cannot(agentgym.make(env))
    assert "no oracle" in cannot(Silent())


def test_an_evaluation_with_regret(tmp_path, capsys):
    words = ["eval", "FrozenLake", "--policy", "random", "--tasks", "5", "--seed", "1", "--out", str(tmp_path / "a")]
    main([*words, "--regret"])
    assert "the oracle needs" in capsys.readouterr().out
    summary = json.loads((tmp_path / "a/summary.json").read_text())["regret"]["rlvr/FrozenLake-v0"]
    rows = [json.loads(line) for line in (tmp_path / "a/regret.jsonl").read_text().splitlines()]
    assert summary["episodes"] == len(rows) == 5 and summary["not_repeated"] == 0
    assert "## Regret" in (tmp_path / "a/summary.md").read_text()
    main(words)  # the same evaluation without it
    assert "regret" not in json.loads((tmp_path / "a/summary.json").read_text())
