"""What all tests share."""

import os
from datetime import UTC, datetime

import pytest

year, week, _ = datetime.now(UTC).isocalendar()
os.environ.setdefault("AGENTGYM_CHECK_SEED", str(100 * year + week))  # before workers start, so that all have the same


def pytest_report_header() -> str:
    """Say which tasks the contract looks at: others every week, and the same again with the variable."""
    return f"tasks of the contract: AGENTGYM_CHECK_SEED={os.environ['AGENTGYM_CHECK_SEED']}"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A cache of their own: tests neither fill the user's nor lean on what it holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
