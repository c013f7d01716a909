"""Vocabulary for the shop's scoring and for its generated products, read from `lexicon.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """A kind of product, such as a pan."""

    path: str
    """Category path; `{group}` stands for one of `groups`."""
    groups: tuple[str, ...]
    types: tuple[str, ...]
    attributes: tuple[str, ...]
    options: dict[str, tuple[str, ...]]
    """Option name -> possible values."""


@dataclass(frozen=True)
class Lexicon:
    """Colors, words that are not nouns, brands, and kinds of products."""

    colours: tuple[str, ...]
    """Colors, in the order in which they are matched."""
    no_nouns: frozenset[str]
    brands: tuple[str, ...]
    kinds: dict[str, Kind]


@cache
def lexicon() -> Lexicon:
    """Return the vocabulary; the file is read once."""
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
