"""Programming tasks: families that are generated without end, and files of benchmarks."""

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
"""A module each, with a `FAMILY` in it."""


def family(name: str) -> ProgramFamily:
    """Return a family by name."""
    return importlib.import_module(f"{__name__}.{name}").FAMILY


def read(statement: str) -> ProgramSpec | None:
    """Return what a generated statement says, as one reads it who knows the families' sentences; None for other text."""
    return next((plan for name in FAMILIES if (plan := family(name).read(statement))), None)


__all__ = ["FAMILIES", "Draft", "ProgramFamily", "ProgramSpec", "family", "read"]
