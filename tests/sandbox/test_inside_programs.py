"""Programs that run inside containers by themselves, in whatever Python an image has."""

import ast
import os
import shutil
import sys
from pathlib import Path

import pytest

from agentgym.sandbox.inside import state

FOLDER = Path(state.__file__).parent
ALONE = ("state", "proxy", "relay", "files", "archive")
"""Run without a `__future__` import of annotations, unlike what process 1 is made of."""


@pytest.mark.parametrize("name", ALONE)
def test_annotations_are_read_by_python_3_8(name):
    """Neither `X | None` nor `list[X]` outside of quotes: 3.8 evaluates annotations, and has neither."""
    for node in ast.walk(ast.parse((FOLDER / f"{name}.py").read_text())):
        signature = isinstance(node, ast.FunctionDef)
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs] if signature else []
        found = [node.returns, *(argument.annotation for argument in arguments)] if signature else []
        for part in [part for annotation in found if annotation for part in ast.walk(annotation)]:
            assert not isinstance(part, ast.BinOp), ast.unparse(node)[:200]
            builtin = isinstance(part, ast.Subscript) and getattr(part.value, "id", "") in ("list", "dict", "tuple", "set")
            assert not builtin, ast.unparse(node)[:200]


def test_a_second_name_of_a_file_is_no_copy(tmp_path):
    """What a program writes by one name shows by the other; a large file with many names is read once."""
    (tmp_path / "x").write_bytes(b"x" * 1000)
    request = {"roots": [str(tmp_path)], "paths": [], "without": [], "most": 2000}
    shutil.copy2(tmp_path / "x", tmp_path / "y")
    limit = sys.getrecursionlimit()
    copied = state.key(request)
    assert sys.getrecursionlimit() == limit, "with a larger one, deeply nested text ends the process that reads it"
    (tmp_path / "y").unlink()
    os.link(tmp_path / "x", tmp_path / "y")
    linked = state.key(request)
    assert copied and linked and copied != linked
    for number in range(100):
        os.link(tmp_path / "x", tmp_path / str(number))
    assert state.key(request)
