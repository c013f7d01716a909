"""Rows of SWE-rebench-V2: 20 languages; each row names the parser of its log."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

from agentgym.envs.swe.bench.own_code import answer_about_log, names
from agentgym.envs.swe.bench.row import FreshSandbox, Row, RowFormat, checkout_of, listed, repository_of, text_of, verdict_of
from agentgym.envs.swe.verdict import Verdict
from agentgym.sandbox.protocol import Result, Sandbox
from agentgym.tasks.lines import decoded

REPOSITORY = "github.com/SWE-rebench/SWE-rebench-V2"
PARSERS = "lib/agent/log_parsers.py"
APPLY = "git apply -v --3way --recount --ignore-space-change --whitespace=nowarn"
_DURATIONS = (
    r"\s*\[\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\]\s*$",
    r"\s+in\s+\d+(?:\.\d+)?\s+(?:msec|sec)\b",
    r"\s*\(\s*\d+(?:\.\d+)?\s*(?:ms|s)\s*\)\s*$",
)
_LIST = """
from lib.agent import log_parsers
answer = sorted({*log_parsers.NAME_TO_PARSER, *(name for name in vars(log_parsers) if name.startswith("parse_"))})
"""
_PARSE = """
from lib.agent import log_parsers
name = question["parser"]
parse = log_parsers.NAME_TO_PARSER.get(name) or getattr(log_parsers, name)
answer = parse(question["log"])
"""
_KNOWN = (
    "instance_id repo base_commit created_at patch test_patch problem_statement pr_description language fail_to_pass "
    "pass_to_pass image_name install_config meta"
)


class RebenchV2Format(RowFormat):
    """SWE-rebench-V2 (`scripts/eval.py` of its repository): test commands under `set -e`, and the parser that the row names.

    Resolved: all tests of FAIL_TO_PASS and PASS_TO_PASS pass. SWE-rebench-V2's script also requires that no other test
    passes; in the report, `passed_match` is True if that is the case.
    """

    name = "SWE-rebench-V2"
    known = frozenset(_KNOWN.split())
    stated = ("interface",)
    split = "train"
    apply = (APPLY,)

    def owns(self, columns: Collection[str]) -> bool:
        return (
            "install_config" in columns
            and "image_name" in columns
            and "language" in columns
            and "eval_script" not in columns
        )

    def read(self, raw: Mapping[str, object], checkout: Path | None) -> Row:
        root = checkout_of(checkout, PARSERS, REPOSITORY)
        config = raw["install_config"]
        config = decoded(config) if isinstance(config, str) else config
        settings = cast("dict[str, object]", config if isinstance(config, dict) else {})
        _commands(settings)
        parser = settings.get("log_parser")
        if parser not in names(root, _LIST):
            raise ValueError(f"install_config.log_parser is {parser!r:.80}, which {PARSERS} of {root} does not have")
        if not listed(raw.get("FAIL_TO_PASS")):
            raise ValueError(f"instance {text_of(raw, 'instance_id')!r} has no test in FAIL_TO_PASS")
        for name in ("instance_id", "patch", "test_patch", "problem_statement"):
            text_of(raw, name)
        listed(raw.get("PASS_TO_PASS"))
        place = f"/{repository_of(raw).partition('/')[2]}"
        columns = {**raw, "install_config": settings, "image": text_of(raw, "image_name")}
        return Row(columns, self, work=place, checkout=root)

    def set_up(self, sandbox: Sandbox, row: Row) -> None:
        sandbox.run("git reset --hard HEAD")

    def run(self, sandbox: Sandbox, row: Row, timeout: float, untracked: Collection[str]) -> Result:
        sandbox.write("/tmp/test_patch.diff", row.row["test_patch"].encode())
        script = [
            "set -e",
            "export _JAVA_OPTIONS=-Djava.net.preferIPv6Addresses=false",
            f"{APPLY} /tmp/test_patch.diff",
            *_commands(row.row["install_config"]),
        ]
        sandbox.write("/tmp/eval.sh", "\n".join(script).encode())
        return sandbox.run("/bin/bash /tmp/eval.sh", timeout=timeout)

    def judge(
        self, row: Row, patch: str, result: Result, *, restore: bool, elsewhere: FreshSandbox
    ) -> tuple[Verdict, dict[str, object]]:
        log = (result.stdout + result.stderr).decode("utf-8", "replace")
        question: dict[str, object] = {"parser": row.row["install_config"]["log_parser"], "log": log}
        answer = answer_about_log(row.checkout, _PARSE, question)
        statuses = cast("dict[str, object]", answer if isinstance(answer, dict) else {})
        passed = {without_duration(name) for name, status in statuses.items() if status == "PASSED"}
        expected = {name: [without_duration(test) for test in row.tests(name)] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
        verdict = verdict_of(Row({**row.row, **expected}, self), passed)
        exact = sorted(passed) == sorted(expected["FAIL_TO_PASS"] + expected["PASS_TO_PASS"])
        return verdict, {"resolved": verdict.resolved, "passed_match": exact, "passed": sorted(passed)}


def _commands(settings: Mapping[str, object]) -> list[str]:
    value = settings.get("test_cmd")
    listed = cast("list[object]", [value] if isinstance(value, str) else value if isinstance(value, list) else [])
    commands = [command for command in listed if isinstance(command, str) and command.strip()]
    if not commands:
        raise ValueError(f"install_config.test_cmd is {value!r:.80}; expected a command or a list of commands")
    return commands


def without_duration(name: str) -> str:
    """Return a test's name without the duration that some test runners append."""
    for pattern in _DURATIONS:
        name = re.sub(pattern, "", name, flags=re.IGNORECASE)
    return name.strip()
