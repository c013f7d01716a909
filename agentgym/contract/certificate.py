"""The certificate of an environment: the checks, tasks and versions, and the results.

`docs/guides/contract.md` describes each field. A certificate is not a signature. To verify one, run `agentgym check
NAME --verify FILE`: it repeats the checks with the certificate's settings and compares the results.
"""

import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import gymnasium

from agentgym.contract.checks import CHECKS
from agentgym.contract.env_under_test import EnvUnderTest
from agentgym.contract.report import Result
from agentgym.contract.shortcuts import FORGERIES
from agentgym.core.env import TextEnv
from agentgym.core.provenance import SECRETS, commit, hardware
from agentgym.core.tasks import Task
from agentgym.errors import BadConfig, BadData
from agentgym.registry import foreign

Certificate = dict[str, Any]
"""A certificate as JSON; `docs/guides/contract.md` describes the fields."""
FORMAT = 1
CLAIMS: dict[str, tuple[str, ...]] = {
    "determinism": ("same again", "same elsewhere", "same verdict"),
    "oracle": ("oracle solves", "reference holds"),
    "shortcuts": ("shortcut policies fail",),
    "leaks": ("answers stay hidden", "tests stay hidden"),
    "splits": ("splits are disjoint",),
}
"""Claims of a certificate, with the checks that support each."""
OF_OTHERS = tuple(name for name in CHECKS if name == "chance is poor" or any(name in names for names in CLAIMS.values()))
"""Checks for environments of other libraries; the remaining checks test our interface, which our adapters provide."""


@runtime_checkable
class DependsOnFiles(Protocol):
    """An environment whose tasks also depend on files that determine the right answer."""

    def fingerprint(self, task: Task) -> str:
        """Return a hash of a task's files."""
        ...


def subject(name: str, under_test: EnvUnderTest) -> dict[str, object]:
    """Return a certificate's entries `environment`, `budget`, `tasks` (number, hashes, ids) and `splits` (sizes)."""
    env, tasks = under_test.env, under_test.many
    return {
        "environment": {
            "name": name,
            "id": under_test.id,
            "class": f"{under_test.kind.__module__}:{under_test.kind.__qualname__}",
            "options": {key: _redacted(key, value) for key, value in _options(name, under_test).items()},
            "nondeterministic": env.declared.nondeterministic,
            "packages": _packages(name, under_test),
        },
        "budget": {key: getattr(under_test, key) for key in ("seed", "count", "steps", "plays")},
        "tasks": {
            "count": len(tasks),
            "sha256": _hash(_described(env, task) for task in tasks),
            "observations": _observations(under_test),
            "ids": [task.id for task in tasks],
        },
        "splits": {split: _count(env, split) for split in env.splits},
    }


def _count(env: TextEnv, split: str) -> int | None:
    """Return the number of tasks of a split: None if it is endless, 0 if the split is empty or unavailable."""
    try:
        return env.task_count(split)
    except BadConfig:
        return 0


def _described(env: TextEnv, task: Task) -> object:
    files = env.fingerprint(task) if isinstance(env, DependsOnFiles) else None
    return [task.id, task.split, task.difficulty, task.instruction, task.data, files]


def _observations(under_test: EnvUnderTest) -> str | None:
    """Return the hash of the first observations; None if they may vary, or a reset fails (the checks report the error)."""
    if under_test.env.declared.nondeterministic:
        return None
    try:
        return _hash(
            under_test.env.reset(seed=seed, options={"task": task})[0] for seed, task in enumerate(under_test.tasks)
        )
    except Exception:
        return None


def _hash(items: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for item in items:
        digest.update(json.dumps(item, sort_keys=True, default=repr).encode() + b"\n")
    return digest.hexdigest()


def _options(name: str, under_test: EnvUnderTest) -> Mapping[str, object]:
    """Return the options, without the local path of another library's environment, since `name` contains the path."""
    spec = gymnasium.registry.get(under_test.id) if foreign(name) else None
    places: Mapping[str, object] = spec.kwargs if spec else {}
    return {key: value for key, value in under_test.options.items() if key not in places or places[key] != value}


def _redacted(key: str, value: object) -> object:
    return "***" if key.replace("-", "_").rpartition("_")[2] in SECRETS else value


def _packages(name: str, under_test: EnvUnderTest) -> dict[str, str]:
    """Return the versions of the distributions that provide the environment's module and the module in `name`."""
    modules = {under_test.kind.__module__.partition(".")[0], name.partition(":")[0].partition(".")[0]} - {"agentgym"}
    providers = ((_listed(distribution) & modules, distribution) for distribution in importlib.metadata.distributions())
    found = sorted(
        (module, distribution.name, distribution.version) for provided, distribution in providers for module in provided
    )
    return {name: version for _, name, version in found}


def _listed(distribution: importlib.metadata.Distribution) -> set[str]:
    """Return the names of a distribution's modules at the top level.

    `importlib.metadata.packages_distributions` makes a path of every file of every distribution, which takes a third of a
    second of a core.
    """
    listed = distribution.read_text("top_level.txt")
    if listed:
        return set(listed.split())
    paths = (line.partition(",")[0] for line in (distribution.read_text("RECORD") or "").splitlines())
    return {re.split(r"[/.]", path, maxsplit=1)[0] for path in paths if path.endswith((".py", ".so", ".pyd"))}


def certificate(
    previous: Certificate, results: Sequence[Result], *, version: str, thorough: bool, seconds: float
) -> Certificate:
    """Return the certificate of an environment: `previous`, which `subject` returned, and the results of the checks.

    The verdict is `failed` if a check is broken; else `passed` if `results` contains every check in `CLAIMS`, even a
    skipped one; else `partial`.
    """
    claims = {name: _claim([result for result in results if result.check in checks]) for name, checks in CLAIMS.items()}
    failed = any(result.status == "broken" for result in results)
    whole = {name for names in CLAIMS.values() for name in names} <= {result.check for result in results}
    return {
        "format": FORMAT,
        "verdict": "failed" if failed else "passed" if whole else "partial",
        "claims": claims,
        **previous,
        "thorough": thorough,
        "shortcuts": _shortcuts(results),
        "checks": [_row(result) for result in results],
        "agentgym": {"version": version, "commit": commit()},
        "python": platform.python_version(),
        "system": hardware()["system"],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
    }


def _claim(results: Sequence[Result]) -> dict[str, str]:
    """Return the `verdict` (`broken`, `holds`, `not checked`, `does not apply`) and `why` of a claim, by its checks."""
    for status in ("broken", "holds"):
        notes = [f"{result.check}: {result.note}" for result in results if result.status == status]
        if notes:
            return {"verdict": status, "why": "; ".join(notes)}
    if not results or any(result.applies for result in results):
        return {"verdict": "not checked", "why": "; ".join(result.note for result in results) or "it was not asked for"}
    return {"verdict": "does not apply", "why": "; ".join(f"{result.check}: {result.note}" for result in results)}


def _shortcuts(results: Sequence[Result]) -> dict[str, dict[str, object]]:
    """Return for each shortcut policy `success` and `allowed` (rates), or the reason as `does not apply`."""
    counted = [result.numbers for result in results if result.check == "shortcut policies fail"]
    numbers: Mapping[str, object] = counted[0] if counted else {}
    rates, allowed = _by_name(numbers.get("success")), _by_name(numbers.get("allowed"))
    rows: dict[str, dict[str, object]] = {
        name: {"success": rate, "allowed": allowed.get(name, 0.0)} for name, rate in rates.items()
    }
    why = "it has no tool that runs commands in a sandbox, so an agent can neither leave nor find files"
    for name in FORGERIES:
        if rates and name not in rates:
            rows[name] = {"does not apply": why}
    return rows


def _by_name(value: object) -> Mapping[str, object]:
    """Return a mapping unchanged, and {} for any other value, since the reporting process is not trusted."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _row(result: Result) -> dict[str, object]:
    row: dict[str, object] = {"check": result.check, "status": result.status, "note": result.note, "seconds": result.seconds}
    if result.numbers:
        row["numbers"] = dict(result.numbers)
    if result.status == "broken" and result.task:
        row |= {"task": result.task, "seed": result.seed, "actions": result.actions}
    return row


def read_certificate(path: Path) -> Certificate:
    """Read a certificate from a file.

    Raises:
        BadData: the file cannot be read, is not a certificate, or has another format.
    """
    try:
        if path.stat().st_size > 1 << 26:
            raise BadData(f"{path} has more than 64 MiB, which no certificate has")
        value: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror}; expected what --certificate wrote") from None
    except (ValueError, RecursionError) as error:
        raise BadData(f"{path} is not JSON ({error}); expected what --certificate wrote") from None
    certificate = cast("Certificate", value) if isinstance(value, dict) else {}
    if certificate.get("format") != FORMAT:
        raise BadData(f"{path} has format {certificate.get('format')!r}; expected a certificate of format {FORMAT}")
    tables = all(isinstance(certificate.get(key), dict) for key in ("environment", "budget", "tasks", "splits", "claims"))
    checks = certificate.get("checks")
    if not tables or not isinstance(checks, list) or not all(isinstance(row, dict) for row in cast("list[object]", checks)):
        raise BadData(f"{path} lacks a part of a certificate (environment, budget, tasks, splits, claims, checks)")
    named = [str(row.get("check")) for row in cast("list[dict[str, object]]", checks)]
    unknown = [name for name in named if name not in CHECKS]
    if unknown:
        raise BadData(
            f"{path} has the check {unknown[0]!r}, which this version has not: verify it with the version it names"
        )
    return certificate


def differences(old: Certificate, new: Certificate) -> tuple[list[str], list[str]]:
    """Return as lines of text the contradictions between two certificates, and harmless differences such as versions."""
    against, beside = list[str](), list[str]()
    for table, key in (
        ("environment", "name"),
        ("environment", "class"),
        ("environment", "options"),
        ("tasks", "count"),
        ("tasks", "sha256"),
        ("tasks", "observations"),
    ):
        _differ(f"{table}: {key}", old[table].get(key), new[table].get(key), against)
    for key in ("splits", "budget", "thorough", "verdict"):
        _differ(key, old.get(key), new.get(key), against)
    for name in CLAIMS:
        _differ(f"claim {name}", _verdict(old["claims"].get(name)), _verdict(new["claims"].get(name)), against)
    before, after = ({row["check"]: row.get("status") for row in part["checks"]} for part in (old, new))
    for name in CHECKS:
        _differ(f"check {name!r}", before.get(name), after.get(name), against)
    _differ("success of shortcut policies", old.get("shortcuts"), new.get("shortcuts"), against)
    for key in ("agentgym", "python", "system"):
        _differ(key, old.get(key), new.get(key), beside)
    _differ("packages", old["environment"].get("packages"), new["environment"].get("packages"), beside)
    return against, beside


def _verdict(claim: object) -> object:
    return cast("dict[str, object]", claim).get("verdict") if isinstance(claim, dict) else None


def _differ(what: str, old: object, new: object, lines_seen: list[str]) -> None:
    left, right = (json.dumps(value, sort_keys=True, default=repr) for value in (old, new))
    if left != right:
        lines_seen.append(f"{what}: the certificate says {left:.200}, this time it is {right:.200}")
