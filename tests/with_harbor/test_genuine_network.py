"""Networks in task.toml beside harbor 0.26.0's own model: what it refuses is refused here."""

import sys
from pathlib import Path

import pytest
from harbor.models.task.config import TaskConfig

sys.path.insert(0, str(Path(__file__).parents[1] / "envs" / "terminal"))
from test_harbor_files import write

from agentgym.envs.terminal.harbor.files import load
from agentgym.errors import BadData

HOSTS = (
    "a.test", "A.test.", "*.a.test", "10.0.0.0/8", "10.0.0.1", "::1", "2001:db8::/32", "localhost", "1.2.3", "a_b.test",
    "http://a.test", "a.test:80", "*", "a.*.test", "*.10.0.0.1", "10.0.0.1/8", "", "-a", "a-", "[::1]", "*.", "a..b",
    "fe80::1%1",
)  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_hosts(host, tmp_path):
    toml = f'[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["{host}"]\n'
    try:
        genuine = tuple(TaskConfig.model_validate_toml(toml).environment.allowed_hosts or ())
    except ValueError:
        genuine = None
    try:
        (task,) = load(write(tmp_path / "t", toml)).values()
        ours = task.steps[0].network.hosts
    except BadData:
        ours = None
    assert ours == genuine
