"""docs/api.py: every public name with its signature."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("api", ROOT / "docs" / "api.py")
api = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(api)
FORWARD = {"make", "register", "register_foreign", "check", "engine", "resolve", "serve"}
FORWARD |= {"Session", "SandboxEnv", "TextEnv", "McpEnv", "Attempts", "BrowserEnv"}
"""What hands options on to something that checks them by name and value: an environment, an engine, a credit function."""
PARTS = ["agentgym", "agentgym.evaluate", "agentgym.sandbox", "agentgym.browser", "agentgym.retrieval"]


@pytest.mark.parametrize("module", PARTS)
def test_what_is_read_from_the_code_is_what_is_exported(module):
    exported = {name for name in importlib.import_module(module).__all__ if not name.startswith("_")}
    assert set(api.public(module)) == exported
    assert all(api.define(module, name) for name in exported)


def test_every_public_name_says_what_it_is_for():
    for module in api.MODULES:
        for name in api.public(module):
            found = api.define(module, name)
            assert found, f"{module}.{name} is defined nowhere in the package"
            if hasattr(found.node, "body"):
                assert api.first_line(found.node), f"{module}.{name} has no docstring"


def test_signatures_are_visible():
    """No public function takes `**options: Any`, but those that hand options on."""
    hidden = set()
    for module in api.MODULES:
        for name in api.public(module):
            if re.search(r"\*\*\w+: (Any|object)\b", api.signature(api.define(module, name), name)):
                hidden.add(name)
    assert hidden == FORWARD


def test_public_functions_leave_no_type_open():
    """No function or method has `Any` in its signature; the two fields that have it hold what their owner alone knows."""
    entries = [line.strip() for line in api.page().splitlines() if line.strip().startswith("- `")]
    signatures = [entry.removeprefix("- `").partition("`")[0] for entry in entries]
    assert len(signatures) > 300
    assert {text.partition("(")[0] for text in signatures if re.search(r"\bAny\b", text)} == {"Task", "Turn"}
    fields = [name for text in signatures for name in re.findall(r"(\w+): [^:=]*\bAny\b", text)]
    assert sorted(fields) == ["data", "extra"]  # an environment's own values, and arrays that stages put into turns


def test_what_the_documentation_imports_is_public():
    """Code in the pages, the README and the examples imports from public modules alone."""
    pages = [*ROOT.glob("docs/[!m]*/*.md"), ROOT / "README.md"]
    code = "\n".join(block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    imports = re.findall(r"^\s*from (agentgym[\w.]*) import ([\w, ]+)", code, re.MULTILINE)
    named = {(module, name) for module, names in imports for name in re.split(r",\s*", names.strip())}
    assert len(named) > 10
    named -= {pair for pair in named if ".".join(pair) in api.MODULES}
    named -= {
        pair for pair in named if pair[0].startswith("agentgym.integrations.")
    }  # whose page is docs/guides/integrations.md
    private = {f"{module}.{name}" for module, name in named if module not in api.MODULES or name not in api.public(module)}
    assert not private


def test_a_hand_made_module(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        'from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Point:\n    """A place."""\n    x: int\n'
        '    y: int = 0\n    def far(self, by: float) -> "Point":\n        """Go."""\n    def _near(self): ...\n\n'
        'async def go(at: Point, *, fast: bool = False) -> None:\n    """Go there:\n    at once."""\n\ndef _hidden(): ...\n'
    )
    monkeypatch.setattr(api, "ROOT", tmp_path)
    monkeypatch.setattr(api, "MODULES", ("mine",))
    api.tree.cache_clear()
    assert api.public("mine") == ["Point", "go"]
    assert api.signature(api.define("mine", "Point"), "Point") == "Point(x: int, y: int = 0)"
    assert api.methods(api.define("mine", "Point")) == ["    - `.far(by: float) -> 'Point'`: Go."]
    assert "- `async go(at: Point, *, fast: bool=False) -> None`: Go there: at once." in api.page()
    api.tree.cache_clear()


def test_the_script_needs_nothing_but_python():
    """Run without the packages of the environment, it makes the same page."""
    body = ast.parse((ROOT / "docs" / "api.py").read_text()).body
    names = {node.names[0].name for node in body if isinstance(node, ast.Import)}
    names |= {node.module for node in body if isinstance(node, ast.ImportFrom)}
    assert names == {"ast", "collections.abc", "dataclasses", "functools", "pathlib"}
