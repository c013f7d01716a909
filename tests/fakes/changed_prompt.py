"""A protocol whose prompt was changed by a word."""

from pathlib import Path

import pytest

from agentgym.agents.prompt import path_of
from agentgym.errors import BadConfig
from agentgym.evaluate.suite import read_suite, suites


def refused(name: str, old: str, new: str, folder: Path) -> None:
    """Copy a protocol and its prompt into a folder with one text in it replaced, and see it refused."""
    path, text = suites()[name], path_of(name).read_text(encoding="utf-8")
    assert old in text
    suite = path.read_text(encoding="utf-8").replace(f'prompt = "{name}"', f'prompt = "{name}.txt"')
    (folder / path.name).write_text(suite, encoding="utf-8")
    (folder / f"{name}.txt").write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadConfig, match="prompt_hash is"):
        read_suite(folder / path.name)
