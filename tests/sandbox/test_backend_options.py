"""What a sandbox takes is written once as types and once as fields: they are the same."""

import dataclasses
import os
from typing import Any, get_type_hints

import pytest

from agentgym.errors import BadConfig, UnknownName
from agentgym.sandbox import sandbox
from agentgym.sandbox.docker.container import ContainerSpec
from agentgym.sandbox.protocol import BackendOptions, ContainerOptions


def test_the_options_of_a_container_are_its_fields():
    assert set(get_type_hints(ContainerOptions)) == {entry.name for entry in dataclasses.fields(ContainerSpec)}
    imported_late = {"beside": Any}  # the protocol does not load the docker backend for its type
    assert get_type_hints(ContainerOptions) == get_type_hints(ContainerSpec) | imported_late
    assert set(get_type_hints(BackendOptions)) == {*get_type_hints(ContainerOptions), "unsafe"}


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match="bubblewrap"):
        sandbox("bublewrap")
    with pytest.raises((BadConfig, LookupError), match="image"):
        sandbox("docker", imag="python:3.12-slim")  # type: ignore[call-arg]
    with pytest.raises(BadConfig, match="unsafe=True"):
        sandbox("process")


def test_users_of_the_process_sandbox():
    """Each sandbox of the user `own` has another, and its working folder is closed to the others."""
    for user in (-1, True, "somebody", 1.5):
        with pytest.raises(BadConfig, match="expected a number or 'own'"):
            sandbox("process", unsafe=True, user=user)  # type: ignore[call-arg]
    if os.geteuid() != 0:
        with pytest.raises(BadConfig, match="for root alone"):
            sandbox("process", unsafe=True, user="own")
        return
    one, other = (sandbox("process", unsafe=True, user="own") for _ in range(2))
    try:
        first, second = (int(box.run("echo text > file; id -u").text) for box in (one, other))
        assert first != second and 0 not in (first, second)
        assert one.run(f"cat {one.work}/file").text == "text\n"
        assert not other.run(f"cat {one.work}/file").ok
        assert not other.run("cat /proc/$PPID/environ").ok
    finally:
        one.close()
        other.close()
