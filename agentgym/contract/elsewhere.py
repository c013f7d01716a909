"""Play in another process, with another hash seed: nothing of this process can be leaned on there.

What goes in and out is made by this module at both ends; nothing of a stranger's is unpickled.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from agentgym.contract.env_under_test import EnvUnderTest, go_on, transcript
from agentgym.contract.report import Broken, NotChecked
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.seeding import derive
from agentgym.registry import load

Play = tuple[str, int, Sequence[object]]
"""Task id, seed and actions."""


def play_elsewhere(under_test: EnvUnderTest, plays: Sequence[Play]) -> list[list[str]]:
    """Return the responses that another process gives, the task itself first."""
    return _ask(under_test, "plays", list(plays))


def go_on_elsewhere(under_test: EnvUnderTest, branches: Sequence[tuple[Snapshot, Sequence[object]]]) -> list[list[str]]:
    """Return the responses from snapshots that another process restores."""
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
    command = [sys.executable, "-c", "from agentgym.contract.elsewhere import answer; answer()"]
    done = subprocess.run(command, input=request, capture_output=True, env=variables, timeout=600, check=False)
    if done.returncode:
        error = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise Broken(f"another process ended with code {done.returncode}: {error[-1]}")
    return pickle.loads(done.stdout)


def answer() -> None:
    """Be the other process: read what to play from standard input, write the responses to standard output."""
    reference, options, what, items = pickle.loads(sys.stdin.buffer.read())
    kind = cast("Callable[..., TextEnv]", load(reference, "env", {}))
    with contextlib.redirect_stdout(sys.stderr):  # what an environment prints must not mix with the answer
        responses = _play_all(kind(**options), what, items)
    sys.stdout.buffer.write(pickle.dumps(responses))


def _play_all(env: TextEnv, what: str, items: list[Any]) -> list[list[str]]:
    if what == "branches":
        return [go_on(env, state, actions) for state, actions in items]
    runs = [(env.find(task_id), seed, actions) for task_id, seed, actions in items]
    return [[repr(task), *transcript(env, task, seed, actions)] for task, seed, actions in runs]
