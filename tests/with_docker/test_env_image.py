"""The image of an environment, built from the one Dockerfile, without a registry and without a network, and run."""

import io
import json
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import PYTHON

ROOT = Path(__file__).resolve().parents[2]
ASK = """
import json, urllib.request
def ask(path, body, token):
    headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + token} if token else {})}
    try:
        request = urllib.request.Request("http://127.0.0.1:8000" + path, json.dumps(body).encode(), headers)
        return json.loads(urllib.request.urlopen(request, timeout=30).read())
    except urllib.error.HTTPError as error:
        return error.code
first = ask("/reset", {"seed": 5}, "right")
step = ask("/step", {"session": first["session"], "action": "left"}, "right")
print(json.dumps([first["observation"]["text"], step["observation"]["text"], ask("/reset", {}, "")]))
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image installs, for the Python of this machine's packages, which is the image's."""
    folder = tmp_path_factory.mktemp("wheels")
    version = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = ["pip", "wheel", *project["build-system"]["requires"]]
    wanted += project["project"]["dependencies"] + project["project"]["optional-dependencies"]["serve-env"]
    kind = ["--only-binary=:all:", "--python-version", ".".join(version.split(".")[:2])]
    command = [sys.executable, "-m", "pip", "download", "-q", *kind, "-d", str(folder), "-c", str(ROOT / "constraints.txt")]
    subprocess.run([*command, *wanted], check=True, timeout=600)
    return folder


@pytest.fixture(scope="module")
def image(wheels: Path) -> Any:
    import docker
    import docker.errors

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("Dockerfile", "pyproject.toml", "README.md", "LICENSE", "agentgym"):
            keep = lambda entry: None if "__pycache__" in entry.name else entry  # noqa: E731
            archive.add(ROOT / name, arcname=name, filter=keep)
        archive.add(wheels, arcname="wheels")
    packed.seek(0)
    pip = next(wheels.glob("pip-*.whl")).name
    arguments = {
        "BASE": PYTHON["image"],
        "ENV": "frozenlake",
        "PIP": f"python3 wheels/{pip}/pip",
        "PIP_OPTIONS": "--no-index --find-links wheels --break-system-packages",
    }
    client = docker.DockerClient(base_url=PYTHON["daemon"], timeout=600)
    options: dict[str, Any] = {"buildargs": arguments, "network_mode": "none", "tag": "env-image"}
    try:
        made, _ = client.images.build(fileobj=packed, custom_context=True, **options)
    except docker.errors.BuildError as error:
        raise AssertionError("".join(line.get("stream", "") for line in error.build_log)[-3000:]) from None
    yield client, made
    client.images.remove(made.id, force=True)


def test_it_serves_the_environment_to_those_with_the_token(image: Any) -> None:
    from agentgym.registry import make

    client, made = image
    box = client.containers.run(made.id, detach=True, network_mode="none", environment={"AGENTGYM_TOKEN": "right"})
    try:
        for _ in range(300):
            if b" at http" in box.logs():
                break
            time.sleep(0.2)
        code, output = box.exec_run(["python3", "-c", ASK])
        assert code == 0, output
        env = make("frozenlake")
        first = env.reset(seed=5)[0]
        assert json.loads(output.splitlines()[-1]) == [first, env.step("left")[0], 401]
        box.stop(timeout=60)
        assert box.wait()["StatusCode"] == 0 and b"and 1 open sessions" in box.logs()  # SIGTERM came through
    finally:
        box.remove(force=True)


def test_without_a_token_it_does_not_start(image: Any) -> None:
    client, made = image
    box = client.containers.run(made.id, detach=True, network_mode="none")
    try:
        assert box.wait(timeout=300)["StatusCode"] == 2 and b"AGENTGYM_TOKEN" in box.logs()
    finally:
        box.remove(force=True)
