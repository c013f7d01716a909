"""The observation of a failing test: the call as runnable code, its result and the expected result."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym.envs.swe.maker.code import FunctionNode, is_docstring
from agentgym.envs.swe.tasks.suite import find_function, function_of
from agentgym.rewards.programs.syntax import parse

LONGEST = 160
"""Maximum characters of a value that is shown."""
MOST_LINES = 40
SHORT = 80
"""Calls with fewer characters appear inline in a sentence, without imports."""


@dataclass(frozen=True)
class Observation:
    """The failure of one test."""

    kind: str
    """`value` (wrong), `error` (unexpected exception), `silent` (missing exception) or `message` (wrong exception)."""
    subject: str
    """Name of the called function."""
    code: str
    """Code that reproduces the failure; its last line is the call."""
    got: str
    """The actual result; empty if it cannot be shown."""
    expected: str


def observe(tree: Mapping[str, bytes], test: str, message: str, order: Sequence[str]) -> Observation | None:
    """Return a test's observation; None if the failure cannot be described in a few lines.

    `message` is pytest's failure message, and `order` lists all tests in run order.
    """
    path, *names = function_of(test)
    module = parse(tree[path].decode("utf-8"))
    function_found = find_function(module, tuple(names))
    line = _failing_line(path, message)
    if len(function_found) != 1 or line is None:
        return None
    function = function_found[0]
    place = next(
        (at for at, statement in enumerate(function.body) if statement.lineno <= line <= (statement.end_lineno or 0)), None
    )
    if place is None:
        return None
    values = _parameters(function, test, order)
    if values is None:
        return None
    failure = _failure(_plain_assert(_filled(function.body[place], values)), message)
    if failure is None:
        return None
    kind, call, got, expected = failure
    before = [statement for statement in function.body[:place] if not is_docstring(statement)]
    setup = [_filled(statement, values) for statement in before if not _is_check(_plain_assert(statement))]
    lines = _script(module, function, setup, (call, expected), set(values))
    if lines is None or len(lines) > MOST_LINES or len(got) > LONGEST or len(expected) > LONGEST:
        return None
    return Observation(kind, _subject(call), "\n".join(lines), got, expected)


def _failing_line(path: str, message: str) -> int | None:
    match = re.search(rf"^{re.escape(path)}:(\d+): in ", message, re.MULTILINE)
    return int(match[1]) if match else None


# Parameters


def _parameters(function: FunctionNode, test: str, order: Sequence[str]) -> dict[str, ast.expr] | None:
    """Return the value of each parameter of a test as an expression; None if the source does not list the values."""
    marks = [
        decorator
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize")
    ]
    if not marks:
        return {}
    siblings = [other for other in order if function_of(other) == function_of(test)]
    if len(marks) > 1 or test not in siblings or len(marks[0].args) < 2:
        return None
    names, cases = marks[0].args[:2]
    nodes = names.elts if isinstance(names, ast.Tuple | ast.List) else [names]
    words = [argument.value for argument in nodes if isinstance(argument, ast.Constant) and isinstance(argument.value, str)]
    if len(nodes) == 1 and words and "," in words[0]:
        words = [word.strip() for word in words[0].split(",")]
    if not isinstance(cases, ast.List | ast.Tuple) or len(cases.elts) != len(siblings):
        return None
    case = cases.elts[siblings.index(test)]
    values = list(case.elts) if len(words) > 1 and isinstance(case, ast.Tuple | ast.List) else [case]
    return dict(zip(words, values, strict=True)) if len(words) == len(values) else None


class _Fill(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _filled(node: ast.stmt, values: Mapping[str, ast.expr]) -> ast.stmt:
    copy = parse(ast.unparse(node)).body[0]
    return _Fill(values).visit(copy)


# The failure


def _failure(statement: ast.stmt, message: str) -> tuple[str, str, str, str] | None:
    """Return kind, call, result and expected result; None if the failure cannot be described."""
    asserted = message.startswith(("AssertionError", "assert ", "Failed: "))
    raising = _raising(statement)
    if raising is not None:
        body, expected = raising
        if "DID NOT RAISE" in message:
            return "silent", body, "", expected
        actual = re.search(r"Actual message: (.*)", message)
        if actual is not None:
            pattern = re.search(r"Expected regex: (.*)", message)
            return "message", body, _plain(actual[1]), _plain(pattern[1]) if pattern else expected
        return ("message", body, _error(message), expected) if not asserted else None
    if not asserted:
        call = statement.test if isinstance(statement, ast.Assert) else statement
        return "error", ast.unparse(_ordered(call)[0] if isinstance(call, ast.Compare) else call), _error(message), ""
    if not isinstance(statement, ast.Assert):
        return None
    return _compared(statement.test, message)


def _plain_assert(statement: ast.stmt) -> ast.stmt:
    """Return a `unittest` assertion as an assert statement; any other statement unchanged."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self"):
        return statement
    name, words = call.func.attr, [ast.unparse(argument) for argument in call.args]
    joint = {"assertEqual": "==", "assertEquals": "==", "assertIs": "is", "assertIn": "in", "assertNotEqual": "!="}.get(name)
    if joint and len(words) >= 2:
        return parse(f"assert ({words[0]}) {joint} ({words[1]})").body[0]
    if name in ("assertTrue", "assertFalse") and words:
        return parse(f"assert {'not ' if name == 'assertFalse' else ''}({words[0]})").body[0]
    return statement


def _raising(statement: ast.stmt) -> tuple[str, str] | None:
    """Return the body and the expected exception of a `with pytest.raises(…)`; None for any other statement."""
    if not isinstance(statement, ast.With) or len(statement.body) != 1:
        return None
    manager = statement.items[0].context_expr
    if not (isinstance(manager, ast.Call) and ast.unparse(manager.func).endswith("raises") and manager.args):
        return None
    return ast.unparse(statement.body[0]), ast.unparse(manager.args[0])


def _compared(test: ast.expr, message: str) -> tuple[str, str, str, str] | None:
    if isinstance(test, ast.Compare):
        left, right = _ordered(test)
        if right is not None and _calls(left):
            got, should = _sides(message)
            if left is not test.left:
                got, should = should, got
            if got == should:  # two values with the same repr
                got = ""
            return "value", ast.unparse(left), got, should if got and not _written_out(right) else ast.unparse(right)
        return ("value", ast.unparse(test), "", "true") if _calls(test) else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return "value", ast.unparse(test.operand), "", "false"
    return ("value", ast.unparse(test), "", "true") if _calls(test) else None


def _ordered(test: ast.Compare) -> tuple[ast.expr, ast.expr | None]:
    """Return the subject and the expected value of `==` or `is`; for other comparisons, the whole test and None."""
    if len(test.ops) > 1 or not isinstance(test.ops[0], ast.Eq | ast.Is):
        return test, None
    left, right = test.left, test.comparators[0]
    turned = any(isinstance(node, ast.Call) for node in ast.walk(right)) and isinstance(left, ast.Name | ast.Constant)
    return (right, left) if turned else (left, right)


def _calls(node: ast.expr) -> bool:
    return any(isinstance(inner, ast.Call | ast.Attribute | ast.Subscript | ast.Name) for inner in ast.walk(node))


def _sides(message: str) -> tuple[str, str]:
    """Return both sides of a failed comparison from pytest's message; both empty if it is truncated or has another form."""
    first = message.partition("\n")[0].removeprefix("AssertionError: ").removeprefix("assert ")
    try:
        side = ast.parse(first, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # a repr may be anything
        return "", ""
    if not isinstance(side, ast.Compare) or len(side.ops) != 1 or "..." in first:
        return "", ""
    return ast.unparse(side.left), ast.unparse(side.comparators[0])


def _written_out(node: ast.expr) -> bool:
    """Return True if an expression has no names with a lower-case first letter, such as local variables."""
    return not any(isinstance(inner, ast.Name) and inner.id[:1].islower() for inner in ast.walk(node))


def _error(message: str) -> str:
    return _plain(message.partition("\n")[0])


def _plain(text: str) -> str:
    return text.strip().replace("`", "'")[:LONGEST]


# The code that reproduces it


def _script(
    module: ast.Module, function: FunctionNode, setup: list[ast.stmt], call_and_value: tuple[str, str], filled: set[str]
) -> list[str] | None:
    """Return the lines of a program that ends with the call and defines the names in the call and the expected value.

    None if a name cannot be defined.
    """
    call, expected = call_and_value
    needed = [parameter.arg for parameter in function.args.args if parameter.arg not in (*filled, "self")]
    lines: list[str] = []
    for name in needed:
        fixture = _fixture(module, name)
        if fixture is None:
            return None
        lines += fixture
    lines += [line for statement in setup for line in ast.unparse(statement).splitlines()]
    lines.append(call)
    known = _definitions(module)
    names = left = _names("\n".join([*lines, expected]))
    while left:
        left = {name for name_left in left & set(known) for name in _names(ast.unparse(known[name_left]))} - names
        names = names | left
    above: list[str] = []
    for name, definition in known.items():  # in module order
        if name in names:
            above += [*ast.unparse(definition).splitlines(), *([] if isinstance(definition, ast.Assign) else [""])]
    if "self" in names and "self" not in known:
        return None
    if not above and len(lines) == 1 and len(call) < SHORT and "\n" not in call:
        return lines
    head = _imports(module, names)
    return [*head, *([""] if head else []), *above, *lines]


def _fixture(module: ast.Module, name: str) -> list[str] | None:
    """Return the lines that assign a fixture's result to its name; None if the file has no such simple fixture."""
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name and statement.decorator_list:
            last = statement.body[-1]
            inner = [_fixture(module, arg.arg) for arg in statement.args.args]
            if not isinstance(last, ast.Return) or last.value is None or None in inner:
                return None
            lines = [line for body_lines in inner for line in body_lines or []]
            lines += [line for body_lines in statement.body[:-1] for line in ast.unparse(body_lines).splitlines()]
            value = ast.unparse(last.value)
            return [*lines, *([f"{name} = {value}"] if value != name else [])]
    return None


def _definitions(module: ast.Module) -> dict[str, ast.stmt]:
    definitions: dict[str, ast.stmt] = {}
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) and not statement.decorator_list:
            definitions[statement.name] = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            definitions[statement.targets[0].id] = statement
    return definitions


def _imports(module: ast.Module, names: set[str]) -> list[str]:
    lines: list[str] = []
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            aliases = [alias for alias in statement.names if (alias.asname or alias.name).partition(".")[0] in names]
            if aliases:
                statement = parse(ast.unparse(statement)).body[0]
                assert isinstance(statement, ast.Import | ast.ImportFrom)
                statement.names = aliases
                lines.append(ast.unparse(statement))
    return lines


def _names(text: str) -> set[str]:
    return {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}


def _is_check(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assert) or _raising(node) is not None


def _subject(call: str) -> str:
    """Return the name of the outermost called function, ignoring conversions such as `list`; if none, the call itself."""
    calls = [inner for inner in ast.walk(parse(call)) if isinstance(inner, ast.Call)]
    plain = {
        "list",
        "dict",
        "set",
        "len",
        "str",
        "sorted",
        "tuple",
        "sum",
        "hash",
        "isinstance",
        "next",
        "iter",
        "int",
        "bool",
        "max",
    }
    for inner_call in calls:
        name = ast.unparse(inner_call.func).rpartition(".")[2]
        if name.isidentifier() and name not in plain:
            return name
    return call if len(call) < 60 else call[:57] + "..."
