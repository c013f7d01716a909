"""A protocol whose prompt was changed by a word."""

from pathlib import Path

import pytest

from agentgym.errors import BadConfig
from agentgym.evaluate.suite import read_suite, suites


def refused(name: str, old: str, new: str, folder: Path) -> None:
    """Copy a protocol and its prompt into a folder with one text in it replaced, and see it refused."""
    path = suites()[name]
    text = path.with_suffix(".txt").read_text(encoding="utf-8")
    assert old in text
    (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / path.with_suffix(".txt").name).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadConfig, match="prompt_hash is"):
        read_suite(folder / path.name)
