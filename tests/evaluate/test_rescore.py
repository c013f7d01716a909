"""Rescoring: other verdicts on the same episodes, the old ones untouched."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentgym
from agentgym import BadConfig, BadData, Episode, read_episodes
from agentgym.cli import main
from agentgym.evaluate.rescore import rescore, rescore_folder
from agentgym.evaluate.run import EvaluationPlan, evaluate
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.config.settings import EnvSpec
from agentgym.trainers.config.train_config import TrainConfig

ENV = "rlvr/GuessNumber-v0"
VERIFIERS = '''
def quick(episode, task):
    """Solved, and within three guesses."""
    return bool(episode.success) and len(episode.turns) <= 3

def near(episode, task):
    """How near the last guess was; changes what it was given, which must not matter."""
    last = int(episode.turns[-1].action)
    episode.turns.clear()
    return 1 - abs(last - task.data["secret"]) / 100

def fails(episode, task):
    return 1 / 0


def nothing(episode, task):
    return None

SCORE = 3
'''


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_verifiers.py").write_text(VERIFIERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = EvaluationPlan((ENV,), tasks=8, env_options={ENV: {"horizon": 5}})
    evaluate(agentgym.ExpertAgent(), plan, tmp_path / "a", options={"policy": "expert"})
    return tmp_path / "a"


def test_a_new_verdict_beside_the_old_one(played: Path):
    before = {path.name: path.read_bytes() for path in played.iterdir()}
    target, scored = rescore_folder(played, "my_verifiers:quick")
    assert target == played.with_name("a-rescored-quick")
    assert {path.name: path.read_bytes() for path in played.iterdir()} == before
    old = read_episodes(played / "episodes.jsonl")
    expected = [bool(e.success) and len(e.turns) <= 3 for e in old]
    assert [e.success for e in scored] == expected
    assert 0 < sum(expected) < sum(e.success is True for e in old)  # else nothing was tested
    assert read_episodes(target / "episodes.jsonl") == scored
    assert json.loads((target / "summary.json").read_text())["success"]["mean"] == sum(expected) / 8
    options = json.loads((target / "manifest.json").read_text())["options"]
    assert options["rescored"] == {"folder": str(played), "verifier": "my_verifiers:quick"}
    assert options["policy"] == "expert"
    for was, now in zip(old, scored, strict=True):
        assert sum(turn.reward for turn in now.turns) == now.reward == sum(now.final_rewards.values()) == float(now.success)
        assert now.reason == ("failure" if was.success and not now.success else was.reason)
        assert [turn.action for turn in now.turns] == [turn.action for turn in was.turns]


def test_a_verifier_knows_the_task_and_may_grade(played: Path):
    _, scored = rescore_folder(played, "my_verifiers:near", played / "new")
    secrets = {t.id: t.data["secret"] for t in agentgym.make(ENV).tasks(8, "test")}
    for episode in scored:
        assert episode.reward == pytest.approx(1 - abs(int(episode.turns[-1].action) - secrets[episode.task_id]) / 100)
        assert episode.success == (episode.reward == 1)
    assert any(0 < e.reward < 1 for e in scored)


@pytest.mark.parametrize(
    ("verifier", "message"),
    [
        ("my_verifiers:quik", "Did you mean 'quick'"),
        ("my_verifirs:quick", "no module 'my_verifirs' to take the verifier from"),
        ("quick", "Expected MODULE:NAME"),
        ("my_verifiers:SCORE", "SCORE is 3; expected a function"),
        ("my_verifiers:fails", "raised ZeroDivisionError for rlvr/GuessNumber-v0 test/.*, attempt 0: division by zero"),
        ("my_verifiers:nothing", "returned None for rlvr/GuessNumber-v0 test/.*, attempt 0; expected True, False"),
    ],
)
def test_what_is_no_verifier_is_named_and_nothing_is_written(played: Path, verifier: str, message: str):
    with pytest.raises((BadConfig, LookupError), match=message):
        rescore_folder(played, verifier)
    assert {path.name for path in played.parent.iterdir()} <= {"a", "my_verifiers.py", "__pycache__"}


@pytest.mark.parametrize("verdict", [math.nan, 1.5, -0.1, "yes", 1 + 0j, np.complex128(1), None, (True, "why")])
def test_a_verdict_has_bounds(verdict: Any):
    episode = Episode("me/A-v0", "t", "t", 0, success=True, reason="success")
    with pytest.raises(BadConfig, match="a reward from 0 to 1"):
        rescore([episode], lambda e, t: verdict, lambda e: agentgym.Task())


@pytest.mark.parametrize(("verdict", "reward"), [(np.bool_(True), 1.0), (np.float32(0.5), 0.5), (1, 1.0), (False, 0.0)])
def test_numbers_of_numpy_are_numbers(verdict: Any, reward: float):
    episode = Episode("me/A-v0", "t", "t", 0, success=False, reason="horizon")
    (found,) = rescore([episode], lambda e, t: verdict, lambda e: agentgym.Task())
    assert (found.reward, found.success, found.reason) == (reward, reward == 1, "success" if reward == 1 else "horizon")
    assert type(found.success) is bool


def test_faults_stay_faults():
    episode = Episode("me/A-v0", "t", "t", 0, reason="crash", error="boom")
    assert rescore([episode], lambda e, t: True, lambda e: agentgym.Task()) == [episode]


def test_nothing_is_written_over(played: Path):
    rescore_folder(played, "my_verifiers:quick")
    with pytest.raises(BadConfig, match="a-rescored-quick is there already"):
        rescore_folder(played, "my_verifiers:quick")
    with pytest.raises(BadConfig, match="is there already"):
        rescore_folder(played, "my_verifiers:quick", played)


def test_a_task_that_is_another_one_now_is_refused(played: Path):
    path = played / "episodes.jsonl"
    path.write_text(path.read_text().replace('"instruction": "', '"instruction": "once, '))
    with pytest.raises(BadData, match="the environment has changed, evaluate again"):
        rescore_folder(played, "my_verifiers:quick")


def test_the_command_says_what_changed(played: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["rescore", str(played), "--verifier", "my_verifiers:quick"]) == 0
    output = capsys.readouterr().out
    assert "as before, 0 solved now and not before, " in output
    assert main(["compare", str(played), f"{played}-rescored-quick"]) == 0
    assert "rescored: null in A" in capsys.readouterr().out


def test_rewards_of_training_pay_on_top_of_the_recorded_outcome(played: Path, capsys: pytest.CaptureFixture[str]):
    command = ["rescore", str(played), "--rewards", "length", "noise", "--reward.budget", "2", "--reward.unit", "turns"]
    assert main([*command, "--reward.weight", "0.25", "--reward.noise.false_negative", "1"]) == 0
    target = played.with_name("a-rescored-length-noise")
    assert "8 as before, 0 solved now and not before, 0 solved before and not now" in capsys.readouterr().out
    old, new = read_episodes(played / "episodes.jsonl"), read_episodes(target / "episodes.jsonl")
    assert {e.success for e in old} == {True, False}
    for was, now in zip(old, new, strict=True):
        penalty = -0.25 * (len(was.turns) > 2)
        assert (now.reward, now.success, now.reason) == (penalty, was.success, was.reason)  # and noise took each 1
        assert now.turns[-1].rewards == {**was.turns[-1].rewards, "length": penalty, "noise": -float(bool(was.success))}
    options = json.loads((target / "manifest.json").read_text())["options"]
    length = {"budget": 2, "unit": "turns", "weight": 0.25}
    rewards = {"length": length, "noise": {"false_negative": 1.0}}
    assert options["rescored"] == {"folder": str(played), "rewards": rewards}
    summary = json.loads((target / "summary.json").read_text())
    assert summary["comparable"].startswith("rewards in addition to the environment's own")
    assert main(["compare", str(played), str(target)]) == 0


def test_a_verifier_and_rewards_go_together(played: Path):
    target, scored = rescore_folder(
        played, "my_verifiers:quick", rewards=["length"], reward_options={"budget": 0, "unit": "turns", "weight": 0.5}
    )
    assert target == played.with_name("a-rescored-quick-length")
    assert [e.reward for e in scored] == [float(bool(e.success)) - 0.5 for e in scored]


@pytest.mark.parametrize(
    ("rewards", "options", "message"),
    [
        ([], {}, "nothing to rescore by: give --verifier MODULE:NAME, --rewards NAME, or both"),
        (["lenght"], {}, "Did you mean 'length'"),
        (["length"], {"budget": 1}, "use --reward.length.unit turns"),
        (["length"], {"budget": 1, "schedule": [[0, 1]]}, "has a schedule, and rescoring has no steps"),
        (
            ["judge"],
            {"engine": "chat:http://127.0.0.1:9/v1#m", "rubric": __file__},
            "no connection to http://127.0.0.1:9/v1",
        ),
    ],
)
def test_rewards_that_cannot_pay_are_named_and_nothing_is_written(
    played: Path, rewards: list[str], options: dict[str, Any], message: str
):
    with pytest.raises((BadConfig, LookupError)) as error:
        rescore_folder(played, rewards=rewards, reward_options=options)
    assert message in str(error.value)
    assert {path.name for path in played.parent.iterdir()} <= {"a", "my_verifiers.py", "__pycache__"}


@pytest.mark.parametrize("several", [False, True])
def test_a_training_run_is_rescored_in_its_own_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, several: bool):
    """Of several environments each has a name in the run; two of them may have one id, and other options."""
    (tmp_path / "lake_verifiers.py").write_text("def first(episode, task):\n    return len(task.data['lake']) == 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ids = {"easy": "rlvr/FrozenLake-v0", "other": ENV} if several else {"": "rlvr/FrozenLake-v0"}
    specs = tuple(EnvSpec(id, label=name) for name, id in ids.items() if name)
    config = TrainConfig(envs=specs) if several else TrainConfig(env=ids[""], env_options={"slip": 0.5})
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.toml").write_text(to_toml(config))
    episodes = agentgym.collect(agentgym.ExpertAgent(), "rlvr/FrozenLake-v0", tasks=3, split="test")
    for episode in episodes:
        episode.group_id = f"success_after/{episode.group_id}"
        episode.labels |= {"env": "easy"} if several else {}
    (run / "episodes.jsonl").write_text("".join(episode.to_json() + "\n" for episode in episodes))
    target, scored = rescore_folder(run, "lake_verifiers:first")
    assert [episode.success for episode in scored] == [True] * 3
    assert len(rescore_folder(target, "lake_verifiers:first")[1]) == 3
