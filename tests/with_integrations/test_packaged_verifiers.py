"""The real verifiers (0.4.0) on a package of ours: its loaders find the taskset, and its evaluation plays to reward 1."""

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed: ./dev test-integrations")
import loopback
import packaged
from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig
from verifiers.v1.utils.loaders import environment_class, load_taskset, taskset_config_type

import agentgym
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.gateway import App, Gateway


@pytest.mark.parametrize(("env", "name"), [(packaged.ENV, "mine_doors"), ("rlvr/GuessNumber-v0", "rlvr_guess_number")])
def test_its_evaluation_plays_the_oracles_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str, name: str
) -> None:
    folder = packaged.package("verifiers", tmp_path, monkeypatch, env)
    monkeypatch.syspath_prepend(str(folder))
    (task,) = load_taskset(taskset_config_type(name).model_validate({"id": name, "tasks": 1}))
    assert asyncio.run(task.validate(None)) is True and environment_class(name).__name__ == "AgentgymEnv"
    ours = agentgym.make(env)
    ours.reset(seed=0, options={"task": task.data.task_id})
    answer = next(iter(ours.oracle()))
    engine = ScriptedEngine(lambda prompt, turn: f"<action>{answer}</action>", ByteTokenizer(), context=1 << 16)
    monkeypatch.setenv("FAKE_KEY", "none")
    with loopback.serving(App(Gateway(engine, "model"))) as url:
        config = {
            "env": {"taskset": {"id": name, "tasks": 1}},
            "model": "model",
            "client": {"base_url": f"{url}/v1", "api_key_var": "FAKE_KEY"},
            "num_rollouts": 1,
            "output_dir": str(tmp_path / "out"),
            "rich": None,
            "sampling": {"temperature": 1.0, "max_tokens": 64},
        }
        (episode,) = asyncio.run(run_eval(EvalConfig.model_validate(config)))
    (trace,) = episode.traces
    assert not trace.errors and trace.rewards["reward"].score == trace.metrics["success"] == 1.0
