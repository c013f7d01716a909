"""Vocabulary of the shop's scoring and its generated products (`lexicon.toml`)."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A kind of product."""

    path: str
    """Category path; `{group}` is one of `groups`."""
    groups: tuple[str, ...]
    types: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    """Values by option name."""


@dataclass(frozen=True)
class Lexicon:
    """The whole vocabulary."""

    colours: tuple[str, ...]
    """In matching order."""
    no_nouns: frozenset[str]
    brands: tuple[str, ...]
    kinds: dict[str, Kind]


@cache
def lexicon() -> Lexicon:
    """Return the vocabulary, read once."""
    raw = tomllib.loads(Path(str(files("agentgym.envs.shop") / "lexicon.toml")).read_text(encoding="utf-8"))
    kinds = {
        name: Kind(
            table["path"],
            _parted(table["groups"]),
            _parted(table["types"]),
            _parted(table["attributes"]),
            {option: tuple(values.split("/")) for option, values in table["options"].items()},
        )
        for name, table in raw["kinds"].items()
    }
    return Lexicon(tuple(raw["colours"].split()), frozenset(raw["no_nouns"].split()), tuple(raw["brands"].split()), kinds)


def _parted(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(","))
