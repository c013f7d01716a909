"""Images that are pulled from a registry on loopback or built: once, from nowhere that was not named, the oldest removed."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import KIND, PYTHON, URL
from registry import Registry, layer, layers_of

import agentgym
from agentgym.cli import main
from agentgym.errors import BadConfig
from agentgym.sandbox import SandboxFault, sandbox
from agentgym.sandbox.docker import images
from agentgym.sandbox.docker.daemon import connect
from agentgym.sandbox.docker.disk import disk_of_images, stored_bytes

MEGABYTES = 5
pytestmark = pytest.mark.skipif(KIND == "podman", reason="the daemon of the tests takes no registry without TLS")


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as made:
        yield made
        api = connect(URL).client.api
        ids = {image["Id"] for image in api.images() for tag in image["RepoTags"] or () if tag.startswith(made.host)}
        for image in ids:
            with contextlib.suppress(Exception):
                api.remove_image(image, force=True)


@pytest.fixture
def add(registry: Registry) -> Any:
    def made(name: str) -> str:
        return registry.add(name, [layer(x=Random(name).randbytes(MEGABYTES * 1_000_000))])

    return made


def gigabytes() -> float:
    return images._on_disk(connect(URL)) / images.GIGABYTE


def here(name: str) -> bool:
    return images.has(connect(URL), name)


def used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use an image as if its last use were long ago."""
    monkeypatch.setattr(images, "FRESH", -1)
    time.sleep(0.01)
    images.have(connect(URL), name)


def test_an_image_is_pulled_once_from_a_registry_that_was_named(registry: Registry, add: Any, capfd: Any) -> None:
    name, daemon = add("agentgym/once:1"), connect(URL)
    for pull in ("", "docker.io,ghcr.io", f"x{registry.host}"):
        with pytest.raises(BadConfig, match=f"has no image '{name}'.*pull='{registry.host}'"):
            images.have(daemon, name, pull)
    assert registry.paths == []
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: images.have(daemon, name, f"docker.io, {registry.host}")["Id"], range(4)))
    assert len(set(found)) == 1 and sum("blobs" in path for path in registry.paths) == 2  # the config and the layer
    assert capfd.readouterr().err.count(f"pulling {name}: done after") == 1
    request_count = len(registry.paths)
    assert images.have(daemon, name)["Id"] == found[0] and len(registry.paths) == request_count


def test_what_cannot_be_pulled(registry: Registry) -> None:
    for name in ("agentgym/absent:1", f"agentgym/absent@sha256:{'0' * 64}"):
        with pytest.raises(SandboxFault, match=f"{name}' could not be pulled.*manifest"):
            images.have(connect(URL), f"{registry.host}/{name}", registry.host)
    with pytest.raises(SandboxFault, match=r"could not be pulled.*connection refused"):
        images.have(connect(URL), "127.0.0.1:1/x", "127.0.0.1:1")


def test_the_least_recently_used_is_removed_for_room(add: Any, registry: Registry, monkeypatch: Any, capfd: Any) -> None:
    daemon, names = connect(URL), [add(f"agentgym/room{number}:1") for number in range(4)]
    images.make_room(daemon, 0.001)  # of earlier tests
    most = gigabytes() + 2.5 * MEGABYTES / 1000
    for name in names[:2]:
        images.have(daemon, name, registry.host, most)
    used(names[0], monkeypatch)
    images.have(daemon, names[2], registry.host, most)
    assert [here(name) for name in names] == [True, False, True, False]
    assert f"removed image {names[1]}" in capfd.readouterr().err
    container = daemon.client.api.create_container(names[0], ["x"])["Id"]
    images.have(daemon, names[3], registry.host, most)  # a container uses the oldest of those left
    assert [here(name) for name in names] == [True, False, False, True]
    daemon.client.api.remove_container(container)
    with pytest.raises(BadConfig, match=r"has 0\.0 GB packed, and images_gb is 0\.001"):
        images.have(daemon, names[1], registry.host, 0.001)
    images.make_room(daemon, 0.001)
    assert not any(here(name) for name in names) and here(PYTHON["image"])  # which was not pulled here
    assert "none of those left may be removed" in capfd.readouterr().err


def test_an_image_with_a_name_of_its_users_stays(add: Any, registry: Registry) -> None:
    name, daemon = add("agentgym/mine:1"), connect(URL)
    images.have(daemon, name, registry.host)
    daemon.client.api.tag(name, f"{registry.host}/theirs", "1")
    images.make_room(daemon, 0.001)
    assert here(name) and here(f"{registry.host}/theirs:1")


def test_the_disk_space_of_images_counts_shared_layers_once(tmp_path: Path, monkeypatch: Any) -> None:
    daemon = connect(URL)
    (tmp_path / "Dockerfile").write_text("FROM agentgym-test/python\nCOPY more /more\n")
    (tmp_path / "more").write_bytes(Random(1).randbytes(3_000_000))
    name = "agentgym-test/more:disk"
    daemon.client.images.build(path=str(tmp_path), tag=name, rm=True)
    try:
        whole = daemon.client.api.inspect_image(name)["Size"]
        base = daemon.client.api.inspect_image("agentgym-test/python")["Size"]
        names = [name, "agentgym-test/python:latest", name, "no/such:1", "-v /:/x"]
        assert stored_bytes(daemon, names) == (whole, ["no/such:1", "-v /:/x"]) and whole - base >= 3_000_000
        line = disk_of_images(names, {"daemon": URL})
        about = whole / 2 * 2 / 1e9
        assert line.startswith(f"4 images: 2 stored, {whole / 1e9:.1f} GB; 2 to pull, about {about:.1f} GB more; ")
        assert line.endswith(" GB of disk are free")
    finally:
        daemon.client.images.remove(name, force=True)
    assert disk_of_images(["no/such:1"], {"daemon": URL}).startswith(
        "1 image: 0 stored, 0.0 GB; 1 to pull, of unknown size; "
    )
    nowhere = disk_of_images(["a"], {"daemon": f"unix://{tmp_path}/none"})
    assert nowhere.startswith("1 image of unknown size, since no daemon can be asked: ")


def test_the_plan_of_an_evaluation_says_what_its_images_need(capsys: Any) -> None:
    options = ["--env.backend", "docker", "--env.backend_options", json.dumps(PYTHON)]
    assert main(["eval", "terminal", "--policy", "oracle", "--tasks", "3", "--plan", *options]) == 0
    assert "1 image: 1 stored, 0.1 GB; " in capsys.readouterr().out


def test_two_processes_build_an_image_once(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM agentgym-test/python\nRUN sleep 2 && head -c 16 /dev/urandom > /x\n")
    code = (
        "from pathlib import Path; from agentgym.sandbox.docker import images; from agentgym.sandbox.docker.daemon import "
        f"connect; print(images.built(connect({URL!r}), Path({str(tmp_path)!r}), '', 100)['Id'])"
    )
    run = [sys.executable, "-c", code]
    processes = [
        subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert outputs[0][0] == outputs[1][0] and outputs[0][0].startswith("sha256:"), outputs
    assert sum("building the image" in err for _, err in outputs) == 1
    daemon = connect(URL)
    assert any(images._used(tag) for tag in daemon.client.api.inspect_image(outputs[0][0].strip())["RepoTags"])
    images.make_room(daemon, 0.001)
    assert not here(outputs[0][0].strip())


def test_a_task_names_an_image_and_the_caller_the_registry(tmp_path: Path, registry: Registry) -> None:
    layers, config = layers_of(b"".join(connect(URL).client.api.get_image(PYTHON["image"])))
    name = registry.add("agentgym/task:1", layers, config)
    task = tmp_path / "task"
    for path, text in {
        "task.toml": f'[environment]\ndocker_image = "{name}"\nworkdir = "/app"\nnetwork_mode = "no-network"\n',
        "instruction.md": "Write 1 to /app/out.\n",
        "tests/test.sh": "cp /app/out /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "echo 1 > /app/out\n",
    }.items():
        (task / path).parent.mkdir(parents=True, exist_ok=True)
        (task / path).write_text(text)
    options: Any = {"path": str(task), "backend_options": {"daemon": URL}}
    env = agentgym.make("rlvr/Harbor-v0", **options)
    with pytest.raises(BadConfig, match=r"--env\.pull"):
        env.reset(seed=0)
    env.close()
    env = agentgym.make("rlvr/Harbor-v0", pull=registry.host, images_gb=100, **options)
    env.reset(seed=0)
    paid = 0.0
    for action in env.oracle():
        paid += float(env.step(action)[1])
    assert paid == 1
    env.close()


@pytest.mark.parametrize(
    "name",
    [
        *("../containers/x", "a/../../containers/json", "a?b=c", "a b", "-v", "a\nRUN x", "http://h/x", "h:99999999/x", "A"),
        *("a@sha256:0", "a:", "a:.x", "/a", "a//b", "x" * 600, "é", "a#b", "a%2e%2e/b", "127.0.0.1:5000/../x"),
    ],
)
def test_a_text_that_is_no_name_never_reaches_the_daemon(name: str) -> None:
    assert not images.is_name(name)
    with pytest.raises(BadConfig, match="image is "):
        sandbox("docker", image=name, daemon=URL, pull="docker.io")


def test_names_and_their_registries() -> None:
    for name, host in {
        "python:3.12-slim": "docker.io",
        "swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest": "docker.io",
        "docker.io/library/python": "docker.io",
        "index.docker.io/a/b": "docker.io",
        "ghcr.io/a/b-c_d.e__f:1.0@sha256:" + "a" * 64: "ghcr.io",
        "localhost/x": "localhost",
        "Host/x": "Host",
        "10.0.0.1:5000/x": "10.0.0.1:5000",
    }.items():
        assert images.is_name(name) and images.registry_of(name) == host
    for pull in (True, "http://x", "a/b", ","):
        with pytest.raises(BadConfig, match="pull is"):
            sandbox("docker", image="x", daemon=URL, pull=pull)  # pyright: ignore[reportArgumentType]
    for most in (0, -1, True, "1", float("nan")):
        with pytest.raises(BadConfig, match="images_gb is"):
            sandbox("docker", image="x", daemon=URL, images_gb=most)  # pyright: ignore[reportArgumentType]


def test_a_training_plan_names_the_disk_space_of_its_images() -> None:
    from agentgym.cli.image_disk import training_images
    from agentgym.trainers.config.train_config import TrainConfig

    def lines(**options: Any) -> list[str]:
        return training_images(TrainConfig(env="rlvr/Terminal-v0", env_options=options))

    options = {"image": "agentgym-test/python", "daemon": URL}
    (line,) = lines(backend="docker", backend_options=options)
    assert line.startswith("rlvr/Terminal-v0: 1 image: 1 stored, 0.") and line.endswith(" GB of disk are free")
    assert lines(backend="bubblewrap") == []
