"""Write the page of public names, docs/made/api.md, from the code. What it does not name is private.

The code is read and not imported, so that no extra is needed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PAGE = DOCS / "made" / "api.md"
LAZY = ("_LAZY", "_LATE", "EXPORTS")
"""Tables of names that a package imports when they are first asked for."""
MODULES = (
    "agentgym",
    "agentgym.errors",
    "agentgym.registry",
    "agentgym.core.attempts",
    "agentgym.contract",
    "agentgym.envs.desk.tau2",
    "agentgym.envs.household.export",
    "agentgym.engines",
    "agentgym.engines.scripted",
    "agentgym.browser",
    "agentgym.mcp_tools",
    "agentgym.sandbox",
    "agentgym.sandbox.env",
    "agentgym.retrieval",
    "agentgym.rewards.answer_text",
    "agentgym.rewards.exact_match",
    "agentgym.rewards.expressions",
    "agentgym.rewards.numeric",
    "agentgym.rewards.sql_result",
    "agentgym.evaluate",
    "agentgym.evaluate.run",
    "agentgym.report.plots",
    "agentgym.gateway",
    "agentgym.serving.server",
    "agentgym.trainers",
    "agentgym.trainers.config.train_config",
    "agentgym.trainers.credit.interface",
)
"""The modules whose names are public; docs/ and the README import from no other."""
HEAD = """# Public names

Every public name with its signature and what it is for, made from the code. What is not here is private: it
may change in any version. Methods of a class stand below it, inherited ones included.
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Found:
    """A definition: where it stands, and its node."""

    module: str
    node: ast.stmt


@cache
def tree(module: str) -> ast.Module | None:
    """Return a module of the package as a tree; None where there is no such module."""
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8")) if file.exists() else None


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those below an `if` too (of `TYPE_CHECKING`)."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from statements(node.body)


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def define(module: str, name: str) -> Found | None:
    """Return where a name of a module is defined, through imports within the package; None for a name from elsewhere."""
    body = tree(module)
    for node in statements(body.body) if body else ():
        if isinstance(node, Function | ast.ClassDef) and node.name == name:
            return Found(module, node)
        if name in _assigned(node):
            return Found(module, _without_await(module, node))
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return define(node.module, alias.name)
    place = lazy(module).get(name)
    return define(place, name) if place else None


def _without_await(module: str, node: ast.stmt) -> ast.stmt:
    """Return `name = blocking(coroutine_function)` as the function that it is."""
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "blocking" and isinstance(value.args[0], ast.Name):
        found = define(module, value.args[0].id)
        if found and isinstance(found.node, ast.AsyncFunctionDef):
            return ast.FunctionDef(**vars(found.node))
    return node


def lazy(module: str) -> dict[str, str]:
    """Return the names that a package imports when they are asked for, with their modules."""
    body = tree(module)
    table: dict[str, str] = {}
    for node in body.body if body else ():
        value = getattr(node, "value", None)
        if set(_assigned(node)) & set(LAZY) and isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            table |= {key.value: place.value for key, place in pairs if isinstance(key, ast.Constant)}  # type: ignore[union-attr]
    return table


def public(module: str) -> list[str]:
    """Return the public names of a module: `__all__`, its lazy table, or the functions and classes defined in it."""
    body = tree(module)
    assert body, f"no module {module}"
    for node in body.body:
        if "__all__" in _assigned(node):
            return sorted(name for name in ast.literal_eval(node.value) if not name.startswith("_"))  # type: ignore[attr-defined]
    own = [node.name for node in body.body if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_")]
    return sorted(lazy(module)) or sorted(own)


def first_line(node: ast.stmt) -> str:
    """Return the first line of a docstring."""
    return (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ") if hasattr(node, "body") else ""


def has(node: Function | ast.ClassDef, decorator: str) -> bool:
    """Return whether something is decorated so, as a name, an attribute or a call."""
    return any(decorator in ast.unparse(mark).partition("(")[0].split(".") for mark in node.decorator_list)


def parents(found: Found) -> Iterator[Found]:
    """Yield a class and the classes of the package that it inherits from, nearest first."""
    yield found
    for base in found.node.bases:  # type: ignore[attr-defined]
        above = define(found.module, ast.unparse(base).partition("[")[0])
        if above and isinstance(above.node, ast.ClassDef):
            yield from parents(above)


def arguments(node: Function, *, bound: bool = False) -> str:
    """Return the parameters of a function, without the first of a method."""
    text = ast.unparse(node.args)
    return text.partition(", ")[2] if bound and not has(node, "staticmethod") else text


def fields(found: Found) -> str:
    """Return the parameters of a dataclass or named tuple."""
    rows: dict[str, str] = {}
    for above in reversed(list(parents(found))):
        for node in above.node.body:  # type: ignore[attr-defined]
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
                name = ast.unparse(node.target)
                default = f" = {_default(node.value)}" if node.value else ""
                rows[name] = f"{name}: {ast.unparse(node.annotation)}{default}"
    return ", ".join(rows.values())


def _default(value: ast.expr) -> str:
    text = ast.unparse(value)
    return "…" if text.startswith("field(") or len(text) > 40 else text


def signature(found: Found, name: str) -> str:
    """Return how a name is called or, of a value, what it is."""
    node = found.node
    if isinstance(node, Function):
        kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
        return f"{kind}{name}({arguments(node)})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")
    if not isinstance(node, ast.ClassDef):
        return name
    bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
    if has(node, "dataclass") or "NamedTuple" in bases:
        return f"{name}({fields(found)})"
    if "Protocol" in bases:
        return f"{name} (protocol)"
    for above in parents(found):
        made = [one for one in above.node.body if isinstance(one, Function) and one.name == "__init__"]  # type: ignore[attr-defined]
        if made:
            return f"{name}({arguments(made[0], bound=True)})"
        if has(above.node, "dataclass"):  # type: ignore[arg-type]
            return f"{name}({fields(found)})"
    return f"{name}({', '.join(bases)})" if bases else name


def methods(found: Found) -> list[str]:
    """Return a line for each public method and property of a class."""
    rows: dict[str, str] = {}
    for above in parents(found):
        for node in above.node.body:  # type: ignore[attr-defined]
            if not isinstance(node, Function) or node.name.startswith("_") or node.name in rows or not first_line(node):
                continue
            kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
            call = "" if has(node, "property") else f"({arguments(node, bound=True)})"
            returns = f" -> {ast.unparse(node.returns)}" if node.returns and ast.unparse(node.returns) != "None" else ""
            rows[node.name] = f"    - `{kind}.{node.name}{call}{returns}`: {first_line(node)}"
    return [rows[name] for name in sorted(rows)]


def page() -> str:
    """Return the text of the page; a name that two modules have stands with the first."""
    lines, seen = [HEAD], set[Found]()
    for module in MODULES:
        entries: list[str] = []
        for name in public(module):
            found = define(module, name)
            if found is None or found in seen:
                continue
            seen.add(found)
            says = first_line(found.node) if isinstance(found.node, Function | ast.ClassDef) else ""
            entries.append(f"- `{signature(found, name)}`" + (f": {says}" if says else ""))
            if isinstance(found.node, ast.ClassDef):
                entries += methods(found)
        if entries:
            body = tree(module)
            says = first_line(body) if body else ""  # type: ignore[arg-type]
            lines += [f"## {module}\n", f"{says}\n", *entries, ""]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
