"""`rlvr-openenv-validate PACKAGE`: OpenEnv's validation with all graders that are installed.

OpenEnv 0.10.0's own command runs its four runtime graders alone: it neither reads the entry-point group nor executes a
semantic grader. This command puts the same pieces together with them. `--processes` starts the server as a process of this
machine in place of a container: for packages that you trust.
"""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from openenv.validation import Level, load_policy
from openenv.validation.graders import GraderRegistry, Subject
from openenv.validation.policy import apply_policy
from openenv.validation.providers import StartupError
from openenv.validation.report import CheckResult
from openenv.validation.runner import default_grader_registry, default_parser_registry
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import LaunchSpec, load_runtime_plan
from openenv.validation.runtime.scheduler import execute_graders
from openenv.validation.signature import detect_signature
from openenv.validation.types import CheckStatus, Lane, ProviderCapability, Verdict

STARTUP = 180.0
"""Seconds in which a process answers."""


class Processes:
    """A provider that starts a package's server as a process of this machine; nothing contains it."""

    name = "process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public"})

    def build(self, root: Path, execution: object) -> str:
        """Build nothing."""
        self.root = root
        return f"sha256:{0:064x}"

    def start(self, spec: LaunchSpec) -> "Process":
        """Start the application that openenv.yaml names."""
        app = str(yaml.safe_load((self.root / "openenv.yaml").read_text(encoding="utf-8")).get("app") or "server.app:app")
        return Process(self.root, app)


class Process:
    """A server that runs."""

    def __init__(self, root: Path, app: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "error", "--", app]
        self._process = subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        deadline = time.monotonic() + STARTUP
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.base_url}/health", timeout=5).close()
                return
            time.sleep(0.1)
        self.stop()
        raise StartupError(f"{app} did not answer within {STARTUP:g} s")

    def inspect(self) -> dict[str, object]:
        """Return nothing: there is no container."""
        return {}

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(10)


def graders() -> GraderRegistry:
    """Return OpenEnv's graders and those of the entry-point group."""
    registry = default_grader_registry(load_policy("v2"))
    registry.load_entry_points()
    return registry


def validate(root: Path, provider: Any) -> tuple[list[CheckResult], Verdict]:
    """Run every grader that is installed on a package; return the results, and the policy's verdict."""
    policy = load_policy("v2")
    manifest = default_parser_registry().parser_for(detect_signature(root)).parse(root)
    selected = graders().select(manifest, Level.SEMANTIC)
    subject = Subject(root, manifest, None, None, root / "outputs")
    results = execute_graders([grader for grader in selected if grader.level is Level.STATIC], subject)
    plan = load_runtime_plan(root, manifest.execution)  # type: ignore[union-attr]
    started = time.monotonic()
    image = provider.build(root, manifest.execution)  # type: ignore[union-attr]
    network, resources = manifest.network, manifest.resources
    running = provider.start(LaunchSpec(image_ref=image, resources=resources, network=network, run_id="graders"))
    try:
        evidence = collect_runtime_evidence(running.base_url, plan, episode_timeout_s=resources.episode_timeout_s)
        startup = CheckResult(
            check_id="runtime.startup",
            status=CheckStatus.FAIL if evidence.failure_reason else CheckStatus.PASS,
            evidence=[evidence.failure_reason or "the server answers"],
            duration_s=time.monotonic() - started,
        )
        subject = Subject(root, manifest, image, running, root / "outputs", evidence)
        others = [grader for grader in selected if grader.level > Level.STATIC]
        results += [startup, *execute_graders(others, subject, provider_capabilities=provider.capabilities, prior=[startup])]
    finally:
        running.stop()
    return results, apply_policy(results, policy, Lane.LOCAL)


def main() -> int:
    """Validate a package; the exit code is 1 if the policy fails it."""
    parser = argparse.ArgumentParser(prog="rlvr-openenv-validate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("package", type=Path)
    parser.add_argument(
        "--processes", action="store_true", help="start the server as a process: for packages that you trust"
    )
    words = parser.parse_args()
    if words.processes:
        provider: Any = Processes()
    else:
        from openenv.validation.providers.docker import DockerValidationProvider

        provider = DockerValidationProvider()
    results, verdict = validate(words.package, provider)
    for result in results:
        print(f"{result.status.value.upper():5} {result.check_id} ({result.duration_s:.1f} s)")
        if result.status is not CheckStatus.PASS:
            print(*(f"      {line}" for line in result.evidence), sep="\n")
    print(f"verdict: {verdict.value}")
    return int(verdict is Verdict.FAIL)


if __name__ == "__main__":
    sys.exit(main())
