"""The evaluations around the phases of a run: one for each policy that there is."""

import io
import json

from rich.console import Console
from small_runs import episodes, policy, small

from agentgym.cli.train import _table
from agentgym.trainers import train
from agentgym.trainers.config import train_config


def test_without_a_warm_start_the_untrained_policy_is_measured_once(tmp_path):
    config = small(tmp_path / "run", policy(tmp_path / "policy"), steps=1, test_tasks=2)
    summary = train(config)
    assert "success_sft" not in summary and {"success_before", "success_after"} <= set(summary)
    measured = [e["group_id"].partition("/")[0] for e in episodes(tmp_path / "run") if e["group_id"].startswith("success")]
    assert sorted(measured) == ["success_after"] * 2 + ["success_before"] * 2
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == summary
    assert "SFT" not in printed(summary) and "50.0%" in printed({**summary, "success_sft": 0.5})


def printed(summary):
    screen = io.StringIO()
    Console(width=100, file=screen).print(_table(summary))
    return screen.getvalue()


def test_random_weights_play_fewer_tasks_of_the_test(tmp_path, monkeypatch):
    monkeypatch.setattr(train_config, "RANDOM_TASKS", 1)
    tiny = {"policy_width": 64, "policy_layers": 1, "policy_episodes": 8}
    summary = train(small(tmp_path / "run", "init", **tiny, steps=1, test_tasks=3))
    measured = [e["group_id"].partition("/")[0] for e in episodes(tmp_path / "run") if e["group_id"].startswith("success")]
    assert sorted(measured) == ["success_after"] * 3 + ["success_before"]
    assert (summary["tasks_before"], summary["tasks"]) == (1, 3) and "on 3 test tasks; untrained on 1" in printed(summary)
