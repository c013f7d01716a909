"""Instances in SWE-bench's format: JSON lines with the columns that `swebench` 5 reads, or those of SWE-smith."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from agentgym.envs.swe.library import Library, library
from agentgym.errors import BadData
from agentgym.tasks.columns import Refused, whole_question
from agentgym.tasks.lines import decoded, objects
from agentgym.tasks.reading import PLAIN, Reading, playable

COLUMNS = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "FAIL_TO_PASS", "PASS_TO_PASS")
_COLUMNS = frozenset(COLUMNS)
OF_5 = ("image", "eval_script", "log_parser", "eval_type")
"""Columns of a dataset in swebench 5's form, which needs no table of repositories."""
_FURTHER = (
    "version test_patch hints_text created_at environment_setup_commit image_name docker_image test_cmd difficulty meta "
    "install_config requirements environment license_name fail_to_fail pass_to_fail pr_description language "
    "repo_language image_assets prompt strategy"
)
KNOWN = frozenset((*(name.lower() for name in COLUMNS), *OF_5, *_FURTHER.split()))
"""Columns of SWE-bench, SWE-smith and SWE-rebench; their graders' own prompts show the statement without hints."""
_WITHOUT_PIP = KNOWN - {"requirements"}  # pip's in SWE-rebench, the issue's elsewhere
HOURS = ("<15 min fix", "15 min - 1 hour", "1-4 hours", ">4 hours")
"""Difficulties of SWE-bench Verified: 0 to 3."""
SMITH_EVAL = """#!/bin/bash
set -uxo pipefail
{activate}cd /testbed
: '>>>>> Start Test Output'
{command}
: '>>>>> End Test Output'
"""
"""Script that runs a SWE-smith instance's tests, in the form of SWE-bench's own scripts."""
ACTIVATE = "source /opt/miniconda3/bin/activate\nconda activate testbed\n"
PYTEST = "pytest --disable-warnings --color=no --tb=no -rA"


@dataclass(frozen=True)
class Row:
    """One instance."""

    row: Mapping[str, Any]
    """The columns, including those that swebench reads."""
    bug: str = ""
    """A patch that creates the agent's initial state (SWE-smith); empty if the image has it already."""
    removed: tuple[str, ...] = ()
    """Test files hidden from the agent and restored from the image for grading (SWE-smith)."""

    @property
    def id(self) -> str:
        """The `instance_id`."""
        return self.row["instance_id"]

    @property
    def repo(self) -> str:
        """The repository, `owner/name`."""
        return self.row["repo"]

    @property
    def issue(self) -> str:
        """The issue text for the agent."""
        return self.row["problem_statement"]

    @property
    def image(self) -> str:
        """Image with the repository and its dependencies."""
        return self.row["image"]

    @property
    def split(self) -> str:
        """`test`, unless the row says otherwise."""
        return self.row.get("split") or "test"

    @property
    def difficulty(self) -> int:
        """From 0 to 3 by annotated repair time (SWE-bench Verified), else 0."""
        annotated = self.row.get("difficulty")
        return HOURS.index(annotated) if annotated in HOURS else 0

    def tests(self, column: str) -> list[str]:
        """Return `FAIL_TO_PASS` or `PASS_TO_PASS`."""
        return _listed(self.row[column])


def read_rows(path: str | Path, reading: Reading = PLAIN) -> Library[Row]:
    """Return the instances in a file of JSON lines; BadData with file and line if none is playable."""
    records = ((where, raw, reading.ignore) for where, raw in objects(str(path)))
    return library(str(path), playable(str(path), records, _row, reading, "instance").values())


def is_bench(path: str | Path) -> bool:
    """Return whether a file's first line is an instance of SWE-bench or SWE-smith."""
    with Path(path).open(encoding="utf-8-sig") as file:
        try:
            first = json.loads(next((line for line in file if line.strip()), "null"))
        except ValueError:
            return False
    return isinstance(first, dict) and "instance_id" in first


def _row(where: str, raw: Mapping[str, object], ignore: tuple[str, ...]) -> Row:
    try:
        row = _instance(raw if "problem_statement" in raw else {**raw, "problem_statement": ""})
    except (ValueError, TypeError) as error:
        raise (Refused if isinstance(error, _OtherLanguage) else BadData)(f"{where}: {error}") from None
    known = KNOWN if "install_config" in raw or "environment" in raw else _WITHOUT_PIP
    stated = row.issue
    issue = whole_question(raw, stated, known, ignore, where, ("requirements", "interface"))
    return row if issue is stated else replace(row, row={**row.row, "problem_statement": issue})


def _instance(row: Mapping[str, object]) -> Row:
    smith = "image_name" in row and "eval_script" not in row and "test_patch" not in row
    if not row.keys() >= _COLUMNS:
        missing = [name for name in COLUMNS if name not in row and not (smith and name == "base_commit")]
        if missing:
            raise ValueError(f"no column {missing[0]!r}; expected {', '.join(COLUMNS)}")
    if not _listed(row["FAIL_TO_PASS"]):
        raise ValueError(f"instance {row['instance_id']!r} has no test in FAIL_TO_PASS")
    if smith:
        return Row(_smith(row), bug=str(row["patch"]), removed=_files(_listed(row["FAIL_TO_PASS"])))
    if not all(map(row.get, OF_5)):
        missing = [name for name in OF_5 if not row.get(name)]
        raise ValueError(
            f"instance {row['instance_id']!r} has no {missing[0]!r}: it is of the time before swebench 5, which put "
            f"{', '.join(OF_5)} into the data: take the present revision of the data set"
        )
    return Row(row)


class _OtherLanguage(ValueError):
    """A row in a language whose tests cannot run here."""


def _smith(row: Mapping[str, object]) -> dict[str, object]:
    tests = [*_listed(row["FAIL_TO_PASS"]), *_listed(row["PASS_TO_PASS"])]
    others = [test for test in tests if not test.partition("::")[0].endswith(".py")]
    command, parser = row.get("test_cmd"), row.get("log_parser")
    if others and not (isinstance(command, str) and isinstance(parser, str)):
        raise _OtherLanguage(
            f"instance {row['instance_id']!r} has the test {others[0][:80]!r}, which is none of pytest's: rows of other "
            "languages need their own test_cmd and log_parser (a parser of swebench, such as parse_log_gotest)"
        )
    files = " ".join(map(shlex.quote, _files(tests)))
    script = SMITH_EVAL.format(activate="" if others else ACTIVATE, command=command if others else f"{PYTEST} {files}")
    return {
        "base_commit": "HEAD",
        "version": "",
        **row,
        "image": row["image_name"],
        "eval_script": script,
        "log_parser": parser if others else "parse_log_pytest",
        "eval_type": "pass_and_fail",
    }


def _files(tests: list[str]) -> tuple[str, ...]:
    """Return the files that test names begin with; empty for languages whose test names have no file."""
    return tuple(sorted({file for file in (test.partition("::")[0] for test in tests) if file.endswith(".py")}))


def _listed(value: object) -> list[str]:
    """Return a column that is a list, or one written as JSON.

    Raises:
        TypeError: the column is neither.
    """
    parsed = decoded(value) if isinstance(value, str) else value
    if not isinstance(parsed, list):
        raise TypeError(f"FAIL_TO_PASS or PASS_TO_PASS is {value!r:.80}; expected a list of tests")
    return [str(item) for item in cast("list[object]", parsed)]
