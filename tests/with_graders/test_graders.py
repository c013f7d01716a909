"""The graders under the real OpenEnv (0.10.0): environments of its style pass, and each planted fault is found by its id."""

import dataclasses
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openenv", reason="openenv is not installed: ./dev test-graders")
pytest.importorskip("rlvr_openenv_graders", reason="the graders are not installed: ./dev test-graders")
import games
import uvicorn
from openenv.validation.runtime.contracts import RuntimeEvidence
from openenv.validation.types import CheckStatus
from rlvr_openenv_graders.command import Processes, graders, validate

RUNTIME = "seed_control episode_determinism episode_isolation oracle_containment trajectory_record"
SEMANTIC = "oracle_max floor_gap canary_floor no_solution_leakage verifier_determinism replayability"
DECLARED = "tool_declaration_accuracy task_declaration_accuracy"
IDS = [*(f"runtime.{name}" for name in f"{RUNTIME} {DECLARED}".split()), *(f"semantic.{name}" for name in SEMANTIC.split())]
FAULTS = {
    # id: game and fault, three of each
    "runtime.seed_control": ["number:ignores the seed", "words:zero is no seed", "words:first seed only"],
    "runtime.episode_determinism": ["number:chance in answers", "words:tells the time", "locks:counts episodes"],
    "runtime.episode_isolation": [
        "words:keeps what was said",
        "number:shared between sessions",
        "words:one generator for all",
    ],
    "runtime.trajectory_record": [
        "number:records no second step",
        "words:records all episodes",
        "locks:records other rewards",
    ],
    "runtime.tool_declaration_accuracy": ["words:hidden tool", "number:declares a tool too many", "words:misspells a tool"],
    "runtime.task_declaration_accuracy": ["number:wrong count", "words:a split is missing", "locks:last task unreadable"],
    "runtime.oracle_containment": ["number:serves the package", "locks:solution in metadata", "words:action sets the state"],
    "semantic.oracle_max": ["number:half for the solution", "words:refuses the oracle", "locks:no oracle"],
    "semantic.floor_gap": ["number:pays the reset", "words:pays anything", "locks:pays the empty answer"],
    "semantic.canary_floor": ["number:believes claims", "words:believes verdicts", "locks:pays quotes"],
    "semantic.no_solution_leakage": ["number:tells the answer", "words:answer in the state", "locks:answer in metadata"],
    "semantic.verifier_determinism": ["number:noise in rewards", "words:reward by the clock", "locks:reward by number"],
    "semantic.replayability": ["number:serves a task once", "words:serves a task once", "locks:serves a task once"],
}
SEED, PLAY, APART = "runtime.seed_control", "runtime.episode_determinism", "runtime.episode_isolation"
ALSO = {
    "ignores the seed": {PLAY, APART, "semantic.oracle_max", "semantic.replayability"},  # higher or lower: equal by chance
    "first seed only": {APART},
    "chance in answers": {SEED, APART},
    "tells the time": {SEED, APART},
    "counts episodes": {SEED, APART},
    "keeps what was said": {SEED},
    "shared between sessions": {SEED, PLAY},
    "one generator for all": {SEED, PLAY},
    "records all episodes": {SEED, APART},
    "noise in rewards": {SEED, PLAY, APART, "semantic.oracle_max"},
    "reward by the clock": {SEED, PLAY, APART, "semantic.oracle_max"},
    "reward by number": {SEED, PLAY, APART, "semantic.oracle_max", "semantic.replayability"},
}
"""What else is wrong with an environment that has a fault, by the fault: what is random is neither seeded nor apart."""


class Thread(Processes):
    """The server in a thread of the test, which is sooner there than a process."""

    def __init__(self, game: str, fault: str) -> None:
        self.game, self.fault = game, fault

    def start(self, spec: Any) -> Any:
        bound = socket.socket()
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        application = games.served(self.game, self.fault, str(self.root))
        self.server = uvicorn.Server(uvicorn.Config(application, log_level="critical", timeout_graceful_shutdown=1))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [bound]})
        self.thread.start()
        self.base_url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        return self

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(30)


def graded(folder: Path, game: str, fault: str, provider: Any) -> dict[str, Any]:
    for name, text in games.package(game, fault).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return {result.check_id: result for result in validate(folder, provider)[0]}


def test_the_entry_points_are_loaded_by_its_registry() -> None:
    registry = graders()
    assert all(registry.get(id) is not None for id in IDS) and len(IDS) == 13 and set(FAULTS) == set(IDS)


@pytest.mark.parametrize("game", games.GAMES)
def test_an_environment_without_a_fault_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, game: str) -> None:
    here = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
    results = graded(tmp_path, game, "", Processes())
    assert {id: results[id].evidence for id in IDS if results[id].status is not CheckStatus.PASS} == {}
    others = {id: result.status.value for id, result in results.items() if id not in IDS}
    assert others.pop("runtime.network_policy") == "skip" and set(others.values()) == {"pass"}


@pytest.mark.parametrize(("id", "game", "fault"), [(id, *fault.split(":")) for id in IDS for fault in FAULTS[id]])
def test_a_planted_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str, game: str, fault: str) -> None:
    monkeypatch.setattr("rlvr_openenv_graders.runtime.LATER", 0.35)
    results = graded(tmp_path, game, fault, Thread(game, fault))
    assert results[id].status is CheckStatus.FAIL, (results[id], {i: r.status.value for i, r in results.items()})
    assert CheckStatus.ERROR not in {result.status for result in results.values()}
    wrong = {other for other in IDS if other in results and results[other].status is CheckStatus.FAIL}
    assert wrong - {id} <= ALSO.get(fault, set()), wrong


def test_a_server_without_a_record_is_not_judged_for_it(tmp_path: Path) -> None:
    results = graded(tmp_path, "locks", "keeps no record", Thread("locks", "keeps no record"))
    record = results["runtime.trajectory_record"]
    assert record.status is CheckStatus.SKIP and "no state has a record" in record.evidence[0]
    assert CheckStatus.FAIL not in {result.status for result in results.values()}


def test_openenv_has_no_record_of_an_episode_and_no_grader_of_one() -> None:
    """All that graders get of a server (0.10.0) was written by the validator; where this fails, it has a record to judge."""
    fields = {field.name for field in dataclasses.fields(RuntimeEvidence)}
    assert not any("record" in name or "telemetry" in name or "trajectory" in name for name in fields), fields
    assert graders().get("runtime.trajectory_record").__class__.__module__ == "rlvr_openenv_graders.record"
