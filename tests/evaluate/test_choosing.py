"""Choosing among attempts: the vote by hand, what environments take as the same answer, and the files of an evaluation."""

import json

import pytest

import agentgym
from agentgym import Episode, Turn
from agentgym.cli import main
from agentgym.core.actions import spell
from agentgym.evaluate.choosing import majority, sentence, votes
from agentgym.evaluate.pass_curves import pass_curves, sentences


def test_the_most_frequent_ballot_is_chosen_and_the_first_of_equals() -> None:
    assert majority(["a", "b", "b", "a", "b"]) == 1
    assert majority(["a", "b", "b", "a"]) == 0
    assert majority([None, "b", None]) == 1 and majority([None, None]) == 0


def played(env, task, *answers):
    """Return an attempt for each answer, judged by the environment."""
    episodes = []
    for attempt, answer in enumerate(answers):
        env.reset(seed=0, options={"task": task})
        info = env.step(spell("answer", answer))[4]
        episode = Episode(env.spec.id, task.id, "g", 0, attempt, turns=[Turn("", action=spell("answer", answer))])
        episode.success = bool(info["success"])
        episodes.append(episode)
    return episodes


def test_a_vote_over_math_by_hand() -> None:
    env = agentgym.make("rlvr/Math-v0", families="story")
    one, two = env.tasks(2)
    right, wrong = one.data["answer"], two.data["answer"]
    first = played(env, one, "-7", right, f"{right}.0", "-8")  # two say the same in other words
    second = played(env, two, "-1", "-1", wrong, "-2")
    found = votes("rlvr/Math-v0", [({"families": "story"}, [one, two])], first + second)
    assert found == {
        "tasks": 2, "attempts": 4, "one": (2 / 4 + 1 / 4) / 2, "majority": 0.5, "best": 1.0, "agreement": 0.5,
    }  # fmt: skip
    assert "a majority of 4 attempts is right in 50.0 %, one attempt in 37.5 %, at least one in 100.0 % of 2" in sentence(
        "x", found
    )


def test_queries_that_return_the_same_rows_agree() -> None:
    env = agentgym.make("rlvr/SQL-v0", preset="tiny").unwrapped
    env.reset(seed=1)
    gold = env.task.data["gold"]
    assert env.ballot(gold) == env.ballot(f"WITH q AS ({gold}) SELECT * FROM q") is not None
    assert env.ballot("SELECT 'no such answer'") != env.ballot(gold)
    assert env.ballot("SELECT nothing FROM nowhere") is None


def test_answers_in_words_agree_as_they_are_compared() -> None:
    env = agentgym.make("rlvr/Search-v0").unwrapped
    env.reset(seed=0)
    assert env.ballot("The  Blue Tower.") == env.ballot("blue tower") and env.ballot(" . ") is None


def test_environments_without_answers_have_no_vote() -> None:
    env = agentgym.make("rlvr/FrozenLake-v0")
    task = env.tasks(1)[0]
    episodes = [
        Episode("rlvr/FrozenLake-v0", task.id, "g", 0, n, turns=[Turn("", action="up")], success=False) for n in (0, 1)
    ]
    assert votes("rlvr/FrozenLake-v0", [({}, [task])], episodes) is None


def test_an_evaluation_with_several_attempts_has_its_votes(tmp_path, capsys) -> None:
    folder = tmp_path / "eval"
    words = ["eval", "rlvr/Search-v0", "--policy", "expert", "--tasks", "3", "--attempts", "2", "--out", str(folder)]
    assert main(words) == 0
    row = json.loads((folder / "summary.json").read_text())["votes"]["rlvr/Search-v0"]
    assert row["tasks"] == 3 and row["attempts"] == 2 and row["majority"] >= row["one"] - 1e-9
    assert "a majority of 2 attempts" in " ".join(capsys.readouterr().out.split())
    assert "## Votes" in (folder / "summary.md").read_text()


def test_curves_of_pass_at_k_cross() -> None:
    # A solves each of two tasks once in four; B solves one always and the other never
    a, b = {"x": [1, 0, 0, 0], "y": [0, 0, 1, 0]}, {"x": [1, 1, 1, 1], "y": [0, 0, 0, 0]}
    curves = pass_curves(a, b, ["x", "y"])
    assert curves["a"] == pytest.approx({"1": 0.25, "2": 0.5, "4": 1.0})
    assert curves["b"] == pytest.approx({"1": 0.5, "2": 0.5, "4": 0.5}) and curves["crossing"] == 4
    assert sentences(curves)[1] == "from k = 4 on A solves more tasks, though it is worse in one attempt"
    assert pass_curves({"x": [1]}, {"x": [1, 0]}, ["x"]) == {} == pass_curves({}, {}, []) and sentences({}) == []
    assert pass_curves(b, b, ["x", "y"])["crossing"] is None
