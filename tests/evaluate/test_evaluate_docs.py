"""The pages on episodes and evaluation: their programs run, and every field of the format is described."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym import Episode, Turn

DOCS = Path(__file__).resolve().parents[2] / "docs" / "guides"


@pytest.mark.parametrize("name", ["evaluate.md", "episodes.md"])
def test_the_programs_on_the_page_run(name: str, tmp_path: Path):
    programs = re.findall(r"^```python\n(.*?)^```", (DOCS / name).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert programs
    for program in programs:
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_field_of_the_file_is_described():
    described = set(re.findall(r"`(\w+)`", (DOCS / "episodes.md").read_text(encoding="utf-8")))
    fields = {f.name for kind in (Episode, Turn) for f in dataclasses.fields(kind)}
    assert fields <= described
