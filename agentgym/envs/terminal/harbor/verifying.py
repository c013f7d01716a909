"""Verifying: the task's tests run in a container, and the reward that they write is read."""

import io
import tarfile
from collections.abc import Mapping
from typing import Any

from agentgym.envs.terminal.harbor.files import HarborTask
from agentgym.envs.terminal.harbor.rewards import FILES, NoVerdict, rewards_in
from agentgym.errors import BadData
from agentgym.sandbox.protocol import MEGABYTE

REASONS = {"timeout": "took too long", "memory": "took too much memory", "output": "printed too much"}


def verified(task: HarborTask, sandbox: Any) -> dict[str, float]:
    """Run a task's tests in a container and return the rewards that they wrote; NoVerdict where they wrote none.

    Files that the agent put in place of the tests or of a reward are removed first.
    """
    sandbox.run("rm -rf /tests /logs/verifier; mkdir -p /logs/verifier /logs/agent /logs/artifacts")
    for place in ("/tests", *(f"/logs/verifier/{name}" for name in FILES)):
        if _exists(sandbox, place):  # the agent may have replaced rm
            raise NoVerdict(f"{place} was there before, and could not be removed")
    sandbox.copy_in(task.packed("tests"), "/tests")
    variables = [f"{name}={value}" for name, value in own_variables(task.verifier_env, task, "verifier").items()]
    quiet = 'exec "$@" > /logs/verifier/test-stdout.txt 2>&1'
    words = ["/bin/bash", "-c", quiet, "bash", "/usr/bin/env", *variables, "/bin/bash", "/tests/test.sh"]
    result = sandbox.run(words, timeout=task.verifier_seconds)
    if result.reason != "exit":
        raise NoVerdict(f"they {REASONS.get(result.reason, 'were ended')}")
    for name in FILES:
        try:
            content = _content(sandbox.copy_out(f"/logs/verifier/{name}"))
        except FileNotFoundError:
            continue
        except (OSError, tarfile.TarError) as error:
            raise NoVerdict(f"{name} cannot be read: {error}") from None
        return rewards_in(name, content)
    raise NoVerdict("they wrote no reward")


def own_variables(variables: Mapping[str, str], task: HarborTask, table: str) -> dict[str, str]:
    """Return variables of a task; BadData for one that asks for a secret of this machine."""
    for name, value in variables.items():
        if "${" in value:
            raise BadData(
                f"{task.folder / 'task.toml'}: {name} of [{table}.env] is {value!r}, a variable of this machine, and none "
                "is handed on to a container: write its value there, or leave it out"
            )
    return dict(variables)


def _exists(sandbox: Any, path: str) -> bool:
    """Return whether a container holds something at a path, as its daemon sees it."""
    try:
        sandbox.copy_out(path)
    except FileNotFoundError:
        return False
    except OSError:  # too large to be read
        return True
    return True


def _content(archive: bytes) -> bytes:
    """Return the file that an archive holds; OSError where it holds no plain file of at most 1 MiB."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isreg() and member.size <= MEGABYTE else None
            if content is not None:
                return content.read()
    raise OSError("it is not a file of at most 1 MiB")
