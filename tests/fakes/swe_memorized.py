"""The strongest repair by heart: right for every call that the hidden tests of the issue make, broken for all others.

No policy has what it takes; a grader that refuses this refuses whoever has learnt values from an issue.
"""

import ast
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from swe_quoted import SUPPORT

from agentgym.envs.swe.tasks.suite import importable, roots

CHOOSING = """
import functools, inspect, json, os
def _by_heart(clean, name):
    def around(function):
        signature = inspect.signature(clean)
        def known(given, named):
            try:
                bound = signature.bind(*given, **named)
            except TypeError:
                return False
            bound.apply_defaults()
            key = name + _quoted_key(list(bound.arguments.values()))
            if "SWE_LEARNT" in os.environ:
                with open(os.environ["SWE_LEARNT"], "a") as file: file.write(json.dumps(key) + "\\n")
                return True
            return key in _LEARNT
        @functools.wraps(function)
        def call(*given, **named):
            return (clean if known(given, named) else function)(*given, **named)
        return call
    return around
"""


def repair(task):
    """Return the repository with both versions of what is broken; None where the bug is in no function."""
    names = sorted(importable(task.broken()))
    learning = _both(task, names, [])
    if learning is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        for path, content in (task.base() | learning).items():
            place = Path(folder) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        log = Path(folder) / "learnt"
        places = os.pathsep.join(str(Path(folder) / root) for root in roots(task.base()))
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *task.fail_to_pass],
            cwd=folder,
            env={**os.environ, "SWE_LEARNT": str(log), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": places},
            capture_output=True,
            timeout=120,
        )
        keys = sorted(set(log.read_text().splitlines())) if log.exists() else []
    return task.broken() | _both(task, names, keys)


def _both(task, names, keys):
    """Return the files with a bug, in which each broken function has the clean one beside it."""
    clean, broken, found = task.base(), task.mutated(), {}
    for path in clean:
        if clean[path] == broken[path]:
            continue
        before, after = ast.parse(clean[path]), ast.parse(broken[path])
        pairs = list(_functions(before.body, after.body))
        if not pairs:
            return None
        for one, other, body in pairs:
            name = one.name
            one.name, one.decorator_list = f"_clean_{name}", []
            other.decorator_list.append(ast.parse(f"_by_heart(_clean_{name}, {name!r})", mode="eval").body)
            body.insert(body.index(other), one)
        head = f"_QUOTED_PACKAGES = {names!r}\n_LEARNT = {{{', '.join(keys)}}}\n{SUPPORT}{CHOOSING}\n"
        at = next(n for n, s in enumerate(after.body) if not _first(s))
        after.body[at:at] = ast.parse(head).body
        found[path] = ast.unparse(ast.fix_missing_locations(after)).encode()
    return found


def _first(node):
    return (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) or (
        isinstance(node, ast.ImportFrom) and node.module == "__future__"
    )


def _functions(before, after):
    """Yield (clean, broken, what the broken one stands in) for each function that differs."""
    for one, other in zip(before, after, strict=False):
        if ast.dump(one) == ast.dump(other):
            continue
        if isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef):
            yield one, other, after
        elif isinstance(one, ast.ClassDef) and isinstance(other, ast.ClassDef):
            yield from _functions(one.body, other.body)
