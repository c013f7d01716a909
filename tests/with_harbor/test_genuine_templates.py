"""Every task folder in the wheel and the sdist of harbor 0.26.0: templates. Read by harbor and us; one can be played."""

import os
import shutil
import subprocess
from pathlib import Path

import harbor
import pytest
from harbor.models.task.task import Task
from test_genuine_folders import genuine, ours

from agentgym.envs.terminal.harbor.files import load
from agentgym.errors import BadData

ROOT = Path(str(harbor.__file__)).parent
ADAPTER = "cli/template-adapter/task-template"
TEMPLATES = {
    "cli/template-task": "instruction.md is empty",
    ADAPTER: "",
    "cli/annotator/annotate-task-template": "instruction.md is missing",
    "analyze/analyze-task-template": "instruction.md is missing",
    "analyze/check-task-template": "instruction.md is missing",
}
"""Each with why it is no task yet."""


def test_these_are_all():
    assert {str(file.parent.relative_to(ROOT)) for file in ROOT.rglob("task.toml")} == set(TEMPLATES)


def named(folder: Path) -> None:
    toml = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(toml.replace("TODO_ORG/{{ADAPTER_ID}}__{task_id}", "me/t"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_is_no_task_yet(name, tmp_path):
    """A template that gets an instruction and a name is a task, which harbor and we read alike."""
    folder = Path(shutil.copytree(ROOT / name, tmp_path / "t"))
    if TEMPLATES[name]:
        with pytest.raises(BadData, match=TEMPLATES[name]):
            load(folder)
        (folder / "instruction.md").write_text("Do it.\n")
    named(folder)
    theirs, (task,) = Task(folder), load(folder).values()
    assert task.instruction == theirs.instruction.strip()
    config = theirs.config
    assert task.place.image == (config.environment.docker_image or "")
    assert (task.steps[0].verifier.seconds, task.steps[0].seconds) == (config.verifier.timeout_sec, config.agent.timeout_sec)
    assert [artifact.source for artifact in task.steps[0].artifacts] == [
        artifact if isinstance(artifact, str) else artifact.source for artifact in config.artifacts
    ]


@pytest.mark.slow
def test_the_adapters_template_gives_the_same_rewards(tmp_path, monkeypatch):
    """Its base is made here under the public name, with an `apt-get` that installs nothing: git is there."""
    monkeypatch.setenv("DOCKER_BUILDKIT", "0")
    (tmp_path / "base").mkdir()
    (tmp_path / "base/Dockerfile").write_text(
        "FROM agentgym-test/python\n"
        "RUN printf '#!/bin/sh\\n' > /usr/bin/apt-get && chmod 755 /usr/bin/apt-get && command -v git\n"
    )
    build = ["docker", "build", "--quiet", "--tag", "python:3.13-slim", tmp_path / "base"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    folder = Path(shutil.copytree(ROOT / ADAPTER, tmp_path / "tasks/t"))
    named(folder)
    for agent in ("oracle", "nop"):  # its tests succeed whatever was done
        assert genuine(tmp_path / "tasks", agent, tmp_path / agent) == {"me/t": 1.0}
        assert ours(tmp_path / "tasks", "t", agent) == 1
