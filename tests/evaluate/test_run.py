"""Evaluations of a real world that are interrupted, damaged, repeated and changed."""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import pytest

import agentgym
from agentgym import BadConfig, BadData, Episode, Turn, read_episodes, registry
from agentgym.engines import Sampling
from agentgym.evaluate.rescore import rescore_folder
from agentgym.evaluate.run import EvaluationPlan, evaluate

ENV = "rlvr/GuessNumber-v0"


class Bisecting:
    """Plays the environment's expert, and gives up on tasks whose secret is odd."""

    async def take(self, observation: str, info: dict[str, Any], *, env: Any, seed: int, session: str) -> Turn:
        action = "0" if env.task.data["secret"] % 2 else next(env.expert())
        return Turn(observation, action=action, text=action)

    def fork(self) -> "Bisecting":
        return self


class Agent:
    engine = None
    sampling = Sampling()

    def begin(self, task: Any, tools: Any) -> Bisecting:
        return Bisecting()


def plan(**changes: Any) -> EvaluationPlan:
    return EvaluationPlan(**{"envs": (ENV,), "tasks": 8, "attempts": 2, **changes})


def essence(episodes: list[Episode]) -> list[str]:
    for episode in episodes:
        for turn in episode.turns:
            turn.seconds = 0.0
    return sorted(episode.to_json() for episode in episodes)


def test_a_whole_evaluation_leaves_manifest_episodes_and_summary(tmp_path: Path):
    episodes = evaluate(Agent(), plan(), tmp_path / "a", options={"model": "bisecting"})
    assert len(episodes) == 16
    odd = sum(int(agentgym.make(ENV).find(e.task_id).data["secret"]) % 2 for e in episodes)
    summary = json.loads((tmp_path / "a/summary.json").read_text())
    assert 0 < odd < 16
    assert summary["success"]["mean"] == (16 - odd) / 16
    assert summary["reasons"] == {"success": 16 - odd, "horizon": odd}
    assert summary["envs"][ENV]["success"]["tasks"] == 8
    assert summary["pass_at"]["2"] == summary["pass_at"]["1"]  # the agent does the same twice
    assert summary["pass_hat"]["2"] == summary["avg_at"]["2"] == (16 - odd) / 16
    assert summary["unparsed"] == 0 and summary["seconds"] > 0
    assert (summary["iqm"]["runs"], summary["iqm"]["columns"], len(summary["profile"])) == (2, 1, 10)
    manifest = json.loads((tmp_path / "a/manifest.json").read_text())
    assert manifest["options"]["envs"] == {ENV: {"split": "test", "tasks": 8, "options": {}}}
    assert manifest["options"]["model"] == "bisecting"
    assert manifest["sessions"][0]["libraries"]["numpy"]
    assert {e.split for e in episodes} == {"test"}


def test_an_interrupted_evaluation_goes_on_and_ends_the_same(tmp_path: Path):
    whole = evaluate(Agent(), plan(), tmp_path / "whole")
    seen: list[Episode] = []

    def interrupt(episode: Episode) -> None:
        seen.append(episode)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(Agent(), plan(), tmp_path / "cut", progress=interrupt, rollout=agentgym.RolloutConfig(2))
    path = tmp_path / "cut/episodes.jsonl"
    episode_count = len(read_episodes(path))
    assert 5 <= episode_count < 16
    with path.open("a") as file:
        file.write('{"format": 1, "env": "rlvr/Gue')  # and the machine went down while it wrote
    there: list[tuple[int, int]] = []
    played: list[Episode] = []
    again = evaluate(Agent(), plan(), tmp_path / "cut", started=lambda *counts: there.append(counts), progress=played.append)
    assert there == [(episode_count, 16)]
    assert len(played) == 16 - episode_count
    assert essence(again) == essence(whole)
    assert len(path.read_text().splitlines()) == 16
    assert len(json.loads((tmp_path / "cut/manifest.json").read_text())["sessions"]) == 2
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("cut", "whole")]
    assert summaries[0]["success"] == summaries[1]["success"]


@pytest.mark.parametrize("name", ["guessnumber", "rlvr/GuessNumber-v0", "agentgym:guessnumber"])
def test_an_evaluation_goes_on_under_whatever_name_of_the_environment(tmp_path: Path, name: str):
    """What was played is found again by the id in its episodes: else all would be played, and counted, twice."""
    left: list[tuple[int, int]] = []
    for _ in range(2):
        episodes = evaluate(Agent(), plan(envs=(name,)), tmp_path, started=lambda there, all: left.append((there, all)))
    assert left == [(0, 16), (16, 16)] and len(episodes) == 16


def test_somebody_elses_environment_goes_on_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The id of PREFIX:NAME is none of its parts."""
    module = ModuleType("others_of_this_test")
    module.registered = lambda name: registry.register_foreign(  # type: ignore[attr-defined]
        "others", name, "agentgym.envs.guess_number:GuessNumber"
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry.FOREIGN, "others", (module.__name__, ""))
    id = "others/some-env-v0"
    for table in (gymnasium.registry, registry.DESCRIPTIONS):  # it is gone again after the test
        monkeypatch.setitem(table, id, None)
        del table[id]
    for _ in range(2):
        episodes = evaluate(Agent(), plan(envs=("others:http://here:1/some-env",)), tmp_path)
    assert len(episodes) == 16 and episodes[0].env == id
    (tmp_path / "verifier_of_this_test.py").write_text("def judge(episode, task): return task.data['secret'] > 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    del gymnasium.registry[id]  # as in the process that rescores
    with pytest.raises(BadConfig, match="sets --env"):  # the address stands in the folder, which may be a stranger's
        rescore_folder(tmp_path, "verifier_of_this_test:judge", tmp_path / "judged")
    names = ("others:http://here:1/some-env",)
    _, seen = rescore_folder(tmp_path, "verifier_of_this_test:judge", tmp_path / "judged", envs=names)
    assert len(seen) == 16 and all(episode.success for episode in seen)


def test_one_environment_under_two_names_is_refused(tmp_path: Path):
    with pytest.raises(BadConfig, match="would count twice"):
        evaluate(Agent(), plan(envs=(ENV, "guessnumber")), tmp_path)


def test_other_options_are_refused_and_named(tmp_path: Path):
    evaluate(Agent(), plan(), tmp_path, options={"temperature": 1.0})
    with pytest.raises(BadConfig, match=r"seed was 0, now 1; temperature was 1\.0, now 0\.5"):
        evaluate(Agent(), plan(seed=1), tmp_path, options={"temperature": 0.5})


def test_faults_stay_until_they_are_retried(tmp_path: Path):
    evaluate(Agent(), plan(), tmp_path)
    path = tmp_path / "episodes.jsonl"
    episodes = read_episodes(path)
    for episode in episodes[:3]:
        episode.success, episode.reason, episode.turns = None, "engine", []
    path.write_text("".join(e.to_json() + "\n" for e in episodes))
    played: list[Episode] = []
    again = evaluate(Agent(), plan(), tmp_path, progress=played.append)
    assert not played
    assert agentgym.success(again).faults == 3
    assert json.loads((tmp_path / "summary.json").read_text())["success"]["faults"] == 3
    again = evaluate(Agent(), plan(), tmp_path, retry_faults=True, progress=played.append)
    assert len(played) == 3
    assert len(again) == 16
    assert agentgym.success(again).faults == 0


def test_a_damaged_line_is_named(tmp_path: Path):
    evaluate(Agent(), plan(), tmp_path)
    path = tmp_path / "episodes.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:50], *lines[2:]]) + "\n")
    with pytest.raises(BadData, match=r"episodes\.jsonl, line 2"):
        evaluate(Agent(), plan(), tmp_path)


def test_a_damaged_manifest_is_named(tmp_path: Path):
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(BadData, match=r"manifest\.json is not a manifest"):
        evaluate(Agent(), plan(), tmp_path)


@pytest.mark.parametrize(
    "changes", [{"split": "tset"}, {"env_options": {ENV: {"horizn": 3}}}, {"envs": ("rlvr/GuesNumber-v0",)}]
)
def test_bad_names_fail_before_anything_is_written(tmp_path: Path, changes: dict[str, Any]):
    with pytest.raises((LookupError, BadConfig), match="Did you mean"):
        evaluate(Agent(), plan(**changes), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["env_options", "own"])
def test_options_of_an_environment_that_is_not_played_are_refused(tmp_path: Path, name: str):
    with pytest.raises(BadConfig, match=r"no environment of the plan's options 'horizon'. Known: rlvr/GuessNumber-v0"):
        evaluate(Agent(), plan(**{name: {"horizon": 3}}), tmp_path / "new")


def test_an_environment_has_its_own_tasks_and_attempts(tmp_path: Path):
    own = {"rlvr/FrozenLake-v0": {"tasks": 2, "attempts": 3, "split": "train"}}
    there: list[tuple[int, int]] = []
    two = plan(envs=(ENV, "rlvr/FrozenLake-v0"), own=own, tasks=4)
    episodes = evaluate(agentgym.RandomAgent(), two, tmp_path, started=lambda *counts: there.append(counts))
    assert there == [(0, 4 * 2 + 2 * 3)]
    assert sorted((e.split, e.attempt) for e in episodes if e.env != ENV) == sorted(("train", i) for i in (0, 1, 2) * 2)
    with pytest.raises(BadConfig, match="Did you mean 'tasks'"):
        evaluate(Agent(), plan(own={ENV: {"task": 2}}), tmp_path / "new")


def test_a_small_split_is_played_whole(tmp_path: Path):
    size = 0
    with pytest.raises(BadConfig, match="different tasks"):
        for size in range(12, 20):
            agentgym.make(ENV).tasks(size, "test")
    assert len(evaluate(Agent(), plan(tasks=90, attempts=1), tmp_path)) == size - 1 > 11


def test_the_plan_is_refused_where_it_makes_no_sense(tmp_path: Path):
    with pytest.raises(BadConfig, match="tasks is 0"):
        evaluate(Agent(), plan(tasks=0), tmp_path)
    with pytest.raises(BadConfig, match="seed is -1; expected 0 or more"):
        plan(seed=-1)


class Broken(Bisecting):
    """Says half a character."""

    async def take(self, observation: str, info: dict[str, Any], *, env: Any, seed: int, session: str) -> Turn:
        return Turn(observation, action="\ud800", text="\ud800 \u00e9")


class BrokenAgent(Agent):
    def begin(self, task: Any, tools: Any) -> Bisecting:
        return Broken()


def test_half_a_character_is_written_and_read_back(tmp_path: Path):
    episodes = evaluate(BrokenAgent(), plan(tasks=2, attempts=1), tmp_path)
    assert {turn.text for e in episodes for turn in e.turns} == {"\ud800 \u00e9"}
    assert not any(e.success for e in episodes)


def test_two_evaluations_do_not_share_a_folder(tmp_path: Path):
    class Second(Agent):
        def begin(self, task: Any, tools: Any) -> Bisecting:
            with pytest.raises(BadConfig, match="another evaluation is writing"):
                evaluate(Agent(), plan(), tmp_path)
            met.append(task.id)
            return Bisecting()

    met: list[str] = []
    assert len(evaluate(Second(), plan(tasks=2, attempts=1), tmp_path)) == len(met) == 2
    assert len(evaluate(Agent(), plan(tasks=2, attempts=1), tmp_path)) == 2  # and it is let go


@pytest.mark.parametrize("name", ["tasks", "attempts"])
def test_a_plan_that_would_not_end_is_refused(name: str, tmp_path: Path):
    with pytest.raises(BadConfig, match="from 1 to 1,000,000"):
        evaluate(Agent(), plan(**{name: 10**26}), tmp_path)
