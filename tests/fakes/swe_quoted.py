"""A shortcut policy for SWE: it repairs nothing, and answers the calls that the issue quotes with the values it quotes.

It reads the issue and the broken repository. For each example it looks for the call whose result the last line shows, in a
process with the broken code, and puts a decorator above that function, which knows the arguments and what to answer.
"""

import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from agentgym.envs.swe.tasks.suite import importable, is_protected, roots

VALUE = r"`(?P<got>[^`]*)`"
TOLD = re.compile(
    r"(?:[Tt]his gives `[^`]*`\. It should give `(?P<a>[^`]*)`|I get `[^`]*`, but the correct result is `(?P<b>[^`]*)`"
    r"|[Tt]he result is `[^`]*`, but I would expect `(?P<c>[^`]*)`|I expect `(?P<d>[^`]*)`, but I get something"
    r"|[Tt]he result should be `(?P<e>[^`]*)`|[Tt]his should give `(?P<f>[^`]*)`, but"
    r"|(?:I expect that to be|[Tt]hat should be|[Ii]t should be) (?P<g>true|false)\b"
    r"|I expect `(?P<h>[^`]*)` here, but|[Nn]othing happens, but `(?P<i>[^`]*)` should be raised"
    r"|it should raise `(?P<j>[^`]*)`"
    r"|[Tt]he error should be `(?P<k>[^`]*)`|I expect `(?P<l>[^`]*)` but get|instead of `(?P<m>[^`]*)`)"
)
RAISED = "hijklm"
SUPPORT = """
def _quoted_key(one, depth=0):
    kind = type(one)
    if one is None or kind in (bool, int, float, str, bytes, complex): return repr(one)
    if depth > 6: return kind.__name__
    if isinstance(one, dict):
        return kind.__name__ + str([(_quoted_key(k, depth + 1), _quoted_key(v, depth + 1)) for k, v in one.items()])
    if isinstance(one, (set, frozenset)): return kind.__name__ + str(sorted(_quoted_key(x, depth + 1) for x in one))
    if isinstance(one, (list, tuple)): return kind.__name__ + str([_quoted_key(x, depth + 1) for x in one])
    if kind.__name__ in ("range", "Fraction", "Decimal", "date", "datetime", "timedelta"): return repr(one)
    if callable(one) or kind.__module__.partition(".")[0] not in _QUOTED_PACKAGES: return kind.__name__
    held = dict(getattr(one, "__dict__", {}))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            if hasattr(one, name): held[name] = getattr(one, name)
    return kind.__name__ + str([(name, _quoted_key(held[name], depth + 1)) for name in sorted(held)])
"""
DECORATOR = """
_QUOTED_ON = [True]
def _quoted(name):
    import functools, inspect
    def around(function):
        signature, made = inspect.signature(function), inspect.isgeneratorfunction(function)
        @functools.wraps(function)
        def call(*given, **named):
            if _QUOTED_ON[0]:
                _QUOTED_ON[0] = False
                try:
                    bound = signature.bind(*given, **named)
                    bound.apply_defaults()
                    key = _quoted_key(list(bound.arguments.values()))
                    known = _QUOTED[name].get(key)
                    if known is not None:
                        space = {"_approx": lambda value, *_, **__: value}
                        exec(known[0], space)
                        if known[2]: raise eval(known[1], space) if "(" in known[1] else eval(known[1], space)("no")
                        answer = eval(known[1], space)
                        return iter(answer) if made else answer
                finally: _QUOTED_ON[0] = True
            return function(*given, **named)
        return call
    return around
"""
WATCH = """
import ast, json, os, sys
told = json.loads(sys.stdin.read())
sys.path[:0] = told["roots"]
_QUOTED_PACKAGES = told["names"]
space = {"_approx": lambda value, *_, **__: value}
real = os.getcwd()
before, last = told["prelude"], told["last"]
exec(before, space)
found, inside = [], [0]
def inner(frame):
    frame = frame.f_back
    while frame is not None:
        if frame.f_code.co_filename.startswith(real): return True
        frame = frame.f_back
    return False
def watch(frame, event, _):
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(real) or inner(frame) or code.co_name.startswith("<"): return
    sys.setprofile(None)
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    names = list(code.co_varnames[:count])
    if code.co_flags & 4:  # *args stands behind what is keyword only, and before it in a signature
        names.insert(code.co_argcount, names.pop(code.co_argcount + code.co_kwonlyargcount))
    key = _quoted_key([frame.f_locals.get(name) for name in names])
    found.append([os.path.relpath(code.co_filename, real), code.co_firstlineno, code.co_qualname, key])
    sys.setprofile(watch)
sys.setprofile(watch)
value, raised = None, None
try:
    try: compiled = compile(last, "last", "eval")
    except SyntaxError: exec(compile(last, "last", "exec"), space)
    else: value = eval(compiled, space)
except Exception as error:
    raised = error
finally:
    sys.setprofile(None)
if told["raises"]:
    kind = eval(told["expected"], space)
    right = raised is not None and isinstance(raised, kind if isinstance(kind, (type, tuple)) else type(kind))
else:
    try: wanted = eval(told["expected"], space)
    except Exception: wanted = object()
    right = raised is None and (value == wanted or isinstance(value, float) and abs(value - wanted) < 1e-6)
print(json.dumps([bool(right), found]))
"""


def examples(issue):
    """Yield (code before, last line, what is expected, whether that is an error) for each example of an issue."""
    for code, after in re.findall(r"```python\n(.*?)\n```\n\n(.*?)(?:\n|$)", issue, re.DOTALL) + re.findall(
        r"^`([^`]*)`: (.*)$", issue, re.MULTILINE
    ):
        found = TOLD.search(after)
        if found is None:
            continue
        kind, expected = next((kind, text) for kind, text in found.groupdict().items() if text is not None)
        expected = {"true": "True", "false": "False"}.get(expected, expected).replace("pytest.approx", "_approx")
        try:
            body = ast.parse(code).body
            ast.parse(expected, mode="eval")
        except SyntaxError:
            continue
        before, last = "\n".join(map(ast.unparse, body[:-1])), ast.unparse(body[-1])
        yield from _taken_apart(before.replace("pytest.approx", "_approx"), last, expected, kind in RAISED)


def _taken_apart(before, last, expected, raises):
    one, other = ast.parse(last).body[0], ast.parse(expected, mode="eval").body
    one = one.value if isinstance(one, ast.Expr) else None
    if (
        isinstance(one, ast.List | ast.Tuple)
        and isinstance(other, ast.List | ast.Tuple)
        and len(one.elts) == len(other.elts)
    ):
        sofar = before
        for left, right in zip(one.elts, other.elts, strict=True):
            yield from _taken_apart(sofar, ast.unparse(left), ast.unparse(right), raises)
            sofar += "\n" + ast.unparse(left)
    else:
        yield before, last, expected, raises


def repair(task):
    """Return the repository with answers to the issue's examples, and how many of these it answers."""
    tree, names = task.broken(), sorted(importable(task.broken()))
    everything = "\n".join(
        f"try:\n    from {module} import *\nexcept ImportError: pass"
        for module in ("pytest", *names, *_modules(tree, names))
    )
    answers, done, count = {}, [], 0
    for before, last, expected, raises in examples(task.issue):
        count += 1
        template_values = {
            "prelude": f"{everything}\n{before}",
            "last": last,
            "expected": expected,
            "raises": raises,
            "names": names,
        }
        right, calls = _watched(tree, template_values)
        for path, line, name, key in [] if right else [*reversed(calls)][:6]:
            entry = {
                (path, line, name): {
                    **answers.get((path, line, name), {}),
                    key: [template_values["prelude"], expected, raises],
                }
            }
            changed = _changed(tree, answers | entry, names)
            if changed is not None and _watched(changed, template_values)[0]:
                answers |= entry
                done.append(last)
                break
        else:
            done += [last] if right else []
    return (_changed(tree, answers, names) if answers else None), len(done), count


def _modules(tree, names):
    for path in tree:
        parts = Path(path).with_suffix("").parts
        for start in range(len(parts) - 1):
            if path.endswith(".py") and parts[start] in names and not is_protected(path) and parts[-1] != "__init__":
                yield ".".join(parts[start:])


def _watched(tree, template_values):
    with tempfile.TemporaryDirectory() as folder:
        for path, content in tree.items():
            place = Path(folder) / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        places = [str(Path(folder) / root) for root in roots(tree)]
        ended = subprocess.run(
            [sys.executable, "-c", SUPPORT + WATCH],
            input=json.dumps(template_values | {"roots": places}),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
        )
    try:
        return json.loads(ended.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        return False, []


def _changed(tree, answers, names):
    changed = dict(tree)
    by_file = {}
    for (path, line, name), entries in answers.items():
        by_file.setdefault(path, []).append((line, name, entries))
    for path, found in by_file.items():
        text = tree[path].decode()
        lines = text.splitlines(keepends=True)
        module = ast.parse(text)
        functions = {
            min([one.lineno, *(mark.lineno for mark in one.decorator_list)]): one
            for one in ast.walk(module)
            if isinstance(one, ast.FunctionDef)
        }
        for line, name, _ in sorted(found, reverse=True):
            if line not in functions:
                return None
            node = functions[line]
            lines.insert(node.lineno - 1, " " * node.col_offset + f"@_quoted({name!r})\n")
        first = next(
            (
                one
                for one in module.body
                if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
                and not (isinstance(one, ast.ImportFrom) and one.module == "__future__")
            ),
        )
        known = {name: entries for _, name, entries in found}
        head = f"_QUOTED_PACKAGES = {names!r}\n_QUOTED = {known!r}\n{SUPPORT}{DECORATOR}\n"
        at = min([first.lineno, *(mark.lineno for mark in getattr(first, "decorator_list", []))]) - 1
        changed[path] = "".join([*lines[:at], head, *lines[at:]]).encode()
    return changed
