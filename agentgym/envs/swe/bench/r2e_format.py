"""Rows of R2E-Gym: commits of Python repositories, and the status that each test must have."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from agentgym.envs.swe.bench.row import FreshSandbox, Row, RowFormat, must, text_of
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Result, Sandbox

SECONDS = 300.0
"""Time limit of the tests, in seconds."""
_HOME = "/root"
"""Folder of the container that the tests are moved to before they run."""
_SECRETS = (
    "run_tests.sh r2e_tests syn_issue.json expected_test_output.json execution_result.json parsed_commit.json "
    "modified_files.json modified_entities.json"
)
"""Names of files in the images that contain the tests or the solution, separated by spaces."""
_PLACES = ("/", f"{_HOME}/", "/testbed/")
_SET_UP = f"""
home={_HOME}
cd /testbed && for name in run_tests.sh r2e_tests; do
    for place in /testbed /; do
        if [ -e "$place/$name" ] && [ ! -L "$place/$name" ]; then rm -rf "$home/$name" && mv "$place/$name" "$home/$name"; fi
    done
    rm -rf "/testbed/$name"
done
[ -e $home/run_tests.sh ] && {{ git rev-parse -q --verify HEAD > /dev/null || {{
    git init -q && echo .venv/ >> .git/info/exclude && git add -A &&
    git -c user.name=agent -c user.email=agent@localhost commit -q --allow-empty -m "The repository"; }}; }}
"""
_RUN = f"""
cd /testbed && rm -rf r2e_tests && {{ [ ! -e {_HOME}/r2e_tests ] || ln -s {_HOME}/r2e_tests r2e_tests; }}
exec 2>&1; exec /bin/bash {_HOME}/run_tests.sh
"""
_COLOR = re.compile(r"\x1b\[[0-9;]*m|\r")
_ISSUE = re.compile(r"\[ISSUE\](.*)\[/ISSUE\]", re.DOTALL)
_KNOWN = (
    "repo_name repo docker_image commit_hash parsed_commit_content parsed_commit execution_result_content modified_files "
    "modified_entity_summaries relevant_files num_non_test_files num_non_test_func_methods num_non_test_lines prompt "
    "problem_statement expected_output_json"
)


class R2EGymFormat(RowFormat):
    """R2E-Gym: the image's own `run_tests.sh`, pytest's summary, and an expected status for every test.

    Resolved: the log has exactly the expected tests, each with its expected status, which may be a failure. Names omit the
    file, so tests with the same name in two files count as one.
    """

    name = "R2E-Gym"
    known = frozenset(_KNOWN.split())
    split = "train"
    apply = ("git apply --verbose",)
    programs = "/testbed/.venv/bin"
    untracked = (".venv/",)

    def owns(self, columns: Collection[str]) -> bool:
        return "docker_image" in columns and "expected_output_json" in columns and "commit_hash" in columns

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        image, repo = text_of(raw, "docker_image"), str(raw.get("repo_name") or raw.get("repo"))
        if "swebench" in image:
            raise ValueError(f"docker_image is {image!r}: take the row from SWE-bench's own data set")
        expected = expected_of(text_of(raw, "expected_output_json"))
        stated = _ISSUE.search(text_of(raw, "problem_statement"))
        patch, tests = _patches(str(raw.get("parsed_commit_content") or raw.get("parsed_commit") or "{}"))
        if not patch:
            raise ValueError("parsed_commit_content has no change of a Python file outside tests; expected the solution")
        columns = {
            "instance_id": f"{repo}-{text_of(raw, 'commit_hash')}",
            "repo": repo,
            "image": image,
            "problem_statement": stated[1].strip() if stated else raw["problem_statement"],
            "patch": patch,
            "test_patch": tests,
            "FAIL_TO_PASS": [name for name, status in expected.items() if status == "PASSED"],
            "PASS_TO_PASS": [],
            "expected": expected,
        }
        return Row(columns, self)

    def hide(self, sandbox: Sandbox, row: Row) -> None:
        paths = [place + name for place in _PLACES for name in _SECRETS.split()]
        must(sandbox, ["/bin/rm", "-rf", "--", *paths], f"the tests in {row.image} cannot be removed")

    def set_up(self, sandbox: Sandbox, row: Row) -> None:
        must(sandbox, _SET_UP, f"{row.image} has no run_tests.sh that can be prepared")

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        return sandbox.run(_RUN, timeout=min(timeout, SECONDS))

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        statuses = statuses_of(result.stdout.decode("utf-8", "replace"))
        expected = cast("dict[str, str]", row.row["expected"])
        equal = [name for name, status in expected.items() if statuses.get(name) == status]
        resolved = len(equal) == len(expected) == len(statuses)
        share = len(equal) / len(expected)
        summary = f"{len(equal)} of {len(expected)} tests have the expected status; {len(statuses)} ran."
        return Verdict(resolved, share, share, summary), {"resolved": resolved, "tests_status": statuses}


def expected_of(text: str) -> dict[str, str]:
    """Return the expected status by test from the column `expected_output_json`, with the names of `statuses_of`.

    Raises:
        ValueError: the column is not a JSON object of names and statuses, or it is empty.
    """
    table: object = json.loads(text)
    if not isinstance(table, dict) or not table:
        raise ValueError(f"expected_output_json is {text!r:.80}; expected an object of tests and their statuses")
    return _keyed({name: str(status) for name, status in cast("dict[str, object]", table).items()})


def statuses_of(log: str) -> dict[str, str]:
    """Return the status of each test in pytest's summary. Names omit the file, as in R2E-Gym's `parse_log_pytest`."""
    statuses: dict[str, str] = {}
    parts = _COLOR.sub("", log).split("short test summary info")
    for line in parts[1].strip().split("\n") if len(parts) > 1 else ():
        status = next((word for word in ("PASSED", "FAILED", "ERROR") if word in line), "")
        if status:
            name = ".".join(line.split("::")[1:])
            statuses[name if status == "PASSED" else name.split(" - ")[0]] = status
    return _keyed(statuses)


def _keyed(statuses: Mapping[str, str]) -> dict[str, str]:
    plain = {re.sub(r"\x1b\[\d+m", "", name): status for name, status in statuses.items()}
    return {name.split(" - ")[0]: plain[name] for name in sorted(plain)}


def _patches(text: str) -> tuple[str, str]:
    """Return two patches from a parsed commit, the solution and the test changes; only Python files, as in R2E-Gym.

    Raises:
        ValueError: the text is not a JSON object.
    """
    commit: object = json.loads(text)
    if not isinstance(commit, dict):
        raise ValueError(f"parsed_commit_content is {text!r:.80}; expected an object")
    sides: dict[bool, str] = {False: "", True: ""}
    for file in cast("dict[str, Any]", commit).get("file_diffs", []):
        path = str(file["header"]["file"]["path"])
        if path.endswith(".py"):
            sides[_is_test(path)] += _diff(file, path)
    return sides[False], sides[True]


def _is_test(path: str) -> bool:
    parts = path.split("/")
    return path.endswith("_test.py") or parts[-1].startswith("test_") or bool({"tests", "Tests", "test", "Test"} & {*parts})


def _diff(file: Mapping[str, Any], path: str) -> str:
    lines = [f"diff --git a/{path} b/{path}", *([file["header"]["misc_line"]] if file["header"].get("misc_line") else [])]
    if index := file.get("index_line"):
        mode = f" {index['mode']}" if index["mode"] else ""
        lines.append(f"index {index['old_commit_hash']}..{index['new_commit_hash']}{mode}")
    if file.get("minus_file") and file.get("plus_file"):
        lines += [f"--- {file['minus_file']['path']}", f"+++ {file['plus_file']['path']}"]
    signs = {"context": " ", "added": "+", "deleted": "-", "note": "\\ "}
    for hunk in file.get("hunks", []):
        about = hunk["descriptor"]
        section = f" {about['section']}" if about.get("section") else ""
        lines.append(f"@@ -{_range(about['old_range'])} +{_range(about['new_range'])} @@{section}")
        lines += [signs[line["type"]] + line["content"] for line in hunk["line_group"]["all_lines"]]
    return "".join(f"{line}\n" for line in lines)


def _range(about: Mapping[str, Any]) -> str:
    return str(about["start"]) if about.get("length") is None else f"{about['start']},{about['length']}"
