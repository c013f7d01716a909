"""No step of an environment that runs in the training process holds its event loop, whatever the action is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import agentgym
from agentgym.errors import BadConfig, BadData, MissingExtra
from agentgym.registry import ENVS

PROGRAM = Path(__file__).parents[1] / "fakes" / "hostile_steps.py"
LONGEST = 1.0
"""Seconds of CPU time; 0.05 were the most that was seen."""


def in_process():
    """Return the ids of environments that run in this process, of those that can be made here without data."""
    found = []
    for id in sorted(ENVS):  # not what other tests register
        try:
            env = agentgym.make(id)
        except (BadConfig, BadData, MissingExtra):
            continue
        if not env.blocking:
            found.append(id)
        env.close()
    return found


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_no_step_holds_the_event_loop_for_a_second(every):
    ids = in_process()
    assert {"rlvr/SQL-v0", "rlvr/Search-v0", "rlvr/Household-v0", "rlvr/Shop-v0", "rlvr/Desk-v0"} <= set(ids)
    done = subprocess.run([sys.executable, PROGRAM, str(every), *ids], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{done.returncode} at {lines[-1:]}: {done.stderr[-2000:]}"
    rows = {row["id"]: row for row in map(json.loads, lines) if "worst" in row}
    assert list(rows) == ids and all(row["steps"] > 10 for row in rows.values())
    assert {id: row for id, row in rows.items() if row["worst"] > LONGEST} == {}
