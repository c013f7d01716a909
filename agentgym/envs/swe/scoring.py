"""Scoring of predictions: on agentgym's tasks as the environment does, on published data sets by their own rules."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from agentgym.envs.swe.bench.env import SWEBench
from agentgym.envs.swe.bench.evaluation import evaluate
from agentgym.envs.swe.bench.row import Row
from agentgym.envs.swe.bench.rows import is_bench
from agentgym.envs.swe.env import GRADING, SWE
from agentgym.envs.swe.grading.grading import grade
from agentgym.envs.swe.repository import RepositoryEnv
from agentgym.envs.swe.tasks import Instance
from agentgym.envs.swe.tasks.pytest_run import FOLDER
from agentgym.envs.swe.tasks.source import pack, unpack
from agentgym.envs.swe.verdict import Verdict
from agentgym.errors import BadData, UnknownName, no_such
from agentgym.sandbox.protocol import BackendOptions, Sandbox
from agentgym.sandbox.warm_pool import take

T = TypeVar("T")
SCHEMA = 2
"""Schema version of swebench's report; our report has the same keys."""


def score(
    data: str | None,
    patches: Mapping[str, str],
    progress: Callable[[str, Verdict], None] | None = None,
    *,
    checkout: str | None = None,
    backend: str | None = None,
    backend_options: BackendOptions | None = None,
) -> dict[str, object]:
    """Grade patches by instance id, and return a report like swebench's.

    `data` is the file of tasks (None: the built-in tasks). `checkout`, `backend` and `backend_options` are settings of the
    environment. `progress(id, verdict)` is called after each patch. Instances of a published data set are graded by its own
    rules, without restoring configuration, so that numbers are comparable.

    Raises:
        BadData: the file has no task for a patch.
    """
    env = _env(data, {"backend": backend, "backend_options": backend_options, "checkout": checkout})
    ids = [item.id for item in env.library.items]
    strange = next((id for id in patches if id not in env.library.by_id), None)
    if strange is not None:
        raise BadData(str(UnknownName(no_such("task", strange, ids))))
    outcomes: dict[str, list[str]] = {name: [] for name in ("resolved", "unresolved", "empty_patch")}
    for id, patch in patches.items():
        verdict = Verdict(False, 0.0, 0.0, "The patch is empty.")
        if patch.strip():
            patch = patch.encode("utf-8", "replace").decode()  # JSON may contain lone surrogates
            verdict = _bench(env, id, patch) if isinstance(env, SWEBench) else _own(env, id, patch)
        outcomes["empty_patch" if not patch.strip() else "resolved" if verdict.resolved else "unresolved"].append(id)
        if progress:
            progress(id, verdict)
    missing = [id for id in ids if id not in patches]
    return {
        "total_instances": len(ids),
        "submitted_instances": len(patches),
        "completed_instances": len(outcomes["resolved"]) + len(outcomes["unresolved"]),
        **{f"{name}_instances": len(listed) for name, listed in outcomes.items()},
        "submitted_ids": sorted(patches),
        "completed_ids": sorted([*outcomes["resolved"], *outcomes["unresolved"]]),
        "incomplete_ids": sorted(missing),
        **{f"{name}_ids": sorted(listed) for name, listed in outcomes.items()},
        "schema_version": SCHEMA,
    }


def _env(data: str | None, options: Mapping[str, Any]) -> RepositoryEnv:
    if data is not None and not Path(data).is_file():
        raise FileNotFoundError(2, "no such file of tasks", data)
    kind = SWEBench if data is not None and is_bench(data) else SWE
    return kind(data=data, **{name: value for name, value in options.items() if value is not None})


def _bench(env: RepositoryEnv, id: str, patch: str) -> Verdict:
    assert isinstance(env, SWEBench)
    env.reset(seed=0, options={"task": id})
    row: Row = env.library.find(id)
    return evaluate(row, patch, env.elsewhere, restore=False, timeout=env.grading_timeout)[0]


def _own(env: RepositoryEnv, id: str, patch: str) -> Verdict:
    instance: Instance = env.library.find(id)

    def elsewhere(work: Callable[[Sandbox], T]) -> T:
        sandbox = take(env.backend, limits=env.limits, packages=GRADING, options=env.backend_options)
        try:
            return work(sandbox)
        finally:
            sandbox.close()

    tree = elsewhere(lambda sandbox: patched(sandbox, instance, patch))
    return grade(instance, tree, elsewhere) if tree else Verdict(False, 0.0, 0.0, "The patch does not apply.")


def patched(sandbox: Sandbox, instance: Instance, patch: str) -> dict[str, bytes]:
    """Apply a patch to a task's repository and return the files; empty if it does not apply or the files are too large."""
    sandbox.restore(pack({f"{FOLDER}/{path}": content for path, content in instance.broken().items()}))
    result = sandbox.run(f"cd {FOLDER} && git apply --whitespace=nowarn -", stdin=patch.encode())
    try:
        return unpack(sandbox.snapshot(), FOLDER) if result.ok else {}
    except OSError:  # too large
        return {}
