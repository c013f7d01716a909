"""Call the code of a data set's own repository in a separate Python process."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from agentgym.sandbox.protocol import SandboxFault

SECONDS = 120.0
"""Time limit of a call, in seconds."""
MEMORY = 4 << 30
"""Limit of the process's address space in bytes; a log written by the model's code could exhaust memory."""
_ANSWER = f"""
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
root, answers = sys.argv[1], os.dup(1)
os.dup2(2, 1)  # whatever the code prints is no answer
sys.path[:0] = [root] if root else []
question = json.load(sys.stdin)
"""
_GIVE = "\nwith os.fdopen(answers, 'w') as file:\n    json.dump(answer, file)\n"


def answered(root: Path | None, program: str, question: object) -> object:
    """Run a Python program that reads the variable `question` and sets `answer`, both JSON values; return the answer.

    None if the program raises or takes longer than `SECONDS`. `root`, unless None, is prepended to the program's
    `sys.path`.
    """
    command = [sys.executable, "-I", "-B", "-c", _ANSWER + program + _GIVE, "" if root is None else str(root.absolute())]
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    try:
        done = subprocess.run(
            command, input=json.dumps(question).encode(), env=env, capture_output=True, timeout=SECONDS, check=True
        )
        return json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        return None


def answer_about_log(root: Path | None, program: str, question: dict[str, object]) -> object:
    """Return a program's answer to a question with the key `log`; None if the program fails on this log only.

    The model's code may have printed the log, so such a failure is the model's.

    Raises:
        SandboxFault: the program fails on an empty log, too.
    """
    answer = answered(root, program, question)
    if answer is None and answered(root, program, {**question, "log": ""}) is None:
        raise SandboxFault(f"the code that reads logs in {root or 'the installed package'} fails on an empty log, too")
    return answer


@cache
def names(root: Path | None, program: str) -> frozenset[str]:
    """Return the names that a program lists; cached per process.

    Raises:
        ValueError: the program fails.
    """
    listed = answered(root, program, None)
    if not isinstance(listed, list):
        raise ValueError(f"the code in {root or 'the installed package'} cannot be run by {sys.executable}")
    return frozenset(map(str, listed))  # pyright: ignore[reportUnknownArgumentType]
