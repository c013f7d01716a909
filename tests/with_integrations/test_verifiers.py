"""The real verifiers: our environments as its taskset, run by its own evaluation over real HTTP; and its tasksets here."""

import asyncio
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed: ./dev test-integrations")
import agentgym_there
import loopback
import verifiers.v1 as vf
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.utils.loaders import load_taskset, taskset_config_type

import agentgym
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.errors import RULED_OUT, Fault
from agentgym.gateway import App, Gateway
from agentgym.integrations.verifiers_env import VerifiersEnv

TASKSET = "agentgym_there"


def tasks(**options: Any) -> list[Any]:
    return list(load_taskset(taskset_config_type(TASKSET).model_validate({"id": TASKSET, **options})))


def test_tasks_are_the_splits_own_and_the_oracle_validates_them() -> None:
    found = tasks(env="rlvr/GuessNumber-v0", split="valid", tasks=3)
    assert [task.data.task_id for task in found] == [t.id for t in agentgym.make("guessnumber").tasks(3, "valid")]
    assert found[0].data.prompt is None and "secret" not in json.dumps(found[0].data.model_dump(mode="json"))
    assert asyncio.run(found[0].validate(None)) is True
    assert len({task.key for task in found}) == 3


def test_its_evaluation_plays_our_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = agentgym.make("rlvr/GuessNumber-v0")
    answers = {task.id: task.data["secret"] for task in env.tasks(2)}
    first = answers[env.tasks(2)[0].id]
    turns: list[int] = []

    def says(prompt: str, turn: int) -> str:
        """Guess the secret of the first task, whatever the task, after a word that is no number."""
        turns.append(turn)
        return "<action>hm</action>" if turn == 0 else f"<think>well</think><action>{first}</action>"

    gateway = Gateway(ScriptedEngine(says, ByteTokenizer(), context=1 << 16), "model")
    monkeypatch.setenv("FAKE_KEY", "none")
    with loopback.serving(App(gateway)) as url:
        config = EvalConfig.model_validate(
            {
                "env": {"taskset": {"id": TASKSET, "env": "rlvr/GuessNumber-v0", "tasks": 2}, "horizon": 4},
                "model": "model",
                "client": {"base_url": f"{url}/v1", "api_key_var": "FAKE_KEY"},
                "num_rollouts": 2,
                "output_dir": str(tmp_path),
                "rich": None,
                "sampling": {"temperature": 1.0, "max_tokens": 64},
            }
        )
        episodes = asyncio.run(run_eval(config))
    traces = [trace for episode in episodes for trace in episode.traces]
    assert len(traces) == 4
    assert turns.index(1) >= 2  # episodes go on side by side
    for trace in traces:
        assert not trace.errors, trace.errors
        record = trace.info["agentgym"]
        won = answers[record["task_id"]] == first
        assert trace.rewards["reward"].score == trace.metrics["success"] == float(won)
        assert trace.metrics["invalid"] >= 1 and len(record["turn_rewards"]) == trace.metrics["turns"] == trace.num_turns
        assert record["reason"] == ("success" if won else "horizon")
    assert sorted(t.metrics["turns"] for t in traces) == [2.0, 2.0, 4.0, 4.0]
    by_task: dict[str, set[int]] = {}
    for trace in traces:
        by_task.setdefault(trace.info["agentgym"]["task_id"], set()).add(trace.info["agentgym"]["seed"])
    assert all(len(seeds) == 2 for seeds in by_task.values())  # attempts differ
    assert vf and agentgym_there


def test_the_command_of_the_page_plays_a_taskset_package(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "integrations.md").read_text(encoding="utf-8")
    (module,) = re.findall(r"^```python\n# my_taskset\.py\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"^`([\w-]+ my_taskset .*?)`", page, re.MULTILINE)
    (tmp_path / "my_taskset.py").write_text(module)
    gateway = Gateway(ScriptedEngine(lambda prompt, turn: "<action>hm</action>", ByteTokenizer(), context=1 << 16), "model")
    with loopback.serving(App(gateway)) as url:
        words = [
            *command.replace("MODEL", "model").split(),
            "--client.base-url",
            f"{url}/v1",
            "--client.api-key-var",
            "FAKE_KEY",
        ]
        words += ["-n", "1", "-r", "1", "--env.horizon", "2", "--no-rich", "--sampling.max-tokens", "64"]
        programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # as in an environment that is active
        modules = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
        own = {**os.environ, "FAKE_KEY": "none", "PYTHONPATH": modules, "PATH": programs}
        done = subprocess.run(words, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (file,) = tmp_path.rglob("traces.jsonl")
    (line,) = file.read_text().splitlines()
    record = json.loads(line)["traces"][0]["info"]["agentgym"]
    assert record["reason"] == "horizon" and record["task_id"].startswith("train/")


def test_a_taskset_of_one_turn_is_an_environment_here() -> None:
    env = agentgym.make("verifiers:reverse_there")
    assert env.size() == 3
    observation, _ = env.reset(options={"task": 1})
    assert observation == "Be brief.\n\nReverse stop."
    answer, reward, terminated, _, info = env.step("pots")
    assert (answer, reward, terminated, info["success"]) == ("reversed: 1", 1.0, True, True)
    env.reset(options={"task": 1})
    assert env.step("post")[4]["success"] is False
    episode = asyncio.run(agentgym.play("verifiers:reverse_there", agentgym.RandomAgent(), task=0))  # in a worker
    assert episode.env == "verifiers/reverse_there-v0" and episode.reason == "failure"


def test_an_environment_of_several_turns_plays_on_here_and_is_restored() -> None:
    env = agentgym.make("verifiers:counting_there", listed=14)
    assert env.reset(options={"task": 7})[0] == "What follows 7?"
    assert env.step("8")[0] == "And 8?"
    state = env.snapshot()
    assert env.step("9")[0] == "And 9?" and env.step("10")[4]["success"] is True
    env.restore(state)
    assert env.step("1")[0] == "And 9?" and env.step("10")[4]["success"] is False
    env.reset(options={"task": 0})
    info = env.step("break")[4]
    assert (info["success"], info["reason"]) == (False, "failure")  # their code fails on this reply alone
    env.reset(options={"task": 11})
    info = env.step("")[4]  # which is a harmless reply elsewhere
    assert (info["success"], info["reason"]) == (False, "failure")
    env.reset(options={"task": 13})
    info = env.step("14")[4]
    assert (info["success"], info["reason"]) == (None, "crash")  # their code fails whatever the reply
    assert info["error"].startswith(RULED_OUT) and "broken" in info["error"]
    env.reset(options={"task": 0})
    env.close()


@pytest.mark.parametrize("score", [math.nan, math.inf, "1", [1.0], 1 + 0j])
def test_a_score_that_is_no_number_is_a_fault_and_pays_nothing(score: Any) -> None:
    env = object.__new__(VerifiersEnv)
    reward = SimpleNamespace(score=score, weight=1)
    env.run = SimpleNamespace(next=lambda: ("ended", SimpleNamespace(rewards={"right": reward})))  # type: ignore[assignment]
    with pytest.raises(Fault, match="'right' of the rewards of "):
        env._seen()
    reward.score = True
    assert env._seen().success is True
