"""Identification of a repository's test files, and removal of single tests."""

import ast
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from agentgym.rewards.programs.syntax import parse

FOLDERS = {"tests", "test"}
CONFIGURATION = {"conftest.py", "pytest.ini", "pytest.toml", "tox.ini", "setup.cfg", "setup.py", "pyproject.toml"}


def is_test(path: str) -> bool:
    """Return True if a file belongs to the tests, judging by its folder and its name."""
    place = PurePosixPath(path)
    named = place.suffix == ".py" and (place.stem.startswith("test_") or place.stem.endswith("_test"))
    return named or place.stem == "conftest" or bool(FOLDERS & set(place.parts[:-1]))


def is_protected(path: str) -> bool:
    """Return True if a file is a test or configures tests; grading takes such files from the clean repository."""
    return is_test(path) or PurePosixPath(path).name.lstrip(".") in CONFIGURATION


OTHER_FOLDERS = FOLDERS | {"spec", "specs", "__tests__", "__mocks__", "__snapshots__", "fixtures", "testdata"}
OTHER_TEST = re.compile(r"(?:[._-](?:test|spec)s?\.\w+|^test_.*|(?<=[a-z])Tests?\.(?:java|kt|cs|php|scala))$", re.ASCII)
RUNNERS = re.compile(
    r"\.?(?:jest|vitest|vite|karma|mocharc|mocha|ava|babel|cypress|playwright|taprc|nycrc)\b.*|[\w-]+\.pth|noxfile\.py"
    r"|(?:package|package-lock|tsconfig|composer|phpunit)\b.*\.(?:json|xml|dist)|(?:GNU)?[Mm]akefile|\.rspec|Rakefile"
    r"|(?:site|user)customize\.py|\.env|\.coveragerc|go\.(?:mod|sum|work)|Cargo\.toml|pom\.xml|gradle\.properties"
    r"|(?:build|settings)\.gradle(?:\.kts)?"
)
DECIDING_FOLDERS = re.compile(r".*\.(?:egg|dist)-info|\.cargo|\.mvn|__pycache__")
"""Folders that decide how tests run: entry points load plugins, and compiled code runs in place of its source."""
SHADOWS = {"pytest", "_pytest", "pluggy", "iniconfig", "py"}
"""Modules and packages that `python -m pytest` would find in the repository first."""


def runs_tests(path: str, sources: Iterable[str] = ()) -> bool:
    """Return True if a file, in any language, is a test, is read by tests, or decides how tests run.

    A file recognized only by its folder (`tests/data.json`) does not count if the folder contains one of the `sources`,
    the files that the repair changes: `django/test` is a part of Django. `setup.py` never counts: it builds the package.
    """
    place = PurePosixPath(path)
    named = place.suffix == ".py" and (place.stem.endswith("_test") or place.name in CONFIGURATION - {"setup.py"})
    if named or place.name.lstrip(".") in CONFIGURATION - {"setup.py"} or _shadows(place):
        return True
    if any(DECIDING_FOLDERS.fullmatch(part) for part in place.parts[:-1]):
        return True
    if OTHER_TEST.search(place.name) or RUNNERS.fullmatch(place.name):
        return True
    in_folder = bool(OTHER_FOLDERS & set(place.parts[:-1]))
    return in_folder and place.parent not in {PurePosixPath(source).parent for source in sources}


def _shadows(place: PurePosixPath) -> bool:
    first, *rest = place.parts or ("",)
    return place.suffix in (".py", ".pyc", ".so") and (first if rest else place.stem) in SHADOWS


def is_cache(path: str) -> bool:
    """Return True if a file is compiled code, which would run in place of its source."""
    return path.endswith((".pyc", ".pyo")) or "__pycache__" in PurePosixPath(path).parts


def roots(tree: Mapping[str, bytes]) -> list[str]:
    """Return the folders that code is imported from: the repository itself, and `src` if it contains packages."""
    has_src = any(path.startswith("src/") and path.endswith(".py") for path in tree) and "src/__init__.py" not in tree
    return ["", "src"] if has_src else [""]


def importable(tree: Mapping[str, bytes]) -> list[str]:
    """Return the names of a repository's packages and modules."""
    modules: set[str] = set()
    for root in roots(tree):
        for path in tree:
            parts = PurePosixPath(path).relative_to(root).parts if PurePosixPath(path).is_relative_to(root) else ()
            if len(parts) == 1 and path.endswith(".py") and not is_protected(path):
                modules.add(parts[0].removesuffix(".py"))
            elif len(parts) == 2 and parts[1] == "__init__.py" and not is_protected(path):
                modules.add(parts[0])
    return sorted(modules)


def without_tests(tree: Mapping[str, bytes], ids: Iterable[str]) -> dict[str, bytes]:
    """Return a tree without the test functions of the given test ids, whatever the parameters in these ids."""
    changed = dict(tree)
    by_file: dict[str, set[tuple[str, ...]]] = {}
    for test in ids:
        path, *names = function_of(test)
        by_file.setdefault(path, set()).add(tuple(names))
    for path, functions in by_file.items():
        changed[path] = _without(tree[path].decode("utf-8"), functions).encode()
    return changed


def function_of(test: str) -> tuple[str, ...]:
    """Return a test id's path, classes and function, without parameters."""
    path, _, rest = test.partition("::")
    return path, *rest.partition("[")[0].split("::")


def find_function(tree: ast.Module, names: tuple[str, ...]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the definitions of a test: several if it is redefined, none if it is inherited."""
    return [node for names_found, node, _ in _functions(tree, ()) if names_found == names]


def _functions(
    parent: ast.AST, names: tuple[str, ...]
) -> Iterable[tuple[tuple[str, ...], ast.FunctionDef | ast.AsyncFunctionDef, ast.AST]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (*names, node.name), node, parent
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, (*names, node.name))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node, names)


def _without(text: str, functions: set[tuple[str, ...]]) -> str:
    lines = list(io.StringIO(text, newline=""))  # as the parser counts lines: form feeds do not end them
    gone: set[int] = set()
    emptied: dict[int, str] = {}
    left: dict[int, int] = {}
    for names, node, parent in _functions(parse(text), ()):
        body = getattr(parent, "body", [])
        if names not in functions:
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
        while first > 0 and re.match(r"\s*#", lines[first - 1]):  # comments about the test go with it
            first -= 1
        gone.update(range(first, node.end_lineno or node.lineno))
        left[id(parent)] = left.get(id(parent), len(body)) - 1
        if left[id(parent)] == 0:
            emptied[first] = " " * node.col_offset + "pass\n"
    return "".join(emptied.get(number, "" if number in gone else line) for number, line in enumerate(lines))
