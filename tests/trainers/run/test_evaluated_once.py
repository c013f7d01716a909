"""The evaluations around the phases of a run: one for each policy that there is."""

import io
import json

from rich.console import Console
from small_runs import episodes, policy, small

from agentgym.cli.train import _table
from agentgym.trainers import train


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
