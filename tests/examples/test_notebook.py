"""The notebook's cells run in order inside a running event loop, as Jupyter runs them."""

import ast
import asyncio  # noqa: F401  # the process below runs the cells by it
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "first_hour.ipynb"


async def run_cells(cells: list[str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        result = eval(compile(cell, f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.iscoroutine(result):
            await result


@pytest.mark.long
def test_the_first_hour_runs(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in notebook["cells"]), "outputs of one machine do not belong into the file"
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import json, test_notebook as t; "
    program += "t.asyncio.run(t.run_cells(json.load(sys.stdin)))"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, cwd=tmp_path, input=json.dumps(code), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    for expected in ("Nothing happens.", "success True", "different states after 5 commands", "ExpertAgent 100.0 %"):
        assert expected in done.stdout, done.stdout
    first, second = (
        json.loads(line.replace("'", '"')) for line in re.findall(r"^{'success_before.*", done.stdout, re.MULTILINE)
    )
    assert first["success_before"] == 0 < first["success_sft"] < first["success_after"] and second["success_after"] > 0
    assert (tmp_path / "runs/first_hour/metrics.jsonl").exists()
