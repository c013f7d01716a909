"""What the documentation shows is run: every block of Python, and every command as far as its flags are read.

The blocks of a page run in order in one process, as a reader would paste them. Two comments, which no reader sees, stand
right before a block: `<!-- first: CODE -->` is run before it, and `<!-- not run: WHY -->` leaves it out.
"""

import ast
import contextlib
import inspect
import io
import json
import linecache
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.browser.chromium import chromium
from agentgym.cli import _read
from agentgym.errors import BadConfig

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / "README.md", ROOT / "AGENTS.md"),
    *sorted((ROOT / "docs").glob("[!m]*/*.md")),
    *sorted((ROOT / "results").glob("*.md")),
]
PYTHON = re.compile(r"((?:^<!-- (?:first|not run):.*?-->\n)*)^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```(?:console|sh|bash)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*agentgym (.*)", re.MULTILINE)
ELSEWHERE = {
    "integrations.md": "tests/integrations/test_integrations_page.py runs it",
    "serve.md": "tests/env_server/test_serve_md.py runs it",
}
SLOW = {"scienceworld.md", "textworld.md", "train.md"}
"""Pages whose blocks take ten seconds and more."""
BROWSER = {"web.md", "browser.md"}


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return (why it is not run, what is run first, block) for each block of Python of a page."""
    found = []
    for comments, block in PYTHON.findall(page.read_text(encoding="utf-8")):
        notes = dict(re.findall(r"^<!-- (first|not run):(.*?)-->$", comments, re.MULTILINE | re.DOTALL))
        found.append((notes.get("not run", "").strip(), inspect.cleandoc(notes.get("first", "")), block))
    return found


def play(name: str, listed: list[tuple[str, str, str]]) -> None:
    """Run the blocks of a page, as a process of its own does."""
    import asyncio

    names: dict[str, object] = {"__name__": "__main__"}
    for number, (why, first, block) in enumerate(listed):
        for part, code in (("first", first), ("block", block)) if not why else ():
            file = f"{name} {part} {number}"
            linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
            result = eval(compile(code, file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
            if inspect.iscoroutine(result):
                asyncio.run(result)


def pages():
    for page in PAGES:
        if page.name not in ELSEWHERE and any(not why for why, *_ in blocks(page)):
            yield pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else [])


@pytest.mark.long
@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    if page.name in BROWSER and chromium() is None:
        pytest.skip("needs a Chromium: apt install chromium")
    program = f"import json, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_docs_blocks as t; "
    program += f"t.play({page.name!r}, json.load(sys.stdin))"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, input=json.dumps(blocks(page)), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_is_not_run_says_why() -> None:
    left = {f"{page.name} {i}": why for page in PAGES for i, (why, *_) in enumerate(blocks(page)) if why}
    assert all(why.startswith(("needs ", "downloads ", "serves ")) for why in left.values()), left


def commands() -> list[tuple[str, str]]:
    """Return (page, command) for each `agentgym …` that a page shows."""
    commands_found = []
    for page in PAGES:
        for block in CONSOLE.findall(page.read_text(encoding="utf-8")):
            for command in COMMAND.findall(block.replace("\\\n", " ")):
                commands_found.append((page.name, re.split(r" {2,}|\s#| [|>&]", command.replace(" …", ""))[0]))
    return commands_found


@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_are_read_as_they_stand(page: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            _read(shlex.split(command))
        except SystemExit as end:  # --help
            assert not end.code
        except BadConfig as error:  # what the reader has made by then: a file or a run
            assert re.search(r"holds no run|own\.toml: cannot be read|no run in ", str(error)), error
