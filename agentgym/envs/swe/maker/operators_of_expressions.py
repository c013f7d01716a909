"""Mutations of expressions: comparisons, bounds, operands, arguments, names, constants."""

import ast
import re
from collections.abc import Iterator

from agentgym.envs.swe.maker.code import Code, Splice
from agentgym.envs.swe.maker.operators import operator

BOUNDARY: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
OPPOSITE: dict[type[ast.cmpop], str] = {
    **{ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"},
    **{ast.Lt: ">", ast.Gt: "<", ast.LtE: ">=", ast.GtE: "<="},
}
SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "//",
    ast.Pow: "*",
}
NEIGHBOURS = {
    **{"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"},
    **{"lstrip": "rstrip", "rstrip": "lstrip", "strip": "lstrip", "find": "rfind", "rfind": "find", "index": "find"},
    **{"partition": "rpartition", "rpartition": "partition", "startswith": "endswith", "endswith": "startswith"},
    **{"append": "extend", "appendleft": "append", "popleft": "pop", "bisect_right": "bisect_left"},
    **{"bisect_left": "bisect_right", "match": "search", "fullmatch": "match", "search": "match", "lower": "upper"},
    **{"ljust": "rjust", "rjust": "ljust", "removeprefix": "lstrip", "intersection": "union", "split": "rsplit"},
    **{"keys": "values", "update": "setdefault", "isdigit": "isalnum", "splitlines": "split"},
}


def _between(code: Code, left: ast.expr, right: ast.expr, pattern: str, new: str) -> Splice | None:
    """Return the splice that replaces `pattern` between two nodes by `new`.

    None unless the pattern matches exactly once, in a text without comments.
    """
    start, text = code.between(left, right)
    matches = list(re.finditer(pattern, text))
    if len(matches) != 1 or "#" in text:
        return None
    return Splice(start + len(text[: matches[0].start()].encode()), start + len(text[: matches[0].end()].encode()), new)


@operator("boundary", 4, ast.Compare)
def _boundary(code: Code, node: ast.Compare) -> Iterator[Splice | None]:
    sides = [node.left, *node.comparators]
    for place, sign in enumerate(node.ops):
        if type(sign) in BOUNDARY:
            yield _between(code, sides[place], sides[place + 1], r"[<>]=?", BOUNDARY[type(sign)])


@operator("opposite comparison", 0.7, ast.Compare)
def _opposite(code: Code, node: ast.Compare) -> Iterator[Splice | None]:
    pattern = r"[<>]=?|[!=]=|\bis\s+not\b|\bnot\s+in\b|\bis\b|\bin\b"
    if len(node.ops) == 1:
        yield _between(code, node.left, node.comparators[0], pattern, OPPOSITE[type(node.ops[0])])


@operator("other arithmetic", 1.5, ast.BinOp)
def _arithmetic(code: Code, node: ast.BinOp) -> Iterator[Splice | None]:
    if type(node.op) in SIGNS and not isinstance(node.left, ast.Constant | ast.List | ast.Tuple):
        yield _between(code, node.left, node.right, r"\*\*|//|[-+*/%]", SIGNS[type(node.op)])


@operator("off by one", 4, ast.BinOp, ast.Call, ast.Compare)
def _off_by_one(code: Code, node: ast.BinOp | ast.Call | ast.Compare) -> Iterator[Splice | None]:
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add | ast.Sub) and _is_int(node.right, 1):
            yield code.replace(node, code.operand(node.left))
        return
    if isinstance(node, ast.Compare):
        for side in node.comparators:
            if isinstance(side, ast.Constant) and type(side.value) is int:
                yield code.replace(side, str(side.value + 1))
                if side.value > 0:
                    yield code.replace(side, str(side.value - 1))
        return
    if not (isinstance(node.func, ast.Name) and node.func.id in ("range", "enumerate") and node.args):
        return
    name, (first, *rest) = node.func.id, node.args
    if name == "enumerate":
        if len(node.args) == 2:
            yield code.replace(node, f"enumerate({code.text(first)})")
    elif not rest:
        yield code.replace(node, f"range(1, {code.text(first)})")
        yield code.replace(node, f"range({_moved(code, first, -1)})")
    else:
        yield code.replace(rest[0], _moved(code, rest[0], -1))
        yield code.replace(rest[0], _moved(code, rest[0], 1))


@operator("and for or", 3, ast.BoolOp)
def _and_for_or(code: Code, node: ast.BoolOp) -> Iterator[Splice | None]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    for left, right in zip(node.values, node.values[1:], strict=False):
        yield _between(code, left, right, rf"\b{old}\b", new)


@operator("dropped condition", 4, ast.BoolOp, ast.comprehension)
def _dropped_condition(code: Code, node: ast.BoolOp | ast.comprehension) -> Iterator[Splice | None]:
    if isinstance(node, ast.BoolOp):
        word = " and " if isinstance(node.op, ast.And) else " or "
        for place in range(len(node.values)):
            operands = [code.operand(value) for value in node.values[:place] + node.values[place + 1 :]]
            yield code.replace(node, word.join(operands))
        return
    for condition in node.ifs:
        start, end = code.span(condition)
        match = re.search(rb"\sif\s*\(?\s*$", code.raw[:start])
        if match and b"(" not in match[0]:
            yield Splice(match.start(), end, "")


@operator("dropped not", 1, ast.UnaryOp)
def _dropped_not(code: Code, node: ast.UnaryOp) -> Iterator[Splice | None]:
    if isinstance(node.op, ast.Not | ast.USub) and not isinstance(node.operand, ast.Constant):
        yield code.replace(node, code.operand(node.operand))


@operator("swapped operands", 2, ast.BinOp)
def _swapped_operands(code: Code, node: ast.BinOp) -> Iterator[Splice | None]:
    signs: dict[type[ast.operator], str] = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"}
    if type(node.op) in signs and not isinstance(node.left, ast.Constant):
        yield code.replace(node, f"{code.operand(node.right)} {signs[type(node.op)]} {code.operand(node.left)}")


@operator("swapped arguments", 4, ast.Call)
def _swapped_arguments(code: Code, node: ast.Call) -> Iterator[Splice | None]:
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    for left, right in zip(node.args, node.args[1:], strict=False):
        if code.text(left) != code.text(right):
            _, middle = code.between(left, right)
            yield Splice(code.span(left)[0], code.span(right)[1], code.text(right) + middle + code.text(left))


@operator("swapped results", 2, ast.IfExp, ast.Return)
def _swapped_results(code: Code, node: ast.IfExp | ast.Return) -> Iterator[Splice | None]:
    if isinstance(node, ast.IfExp):
        body, test, other = code.text(node.orelse), code.text(node.test), code.text(node.body)
        yield code.replace(node, f"{body} if {test} else {other}")
    elif isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        left, right = node.value.elts
        _, middle = code.between(left, right)
        yield Splice(code.span(left)[0], code.span(right)[1], code.text(right) + middle + code.text(left))


@operator("wrong variable", 5, ast.Name)
def _wrong_variable(code: Code, node: ast.Name) -> Iterator[Splice | None]:
    function, above = code.function(node), code.parent(node)
    if function is None or not isinstance(node.ctx, ast.Load) or (isinstance(above, ast.Call) and above.func is node):
        return
    known = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    for inner in ast.walk(function):
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.lineno < node.lineno:
            known.append(inner.id)
    if node.id not in known:
        return
    alike = {
        other_node.value.id
        for other_node in ast.walk(function)
        if isinstance(other_node, ast.Attribute) and isinstance(above, ast.Attribute) and other_node.attr == above.attr
        if isinstance(other_node.value, ast.Name)
    }
    for name in dict.fromkeys(known):
        fits = not isinstance(above, ast.Attribute) or name in alike  # otherwise it only causes an AttributeError
        if fits and name not in (node.id, "self", "cls", "_"):
            yield code.replace(node, name)


@operator("wrong attribute", 3, ast.Attribute)
def _wrong_attribute(code: Code, node: ast.Attribute) -> Iterator[Splice | None]:
    """Yield splices that replace an attribute of a variable by another attribute that the function reads or sets on it."""
    above = code.parent(node)
    if not (isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load)):
        return
    if isinstance(above, ast.Call) and above.func is node:
        return
    used = {
        inner.attr
        for inner in ast.walk(code.function(node) or code.tree)
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == node.value.id
        if not (isinstance(over := code.parent(inner), ast.Call) and over.func is inner)
    }
    for name in sorted(used - {node.attr}):
        yield code.replace(node, f"{node.value.id}.{name}")


@operator("wrong slice", 5, ast.Slice)
def _wrong_slice(code: Code, node: ast.Slice) -> Iterator[Splice | None]:
    for bound in (node.lower, node.upper):
        if bound is None:
            continue
        yield code.replace(bound, _moved(code, bound, 1))
        if not isinstance(bound, ast.Constant) or bound.value != 0:
            yield code.replace(bound, _moved(code, bound, -1))
        if node.step is None:
            yield code.replace(bound, "")


@operator("wrong index", 2, ast.Subscript)
def _wrong_index(code: Code, node: ast.Subscript) -> Iterator[Splice | None]:
    index = node.slice
    if isinstance(index, ast.Constant) and type(index.value) is int:
        yield code.replace(index, "-1" if index.value == 0 else str(index.value - 1))
    elif isinstance(index, ast.UnaryOp) and code.text(index) == "-1":
        yield code.replace(index, "0")


@operator("wrong default", 4, ast.FunctionDef, ast.AsyncFunctionDef, ast.Call)
def _wrong_default(code: Code, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Call) -> Iterator[Splice | None]:
    if isinstance(node, ast.Call):
        named = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        passed = (
            node.args[-1:] if (named, len(node.args)) in (("get", 2), ("setdefault", 2), ("getattr", 3), ("pop", 2)) else []
        )
        values: list[ast.expr | None] = [*passed, *(keyword.value for keyword in node.keywords if keyword.arg == "default")]
    else:
        values = [*node.args.defaults, *node.args.kw_defaults]
    for value in values:
        if isinstance(value, ast.Constant):
            yield from _other_constants(code, value)


@operator("wrong constant", 2, ast.Constant)
def _wrong_constant(code: Code, node: ast.Constant) -> Iterator[Splice | None]:
    if isinstance(code.parent(node), ast.Compare | ast.Return | ast.Assign | ast.BinOp | ast.Call | ast.Tuple | ast.keyword):
        yield from _other_constants(code, node)


@operator("neighbouring function", 4, ast.Call)
def _neighbour(code: Code, node: ast.Call) -> Iterator[Splice | None]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in NEIGHBOURS:
        end = code.span(node.func)[1]
        yield Splice(end - len(name.encode()), end, NEIGHBOURS[name])


@operator("wrong order", 3, ast.Call)
def _wrong_order(code: Code, node: ast.Call) -> Iterator[Splice | None]:
    """Yield splices that drop `key` or `reverse` of a sort, `min` or `max`, that add `reverse`, or that drop the sort."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name not in ("sorted", "sort", "min", "max"):
        return
    for keyword in node.keywords:
        if keyword.arg in ("key", "reverse") and len(node.args) + len(node.keywords) > 1:
            start, end = code.span(keyword)
            match = re.search(rb",\s*$", code.raw[:start])
            if match:
                yield Splice(match.start(), end, "")
    if name == "sorted" and len(node.args) == 1:
        if not node.keywords:
            yield code.replace(node, f"list({code.text(node.args[0])})")
        if all(keyword.arg != "reverse" for keyword in node.keywords) and not isinstance(node.args[0], ast.GeneratorExp):
            end = code.span(node)[1]
            yield Splice(end - 1, end, ", reverse=True)")


@operator("missing copy", 5, ast.Call, ast.Subscript)
def _missing_copy(code: Code, node: ast.Call | ast.Subscript) -> Iterator[Splice | None]:
    if isinstance(node, ast.Subscript):
        whole = isinstance(node.slice, ast.Slice) and code.text(node.slice) == ":"
        if whole and isinstance(node.ctx, ast.Load):
            yield code.replace(node, code.text(node.value))
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("copy", "deepcopy") and not node.args:
        yield code.replace(node, code.text(node.func.value))
    copies = isinstance(node.func, ast.Name) and node.func.id in ("list", "dict", "set", "deque", "deepcopy", "copy")
    if copies and len(node.args) == 1 and not isinstance(node.args[0], ast.GeneratorExp | ast.Starred):
        yield code.replace(node, code.operand(node.args[0]))


def _other_constants(code: Code, node: ast.Constant) -> Iterator[Splice]:
    value = node.value
    if isinstance(value, bool):
        yield code.replace(node, repr(not value))
    elif isinstance(value, int):
        yield code.replace(node, str(value + 1))
    elif isinstance(value, float):
        yield code.replace(node, repr(value * 2 if value else 1.0))
    elif isinstance(value, str) and "\n" not in value and not code.text(node).startswith(("r", "R", '"""')):
        if value.strip() != value:
            yield code.replace(node, repr(value.strip()))
        elif len(value) == 1:
            yield code.replace(node, repr(value + " " if value in ",;:" else " "))
        elif value == "":
            yield code.replace(node, repr(" "))


def _is_int(node: ast.expr, value: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == value


def _moved(code: Code, node: ast.expr, by: int) -> str:
    """Return the source of an integer increased by `by`."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value + by)
    step = node.right.value if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and type(step) is int:
        total = by + (step if isinstance(node.op, ast.Add) else -step)
        return f"{code.text(node.left)} {'+' if total > 0 else '-'} {abs(total)}" if total else code.text(node.left)
    return f"{code.operand(node)} {'+' if by > 0 else '-'} {abs(by)}"
