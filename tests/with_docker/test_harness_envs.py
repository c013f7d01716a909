"""A harness in the environments beside Terminal: a recorded solution solves the task, and nothing that judges is there.

The harness is the tests' own, and mini-swe-agent where AGENTGYM_HARNESS_IMAGE names an image to install it in.
"""

import asyncio
import importlib.util
import io
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
from conftest import PYTHON, URL
from native_talks import SOURCES, SURVEY
from test_harbor import SOLVE, write
from test_harnesses import BESIDE_OWN, IMAGE, INSTALL, OWN, scripted

from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.swe.tasks.pytest_run import PACKAGES
from agentgym.harness.agent import HarnessAgent
from agentgym.harness.description import load
from agentgym.registry import make
from agentgym.trainers.data.segments import build

LOOK = "ls -A /tests /solution /testbed 2> /dev/null; grep -rlF -D skip -e {} . 2> /dev/null"
HARBOR, SWE, CODE = "rlvr/Harbor-v0", "rlvr/SWE-v0", "rlvr/Code-v0"


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Make an image with pytest, in which a harness can be installed."""
    import docker

    context = io.BytesIO()
    packages = io.BytesIO()
    with tarfile.open(fileobj=packages, mode="w") as archive:
        for name in {*PACKAGES, "py"}:
            found = importlib.util.find_spec(name)
            assert found and found.origin
            place = Path(found.origin)
            place = place.parent if place.name == "__init__.py" else place
            archive.add(place, f"usr/lib/python3/dist-packages/{place.name}", filter=without_caches)
    with tarfile.open(fileobj=context, mode="w") as archive:
        lines = f"FROM {IMAGE or PYTHON['image']}\nADD packages.tar /\n"
        for name, body in (("Dockerfile", lines.encode()), ("packages.tar", packages.getvalue())):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    context.seek(0)
    client = docker.DockerClient(base_url=URL, timeout=300)
    client.images.build(fileobj=context, custom_context=True, tag="agentgym-test/harness-envs", rm=True)
    yield "agentgym-test/harness-envs"
    client.images.remove("agentgym-test/harness-envs", force=True)


def without_caches(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    return None if "__pycache__" in member.name else member


def solution(env_id: str, env: Any, task: Any) -> tuple[list[str], str]:
    """Return the commands that solve a task, and a text of its hidden tests."""
    env.reset(seed=0, options={"task": task})
    inner = env.unwrapped
    if env_id == HARBOR:
        return [SOLVE.replace('cp "$(dirname "$0")/greeting.txt"', "echo 'Hello, world!' >")], "assert pathlib.Path"
    if env_id == CODE:
        hidden = str(task.data["hidden"][0][0]).strip("[]")
        return [f"cat > solution.py <<'END'\n{task.data['reference']}\nEND"], hidden
    commands: list[str] = []
    for action in inner.oracle():
        if "SUBMIT" in action:
            break
        commands.append(action.removeprefix("bash[").removesuffix("]"))
        env.step(action)
    return commands, "def " + inner.item.fail_to_pass[0].partition("::")[2].partition("[")[0]


@pytest.mark.parametrize("name", ["own", *BESIDE_OWN])
@pytest.mark.parametrize("env_id", [SWE, CODE, HARBOR])
def test_a_recorded_solution_solves_a_task(env_id: str, name: str, image: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(OWN)
    harness = load(f"harness:{name if name != 'own' else tmp_path / 'own.toml'}")
    options: dict[str, Any] = {"backend_options": {**PYTHON, **INSTALL, "image": image}}
    if env_id == HARBOR:
        folder = write(tmp_path / "hello")
        toml = folder / "task.toml"
        toml.write_text(toml.read_text().replace(PYTHON["image"], image))
        options = {"path": str(folder), "backend_options": {"daemon": URL, **INSTALL}}
    elif env_id == SWE:
        options["toolset"] = "bash"
    with make(env_id, **({"backend": "docker"} | options)) as env:
        (task,) = env.tasks(1)
        commands, hidden = solution(env_id, env, task)
    steps = [LOOK.format(shlex.quote(hidden)), *commands]

    tokenizer = None if name == "own" else SURVEY.tokenizer_for(SOURCES["qwen2_5"])
    engine = ScriptedEngine(scripted(name, steps), tokenizer)
    agent = HarnessAgent(None, engine, engine.tokenizer, 1.0, 8192, 60.0, harness=harness, options=options)
    try:
        (episode,) = asyncio.run(agent.collect(env_id, tasks=[task], attempts=1, concurrency=1))
    finally:
        agent.close()
    assert episode.success, (episode.error, episode.reason, [turn.observation[-300:] for turn in episode.turns[1:]])
    looked = episode.turns[1].observation
    assert "(nothing)" in looked if name == "own" else "/" not in looked.partition("<output>")[2], looked
    keys = [turn.state_key for turn in episode.turns]
    assert keys[0] == keys[1] != keys[-1] and episode.metrics["drifted_tokens"] == 0
    assert len(build([episode])) == episode.metrics["rows"] == 1


def test_python_in_the_shell_of_a_repository_is_that_of_the_image(image: str) -> None:
    """The programs that SWE puts first in PATH find the image's Python, not themselves."""
    with make(SWE, backend="docker", backend_options={**PYTHON, "image": image}, toolset="bash") as env:
        env.reset(seed=0, options={"task": env.tasks(1)[0]})
        text = env.step(
            "bash[python -c 'import sys; print(sys.executable)'; python3 -m pytest --version; pytest --version]"
        )[0]
    assert "/usr/bin/python3" in text and text.count("pytest ") == 2, text
