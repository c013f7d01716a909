"""The blocks of docs/guides/integrations.md that this environment has the packages for run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="trl, of the extra `train`, is not installed")

from agentgym.trainers.model.policy import PolicySize, init_policy

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "integrations.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
ELSEWHERE = ("verifiers", "openenv", "inspect_ai")
HERE = [block for block in BLOCKS if not any(name in block for name in ELSEWHERE)]


@pytest.mark.long
def test_the_blocks_run_in_order(tmp_path: Path) -> None:
    size = PolicySize(width=64, layers=1, heads=2, feed_forward=64, vocabulary=400, context=2048)
    init_policy("rlvr/GuessNumber-v0", tmp_path / "runs" / "chatml", size=size, episodes=20, template="chatml")
    assert len(HERE) == 3 and len(BLOCKS) == 6
    done = subprocess.run([sys.executable, "-c", "\n".join(HERE)], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert lines[0].startswith("True ") and lines[1] == "Question:" and lines[2].startswith("False 0.0 0 ['search'")
    assert "'train_loss'" in done.stdout and lines[-1] == "['ask', 'get_reward', 'guess', 'reset']"
