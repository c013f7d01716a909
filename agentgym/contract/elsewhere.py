"""Play episodes in another process, with another hash seed.

In that process the environment has no state of this process and cannot detect the check. Our own code writes and reads all
messages; nothing from a stranger is unpickled.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence

from agentgym.contract.env_under_test import EnvUnderTest
from agentgym.contract.report import Broken, NotChecked
from agentgym.core.beside import python
from agentgym.core.env import Snapshot
from agentgym.core.seeding import derive

Play = tuple[str, int, Sequence[object]]
"""Episode to play: task id, seed and actions."""


def play_elsewhere(under_test: EnvUnderTest, plays: Sequence[Play]) -> list[list[str]]:
    """Play episodes in another process; return, for each, the repr of its task followed by the responses."""
    return _ask(under_test, "plays", list(plays))


def go_on_elsewhere(under_test: EnvUnderTest, branches: Sequence[tuple[Snapshot, Sequence[object]]]) -> list[list[str]]:
    """Restore snapshots in another process and take each snapshot's actions; return the responses for each snapshot."""
    return _ask(under_test, "branches", list(branches))


def _ask(under_test: EnvUnderTest, what: str, items: list[object]) -> list[list[str]]:
    if under_test.kind.__module__ == "__main__" or "<locals>" in under_test.kind.__qualname__:
        raise NotChecked(f"{under_test.kind.__qualname__} cannot be imported by another process; define it in a module")
    reference = f"{under_test.kind.__module__}:{under_test.kind.__qualname__}"
    try:
        request = pickle.dumps((reference, under_test.options, what, items))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise Broken(f"cannot be sent to another process: {error}") from error
    hash_seed = str(derive("hash", os.environ.get("PYTHONHASHSEED", "")) % 2**32)
    variables = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [*python(), "-c", "from agentgym.core.transcripts import answer; answer()"]
    done = subprocess.run(command, input=request, capture_output=True, env=variables, timeout=600, check=False)
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise Broken(f"another process ended with code {done.returncode}: {error[-1]}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Broken(f"another process ended without an answer; it printed {done.stdout[-200:]!r}") from None
