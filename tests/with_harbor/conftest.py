"""Sandboxes in Harbor's environments, run by `./dev test-harbor`: its local Docker, on a daemon of the tests' own."""

import importlib.util
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.swe.tasks.pytest_run import PACKAGES

FOLDER = os.environ.get("AGENTGYM_DOCKER", "")
IMAGE: dict[str, Any] = {"image": "agentgym-test/python"}
collect_ignore_glob = [] if FOLDER else ["test_*.py"]
os.environ |= {"HARBOR_TELEMETRY": "0", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # 18 s a call
sys.path.insert(0, str(Path(__file__).parents[1] / "sandbox"))
pytest.register_assert_rewrite("test_sandboxes")


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An image with what tasks of Terminal and SWE need: awk, diff and pytest, of this machine's own."""
    folder = tmp_path_factory.mktemp("tools")
    with tarfile.open(folder / "root.tar", "w") as root:
        for place, source in (
            ("usr/bin/awk", "/usr/bin/mawk"),
            ("usr/bin/diff", "/usr/bin/diff"),
            ("usr/bin/cmp", "/usr/bin/cmp"),
        ):
            root.add(source, place)
        for name in PACKAGES:
            found = Path(str(importlib.util.find_spec(name).origin))
            found = found.parent if found.name == "__init__.py" else found
            root.add(found, f"usr/lib/python3/dist-packages/{found.name}", filter=_source)
    (folder / "Dockerfile").write_text("FROM agentgym-test/python\nADD root.tar /\n")
    subprocess.run(["docker", "build", "--tag", "agentgym-test/tools", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return {"image": "agentgym-test/tools"}


def _source(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in member.name else member
