"""Families of generated programming tasks."""

import importlib

from agentgym.envs.code.families.family import Draft, ProgramFamily, ProgramSpec

FAMILIES = (
    "strings",
    "lists",
    "dictionaries",
    "numbers",
    "dates",
    "graphs",
    "dynamic",
    "parsing",
    "simulation",
    "geometry",
    "bits",
    "classes",
)
"""Names of the families; each is a module of this package that defines `FAMILY`."""


def family(name: str) -> ProgramFamily:
    """Return a family by name."""
    return importlib.import_module(f"{__name__}.{name}").FAMILY


def read(statement: str) -> ProgramSpec | None:
    """Return the specification of a generated statement, parsed by the families' sentences; None for any other text."""
    return next((plan for name in FAMILIES if (plan := family(name).read(statement))), None)


__all__ = ["FAMILIES", "Draft", "ProgramFamily", "ProgramSpec", "family", "read"]
