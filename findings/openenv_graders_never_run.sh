#!/bin/sh
# OpenEnv's validation loads no grader of the entry-point group that it documents for them, and executes no semantic grader.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openenv==0.10.0
site=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir "$site/probe_graders-1.dist-info" "$folder/package"
printf 'Metadata-Version: 2.1\nName: probe-graders\nVersion: 1\n' >"$site/probe_graders-1.dist-info/METADATA"
printf '[openenv.validation.graders]\none = probe_graders:Runtime\ntwo = probe_graders:Semantic\n' >"$site/probe_graders-1.dist-info/entry_points.txt"
cat >"$site/probe_graders.py" <<'END'
from openenv.validation.report import CheckResult
from openenv.validation.types import CheckStatus, Level


class Runtime:
    check_id, level = "runtime.seed_control", Level.RUNTIME
    requires_capabilities, requires_provider, depends_on = frozenset(), frozenset(), ()

    def applies_to(self, manifest):
        return True

    def run(self, subject):
        return CheckResult(check_id=self.check_id, status=CheckStatus.PASS, duration_s=0)


class Semantic(Runtime):
    check_id, level = "semantic.oracle_max", Level.SEMANTIC
END
cat >"$folder/package/openenv.yaml" <<'END'
name: probe
validation:
  reward: {floor_margin: 0.5}
  resources: {cpu: 1, memory_mb: 64, disk_mb: 64, episode_timeout_s: 60}
  capabilities: {verifier: {kind: reward_channel}}
  types: {tags: [probe]}
  execution: {probe_path: plan.json}
END
echo '{"plan_schema_version": "1", "reset": {"episode_id": "a", "seed": 1}, "actions": [{"text": "x"}]}' >"$folder/package/plan.json"
cat >"$folder/probe.py" <<'END'
import sys
from importlib.metadata import version
from pathlib import Path

import uvicorn, socket, threading
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.validation import Level, load_policy, run_validation
from openenv.validation import runner
from openenv.validation.types import ProviderCapability


class Say(Action):
    text: str


class Echo(Environment[Say, Observation, State]):
    def reset(self, seed=None, episode_id=None, **_):
        self.id, self.steps = episode_id, 0
        return Observation()

    def step(self, action, timeout_s=None, **_):
        self.steps += 1
        return Observation(reward=0.0)

    @property
    def state(self):
        return State(episode_id=self.id, step_count=self.steps)


class Local:
    name, capabilities, supported_network_modes = "local", frozenset({ProviderCapability.IMAGE_BUILD}), frozenset({"public"})

    def build(self, root, execution):
        return "sha256:" + "0" * 64

    def start(self, spec):
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        self.server = uvicorn.Server(uvicorn.Config(create_fastapi_app(Echo, Say, Observation), log_level="error"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [bound]})
        self.thread.start()
        self.base_url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        return self

    def inspect(self):
        return {}

    def stop(self):
        self.server.should_exit = True
        self.thread.join()


def results():
    report = run_validation(Path(sys.argv[1]), max_level=Level.SEMANTIC, provider=Local())
    return {r.check_id: f"{r.status.value} ({r.evidence[0] if r.evidence else ''})" for r in report.results}


first = results()
made = runner.default_grader_registry


def loaded(policy):
    registry = made(policy)
    registry.load_entry_points()
    return registry


runner.default_grader_registry = loaded
second = results()
print("openenv", version("openenv"))
print("expected: pass for runtime.seed_control and semantic.oracle_max, which an installed grader answers with pass")
print("seen: runtime.seed_control:", first["runtime.seed_control"])
print("seen: semantic.oracle_max, with the entry points loaded by hand:", second["semantic.oracle_max"])
same = first["runtime.seed_control"].startswith("skip (grader not implemented") and second["runtime.seed_control"].startswith("pass")
sys.exit(not (same and second["semantic.oracle_max"].startswith("skip")))
END
"$folder/venv/bin/python" "$folder/probe.py" "$folder/package"
