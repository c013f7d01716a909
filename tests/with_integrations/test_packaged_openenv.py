"""The real OpenEnv (0.10.0) on a package of ours: its validator's static level, its probe of a server, and its episode."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: ./dev test-integrations")
import httpx
import packaged
from loopback import free_port
from openenv.core import GenericEnvClient
from openenv.validation import CheckStatus, Level, run_validation
from openenv.validation.types import ProviderCapability

VALIDATE = [sys.executable, "-m", "openenv.cli", "validate"]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "server.app:app", "--port", str(port), "--log-level", "error"]
    with subprocess.Popen(command, cwd=folder) as process:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{url}/health")
                break
            time.sleep(0.1)
        try:
            yield url
        finally:
            process.terminate()


class Processes:
    """A provider of its validation without containers: the package as a process of this machine."""

    name = "process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def build(self, root: Path, execution: Any) -> str:
        assert (root / execution.dockerfile).is_file()
        self.root = root
        return "sha256:" + "0" * 64

    def start(self, spec: Any) -> "Processes":
        self.stack = contextlib.ExitStack()
        self.base_url = self.stack.enter_context(started(self.root))
        return self

    def inspect(self) -> dict[str, object]:
        return {}

    def stop(self) -> None:
        self.stack.close()


def test_its_validator_takes_the_manifest_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packaged.package("openenv", tmp_path, monkeypatch, "rlvr/SQL-v0", "--env.shaping", '{"executed": 0.1}')
    report = run_validation(folder, max_level=Level.STATIC)
    assert report.verdict.value == "pass" and report.manifest is not None
    assert report.manifest.reward.range == (-0.1, 1.1)
    assert report.manifest.capabilities.declared_tools == ["schema", "query", "answer"]


def test_its_validator_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packaged.package("openenv", tmp_path, monkeypatch)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    done = subprocess.run([*VALIDATE, str(folder), "--level", "static"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Verdict: PASS" in done.stdout, done.stdout + done.stderr
    report = run_validation(folder, max_level=Level.RUNTIME, provider=Processes())
    results = {result.check_id: result for result in report.results}
    for name in ("startup", "reward_well_formed", "observation_schema", "state_contract"):
        assert results[f"runtime.{name}"].status is CheckStatus.PASS, results[f"runtime.{name}"]
    others = {result.status for id, result in results.items() if result.status is not CheckStatus.PASS}
    assert others == {CheckStatus.SKIP} and report.verdict.value == "warn"  # "grader not implemented in this build"
    with started(folder) as url:
        done = subprocess.run([*VALIDATE, "--url", url], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout
        name = httpx.get(f"{url}/list_environments").json()[0]
        assert {split["name"] for split in httpx.get(f"{url}/{name}/splits").json()} == {"train", "valid", "test"}
        state = json.loads((folder / "oracle" / "solved_state.json").read_text())
        with GenericEnvClient(base_url=url).sync() as client:
            solved = client.reset(**state["reset"], injected_state=state["injected_state"])
            assert (solved.reward, solved.done, client.state()["success"]) == (1.0, True, True)
    assert (folder / "canaries" / "canaries.json").is_file()
