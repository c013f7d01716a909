"""The suite that every sandbox passes, in containers with Python."""

# ruff: noqa: F401, F811

import dataclasses
import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_sandboxes
from conftest import FOLDER, PYTHON, SHELL
from nasty import PROGRAMS, Nasty
from test_sandboxes import (
    LIMITS,
    facts,
    test_a_kernel_that_lies_about_itself,
    test_files,
    test_kernel_keeps_its_variables,
    test_kernel_limits,
    test_nothing_of_the_caller_and_the_same_every_time,
    test_snapshot_and_restore,
    test_streams_input_and_codes,
)

from agentgym.sandbox import sandbox
from agentgym.sandbox.docker.sandbox import Docker

test_sandboxes.BACKENDS["docker"] = PYTHON
PODMAN = {"50,000 files": {"ends": ("killed",), "says": ""}}
"""Podman bounds no number of files, so a program that makes too many is ended; docs/guides/sandbox.md says so."""


@pytest.fixture(scope="module")
def box() -> Iterator[Any]:
    made: Any = sandbox("docker", limits=LIMITS, **PYTHON)
    made.name = "docker"
    yield made
    made.close()


@pytest.mark.parametrize("nasty", PROGRAMS, ids=lambda nasty: nasty.name)
def test_nasty(box: Any, nasty: Nasty, facts: dict[str, Any]) -> None:
    exception = PODMAN.get(nasty.name, {}) if box.daemon.podman else {}
    test_sandboxes.test_nasty(box, dataclasses.replace(nasty, **exception), facts)


def test_neighbours_do_not_meet() -> None:
    test_sandboxes.test_neighbours_do_not_meet("docker")


def test_nothing_is_left_of_many(box: Any) -> None:
    def resources() -> tuple[int, list[str], int]:
        gc.collect()  # connections to the daemon that earlier tests let go of
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if FOLDER in line]
        counts = [int(box.run("ls /proc | grep -c '^[0-9]'").stdout) for _ in range(5)]
        return len(list(Path("/proc/self/fd").iterdir())), mounts, min(counts)  # one that ends just now is still listed

    before = resources()
    for _ in range(30):
        assert box.python("import os; os.fork(); print(1)").ok
    deadline = time.monotonic() + 60
    while (after := resources()) != before and time.monotonic() < deadline:
        time.sleep(0.5)  # on a busy machine a program that has ended is listed for a while
    assert after == before


@pytest.mark.parametrize("image", [PYTHON, SHELL], ids=["python", "shell"])
def test_a_shell_of_an_image_without_utf8_does_not_warn(image: dict[str, Any]) -> None:
    """The tests' images have no locale C.UTF-8, of which every bash would complain first."""
    with Docker(**image) as box:
        assert box.run("exec bash -c 'echo $LC_ALL $LANG'").text == "C C\n"
    with Docker(**image, environment={"LC_ALL": "POSIX"}) as box:
        assert box.run("exec sh -c 'echo $LC_ALL'").text == "POSIX\n"
