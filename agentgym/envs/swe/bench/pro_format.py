"""Rows of SWE-bench Pro: the data set's repository has a script and a log parser for each row."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

from agentgym.envs.swe.bench.row import (
    FreshSandbox,
    Row,
    RowFormat,
    checkout_of,
    listed,
    must,
    repository_of,
    text_of,
    verdict_of,
)
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Result, Sandbox

REPOSITORY = "github.com/scaleapi/SWE-bench_Pro-os"
SCRIPTS = "run_scripts"
WORKSPACE = "/workspace"
_ID = re.compile(r"[\w.-]+")
_COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")
_BINARY = re.compile(r"^(?:Binary files .* differ|GIT binary patch)$", re.MULTILINE)
_KNOWN = (
    "repo instance_id base_commit patch test_patch problem_statement repo_language issue_specificity issue_categories "
    "before_repo_set_cmd selected_test_files_to_run fail_to_pass pass_to_pass dockerhub_tag"
)


class SWEBenchProFormat(RowFormat):
    """SWE-bench Pro (`swe_bench_pro_eval.py`): `run_scripts/ID` has the row's script and its parser.

    The parser runs in another fresh container of the image, because the tests' container ran the submitted code. Resolved:
    all tests of fail_to_pass and pass_to_pass are PASSED.
    """

    name = "SWE-bench Pro"
    known = frozenset(_KNOWN.split())
    apply = ("git apply -v",)

    def owns(self, columns: Collection[str]) -> bool:
        return "dockerhub_tag" in columns and "selected_test_files_to_run" in columns

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        root, id = checkout_of(checkout, SCRIPTS, REPOSITORY), text_of(raw, "instance_id")
        if not _ID.fullmatch(id) or not all(map(str.strip, _scripts(root, id))):
            raise ValueError(f"{root} has no {SCRIPTS}/{id:.200}/run_script.sh and parser.py")
        for name in ("patch", "problem_statement", "before_repo_set_cmd", "dockerhub_tag"):
            text_of(raw, name)
        if not _COMMIT.fullmatch(text_of(raw, "base_commit")):
            raise ValueError(f"base_commit is {raw['base_commit']!r:.80}; expected a commit")
        tests = {"FAIL_TO_PASS": listed(raw.get("fail_to_pass")), "PASS_TO_PASS": listed(raw.get("pass_to_pass"))}
        if not tests["FAIL_TO_PASS"]:
            raise ValueError(f"instance {id!r} has no test in fail_to_pass")
        image = f"jefzda/sweap-images:{raw['dockerhub_tag']}"
        files = tuple(listed(raw["selected_test_files_to_run"]))
        columns = {**raw, **tests, "repo": repository_of(raw), "image": image}
        return Row(columns, self, work="/app", test_files=files, checkout=root)

    def cleaned(self, patch: str) -> str:
        """Return a patch without binary files, which the data set's own script leaves out, too."""
        parts = re.split(r"(?=^diff --git )", patch, flags=re.MULTILINE)
        return "".join(part for part in parts if part.strip() and not _BINARY.search(part))

    def set_up(self, sandbox: Sandbox, row: Row) -> None:
        base = row.row["base_commit"]
        must(sandbox, f"git reset -q --hard {base} && git checkout -q {base}", f"{row.image} has no commit {base}")

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        sandbox.run(["/bin/mkdir", "-p", WORKSPACE])
        sandbox.write(f"{WORKSPACE}/run_script.sh", _scripts(_root(row), row.id)[0].encode())
        get_tests = row.row["before_repo_set_cmd"].strip().split("\n")[-1]
        lines = [
            *_environment(_root(row), row.id),
            "cd /app",
            f"{{ {get_tests}\n}} > /dev/null 2>&1",
            # the set's script does not quote the files either
            f"bash {WORKSPACE}/run_script.sh {','.join(row.test_files)}",
        ]
        sandbox.write(f"{WORKSPACE}/entryscript.sh", "\n".join(lines).encode())
        return sandbox.run(["/bin/bash", f"{WORKSPACE}/entryscript.sh"], timeout=timeout)

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        answer = elsewhere(lambda sandbox: _parsed(sandbox, row, result))
        table = cast("dict[str, Any]", answer if isinstance(answer, dict) else {})
        tests = cast("list[object]", table["tests"] if isinstance(table.get("tests"), list) else [])
        found = [cast("dict[str, object]", test) for test in tests if isinstance(test, dict)]
        passed = {str(test.get("name")) for test in found if test.get("status") == "PASSED"}
        verdict = verdict_of(row, passed)
        return verdict, {"resolved": verdict.resolved, "tests": found}


def _parsed(sandbox: Sandbox, row: Row, result: Result) -> object:
    """Run the row's parser on the tests' output and return the JSON that it writes; None if it writes none."""
    must(sandbox, ["/bin/mkdir", "-p", WORKSPACE], f"{row.image} has no room for the parser")
    files = {"stdout.log": result.stdout, "stderr.log": result.stderr, "parser.py": _scripts(_root(row), row.id)[1].encode()}
    for name, content in files.items():
        sandbox.write(f"{WORKSPACE}/{name}", content)
    outputs = " ".join(f"{WORKSPACE}/{name}" for name in ("stdout.log", "stderr.log", "output.json"))
    environment = "\n".join(_environment(_root(row), row.id))
    sandbox.run(f"{environment}\ncd /app; python {WORKSPACE}/parser.py {outputs}", timeout=300.0)
    try:
        return json.loads(sandbox.read(f"{WORKSPACE}/output.json"))
    except (OSError, ValueError):
        return None


def _root(row: Row) -> Path:
    assert row.checkout is not None
    return row.checkout


def _scripts(root: Path, id: str) -> tuple[str, str]:
    folder = root / SCRIPTS / id
    script, parser = (_text(folder / name) for name in ("run_script.sh", "parser.py"))
    return script, parser


def _environment(root: Path, id: str) -> list[str]:
    """Return the ENV lines of the row's Dockerfiles as `export` commands, as in the data set's own script."""
    kinds = ("base_dockerfile", "instance_dockerfile")
    lines = [line.strip() for kind in kinds for line in _text(root / "dockerfiles" / kind / id / "Dockerfile").split("\n")]
    return [line.replace("ENV", "export", 1) for line in lines if line.startswith("ENV")]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
