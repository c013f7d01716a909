"""Contest problems: LiveCodeBench and CodeContests, mostly programs that read input and print output."""

import base64
import io
import json
import pickle
import zlib

from agentgym.envs.code.fields import UNREADABLE, Data, entries, number, packed, parsed, readable, table, text
from agentgym.errors import BadData
from agentgym.rewards.programs.syntax import parse
from agentgym.tasks.columns import OtherLanguageRow

PROGRAM = "Write a program that reads standard input and prints to standard output."
LCB_SECONDS = 6.0
"""Seconds per test (`timeout` of LiveCodeBench's `run_test`); the limit over all tests is 7 s per test, plus 5 s."""
_STARRED = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json "
    "builtins typing"
)
_MODULES = "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json"
LCB_PREAMBLE = "; ".join(
    [f"from {name} import *" for name in _STARRED.split()]
    + [f"import {name}" for name in _MODULES.split()]
    + ["sys.setrecursionlimit(50000)"]
)
"""LiveCodeBench's preamble for solutions (`import_string` of `lcb_runner/evaluation/testing_util.py`), in one line."""
LARGEST = 200_000_000
"""Maximum decompressed bytes of a problem's packed tests."""


def live_code_bench(raw: Data, where: str) -> Data:
    """Parse a LiveCodeBench problem: a program, a method of a class `Solution`, or a function."""
    public = _tests(raw["public_test_cases"], f"{where}: public_test_cases")
    private = _tests(raw.get("private_test_cases") or "[]", f"{where}: private_test_cases")
    statement, starter = text(raw, "question_content", where), str(raw.get("starter_code") or "")
    functional = any(test.get("testtype") == "functional" for test in (*public, *private))
    cases = [[str(test["input"]), str(test["output"])] for test in (*public, *private)]
    data: Data = {"id": str(raw.get("question_id", "")), "split": "test"}
    if not functional:
        data |= {"statement": f"{statement}\n\n{PROGRAM}", "kind": "program", "entry": "", "compare": "lines"}
    else:
        name = table(parsed(raw.get("metadata") or "{}", f"{where}: metadata"), f"{where}: metadata", "func_name")[
            "func_name"
        ]
        of_class = "class Solution" in starter or not starter
        begins = (
            f"Start with this code and submit all of it:\n\n{starter}" if starter else f"Write a class Solution with {name}."
        )
        _check_starter(starter, where)
        data |= {"statement": f"{statement}\n\n{begins}", "compare": "results" if of_class else "result"}
        data |= {"kind": "class", "entry": "Solution"} if of_class else {"kind": "function", "entry": name}
        cases = [_call(test, name, of_class, where) for test in cases]
    times = {"seconds": LCB_SECONDS, "total": (LCB_SECONDS + 1) * len(cases) + 5}
    return {**data, **times, "before": LCB_PREAMBLE, "public": cases[: len(public)], "hidden": cases}


def _check_starter(starter: str, where: str) -> None:
    """Check that the starter code is the beginning of a Python program.

    Raises:
        OtherLanguageRow: the starter code is not Python.
    """
    for end in ("", " pass", "\n    pass", "\n        pass"):
        try:
            parse(starter.rstrip() + end)
        except UNREADABLE:
            continue
        return
    raise OtherLanguageRow(
        f"{where}: starter_code begins {starter[:60]!r}; expected Python, the only language that is graded here"
    )


def _call(test: list[str], name: str, of_class: bool, where: str) -> list[object]:
    """Return a functional test in the form of `CodeTests.cases`.

    `test` is [input, output]: a line of JSON for each argument, and the result as JSON.
    """
    arguments = packed([parsed(line, where) for line in test[0].split("\n") if line.strip()], where)
    expected = packed(parsed(test[1], where), where)
    return [[[], [[name, arguments]]], [expected]] if of_class else [arguments, expected]


def _tests(value: object, where: str) -> list[Data]:
    """Return tests, each with `input` and `output`, from JSON or LiveCodeBench's private form (base64, zlib, pickle).

    Raises:
        BadData: the tests have neither form.
    """
    if isinstance(value, str) and not value.lstrip().startswith("["):
        try:
            raw = zlib.decompressobj().decompress(base64.b64decode(value, validate=True), LARGEST)
            value = _Text(io.BytesIO(raw)).load()
        except (ValueError, zlib.error, pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError) as error:
            raise BadData(f"{where}: {error}; expected JSON, or JSON that is pickled, deflated and in base64") from error
    return [table(test, where, "input", "output") for test in entries(parsed(value, where), where)]


class _Text(pickle.Unpickler):
    """An unpickler for text only; it refuses to look up classes."""

    def find_class(self, module_name: str, global_name: str, /) -> object:
        raise pickle.UnpicklingError(f"a pickle that asks for {module_name}.{global_name}")


def pack_private(tests: list[Data]) -> str:
    """Pack tests in LiveCodeBench's private form; the inverse of `_tests`."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def code_contests(raw: Data, where: str) -> Data:
    """Parse a CodeContests problem; the public, private and generated tests all become hidden tests.

    Raises:
        BadData: the program does not use standard input and output.
    """
    for name in ("input_file", "output_file"):
        if str(raw.get(name) or "").strip() not in ("", "stdin", "stdout", "standard input", "standard output"):
            raise BadData(f"{where}: {name} is {str(raw[name])[:60]!r}; expected a program of standard input and output")
    public = _columns(raw["public_tests"], f"{where}: public_tests")
    others = [test for key in ("private_tests", "generated_tests") for test in _columns(raw.get(key), f"{where}: {key}")]
    limit = table(raw.get("time_limit") or {}, f"{where}: time_limit")
    seconds = number(limit, "seconds", where) + number(limit, "nanos", where) / 1e9
    solutions = table(raw.get("solutions") or {}, f"{where}: solutions")
    pairs = zip(solutions.get("language", ()), solutions.get("solution", ()), strict=False)
    return {
        "id": text(raw, "name", where),
        "split": str(raw.get("split") or ""),
        "statement": f"{text(raw, 'description', where)}\n\n{PROGRAM}",
        "kind": "program",
        "entry": "",
        "compare": "words",
        "tolerance": 1e-5,
        "public": public,
        "hidden": [*public, *others],
        "reference": next((str(code) for language, code in pairs if language in (3, "PYTHON3") and readable(str(code))), ""),
        **({"seconds": 2 * seconds} if seconds else {}),  # the published limits are for compiled languages
    }


def _columns(value: object, where: str) -> list[list[str]]:
    columns = table(value or {"input": [], "output": []}, where, "input", "output")
    inputs, expected = entries(columns["input"], where), entries(columns["output"], where)
    if len(inputs) != len(expected):
        raise BadData(f"{where}: {len(inputs)} inputs and {len(expected)} outputs; expected as many")
    return [[str(a), str(b)] for a, b in zip(inputs, expected, strict=True)]
