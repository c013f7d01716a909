"""Tasks that shortcut policies solve are left out of an export."""

import json

import pytest

import agentgym
from agentgym.cli import main
from agentgym.core.env import TextEnv
from agentgym.errors import BadConfig
from agentgym.integrations.harbor_tasks.guesses import guessed, unguessed

EXPORT = ["export", "shop", "--as", "harbor", "--out"]


class Coin(TextEnv):
    """Say the side of the coin: coins 1 and 4 are tails, all others heads."""

    def numbered(self, index, split=None):
        side = "tails" if index in (1, 4) else "heads"
        return agentgym.Task(id=f"test/0/{index}", instruction=f"Coin {index}", data={"side": side})

    def begin(self, task):
        self.side = task.data["side"]
        return "Heads or tails?"

    def act(self, action):
        return self.win("Right.") if action == self.side else self.lose("Wrong.")

    def state(self):
        return self.side

    def shortcuts(self):
        return {"silence": lambda observations: "", "tails": lambda observations: "tails"}


def test_tasks_of_a_lucky_policy_are_skipped():
    env = Coin()
    assert [guessed(env, env.numbered(number), 0) for number in range(3)] == [None, "tails", None]
    assert [task.id[-1] for task in unguessed(env, 4, 0)] == ["0", "2", "3", "5"]


class Certain(Coin):
    """A coin that always shows tails."""

    def numbered(self, index, split=None):
        return agentgym.Task(id=f"test/0/{index}", instruction=f"Coin {index}", data={"side": "tails"})


def test_an_environment_without_enough_tasks_is_refused():
    with pytest.raises(BadConfig, match="0 tasks of Certain are not solved"):
        list(unguessed(Certain(), 2, 0))
    with pytest.raises(BadConfig, match="no shortcut policies"):
        list(unguessed(agentgym.make("guessnumber"), 2, 0))


def test_the_command(tmp_path, capsys):
    assert main([*EXPORT, str(tmp_path / "all"), "--tasks", "7"]) == 0
    assert main([*EXPORT, str(tmp_path / "few"), "--tasks", "7", "--skip-guessed"]) == 0
    ids = {kind: {_id(path) for path in (tmp_path / kind).glob("*/tests/task.json")} for kind in ("all", "few")}
    shop = agentgym.make("shop")
    lucky = {id for id in ids["all"] if guessed(shop, shop.find(id), 0)}
    assert lucky and len(ids["few"]) == 7 and ids["all"] & ids["few"] == ids["all"] - lucky
    assert main(["export", "runs", "--out", "x.parquet", "--skip-guessed"]) == 2
    assert "--skip-guessed goes with --as harbor" in capsys.readouterr().err


def _id(path):
    return json.loads(path.read_text())["task"]
