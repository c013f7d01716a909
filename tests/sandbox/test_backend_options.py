"""What a sandbox takes is written once as types and once as fields: they are the same."""

import dataclasses
from typing import get_type_hints

import pytest

from agentgym.errors import BadConfig, UnknownName
from agentgym.sandbox import sandbox
from agentgym.sandbox.docker.container import ContainerSpec
from agentgym.sandbox.protocol import BackendOptions, ContainerOptions


def test_the_options_of_a_container_are_its_fields():
    assert set(get_type_hints(ContainerOptions)) == {entry.name for entry in dataclasses.fields(ContainerSpec)}
    assert get_type_hints(ContainerOptions) == get_type_hints(ContainerSpec)
    assert set(get_type_hints(BackendOptions)) == {*get_type_hints(ContainerOptions), "unsafe"}


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match="bubblewrap"):
        sandbox("bublewrap")
    with pytest.raises((BadConfig, LookupError), match="image"):
        sandbox("docker", imag="python:3.12-slim")  # type: ignore[call-arg]
    with pytest.raises(BadConfig, match="unsafe=True"):
        sandbox("process")
