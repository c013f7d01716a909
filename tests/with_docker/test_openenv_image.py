"""The Dockerfile that `agentgym package --for openenv` writes, built as it is, without a registry or a network, and run.

Its base image is one of this machine's Debian packages under the base's name; wheels come from the package's own folder.
"""

import io
import json
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import PYTHON

from agentgym.cli import main
from agentgym.registry import make

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
BASE = """
FROM agentgym-test/python
COPY . /tools
RUN python3 /tools/{pip}/pip install --no-index --find-links /tools --break-system-packages pip setuptools wheel
RUN ln -sf python3 /usr/bin/python
ENV PIP_NO_INDEX=1 PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
"""
PLAY = """
import asyncio, json
from openenv.core.generic_client import GenericEnvClient
async def play():
    async with GenericEnvClient(base_url="http://127.0.0.1:8000") as client:
        first = await client.reset(seed=5)
        step = await client.step({"text": "left"})
        return [first.observation["text"], step.observation["text"]]
print(json.dumps(asyncio.run(play())))
"""


def packed(folder: Path) -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        file.add(folder, arcname=".")
    archive.seek(0)
    return archive


def built(client: Any, folder: Path, tag: str) -> Any:
    import docker.errors

    options: dict[str, Any] = {"custom_context": True, "network_mode": "none", "tag": tag, "rm": True, "forcerm": True}
    try:
        return client.images.build(fileobj=packed(folder), **options)[0]
    except docker.errors.BuildError as error:
        raise AssertionError("".join(line.get("stream", "") for line in error.build_log)[-3000:]) from None


def download(folder: Path, *wanted: str) -> None:
    """Put wheels for the Python of this machine's packages into a folder."""
    version = subprocess.run(["/usr/bin/python3", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    kind = ["--only-binary=:all:", "--python-version", ".".join(version.split(".")[:2]), "--find-links", str(folder)]
    folder.mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", *kind, "-d", str(folder), *wanted], check=True, timeout=900
    )


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    import docker

    monkeypatch.chdir(tmp_path)
    assert main(["package", "frozenlake", "--for", "openenv", "--out", "lake"]) == 0
    wheels = tmp_path / "lake" / "wheels"
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run(command, check=True, timeout=600)
    requirements = tomllib.loads((tmp_path / "lake" / "pyproject.toml").read_text())["project"]["dependencies"]
    download(wheels, *requirements, "setuptools>=77", "wheel")
    base = tmp_path / "base"
    download(base, "pip", "setuptools>=77", "wheel")
    (base / "Dockerfile").write_text(BASE.format(pip=next(base.glob("pip-*.whl")).name))
    name = (tmp_path / "lake" / "Dockerfile").read_text().split()[1]
    client = docker.DockerClient(base_url=PYTHON["daemon"], timeout=900)
    images = [built(client, base, name), built(client, tmp_path / "lake", "openenv-image")]
    yield client, images[1]
    for each in reversed(images):
        client.images.remove(each.id, force=True)
    shutil.rmtree(tmp_path / "lake")


def test_openenvs_client_plays_what_the_image_serves(image: Any) -> None:
    client, made = image
    box = client.containers.run(made.id, detach=True, network_mode="none", read_only=True, tmpfs={"/tmp": ""})
    try:
        for _ in range(600):
            if b"Uvicorn running" in box.logs():
                break
            time.sleep(0.2)
        code, output = box.exec_run(["python3", "-c", PLAY])
        assert code == 0, output.decode() + box.logs().decode()
        env = make("frozenlake")
        assert json.loads(output.splitlines()[-1]) == [env.reset(seed=5)[0], env.step("left")[0]]
    finally:
        box.remove(force=True)
