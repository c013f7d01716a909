"""Verification: run a step's tests in the agent's container or in a separate one, and read the reward they write."""

import contextlib
import io
import tarfile
from typing import Any

from agentgym.envs.terminal.harbor import artifacts, tables
from agentgym.envs.terminal.harbor.containers import Containers
from agentgym.envs.terminal.harbor.files import HarborTask, packed
from agentgym.envs.terminal.harbor.rewards import FILES, NoVerdict, rewards_in
from agentgym.envs.terminal.harbor.steps import Place, Step
from agentgym.errors import RULED_OUT, BadConfig, Fault, Reason
from agentgym.sandbox.protocol import MEGABYTE, ExitReason

REASONS = {"timeout": "took too long", "memory": "took too much memory", "output": "printed too much"}
_LOGS = "/logs/agent /logs/artifacts"
NEW_LOGS = f"rm -rf {_LOGS}; mkdir -p {_LOGS}; chmod 777 {_LOGS}"
"""Command that resets the log folders before an agent's phase."""


def verified(task: HarborTask, step: Step, sandbox: Any, containers: Containers) -> dict[str, float]:
    """Run the tests of a step on the agent's container `sandbox`, and return the rewards by name.

    If the tests run in that container, files that the agent put in the folders of tests and rewards are removed first; tests
    and rewards are removed afterwards. A separate verifier receives only the artifacts.

    Raises:
        NoVerdict: the tests give no reward.
        Fault: the container of a separate verifier cannot be created.
    """
    own = step.verifier.place
    if own is None:
        containers.connect(sandbox, task.steps[0].network, step.verifier.network, task.name)
        keeper = _keeper(sandbox, step)
        _clear(sandbox, "/tests", "/logs/verifier", keeper=keeper)
        sandbox.copy_in(packed(step.tests), "/tests")
        if keeper:
            sandbox.run(f"chown -R {keeper} /tests; chmod 700 /tests")
        rewards = _run(task, step, task.place, sandbox)
        _clear(sandbox, "/tests", "/logs/verifier", keeper=keeper)
        return rewards
    found = artifacts.collect(sandbox, task.place.work, step.hooks, step.artifacts)
    if containers.backend == "docker":
        sandbox.reconnect()  # disconnects processes the agent left running
    with contextlib.ExitStack() as stack:
        try:
            other = stack.enter_context(containers.made(own, step.verifier.network, task.file))
        except BadConfig as error:  # such as an image that cannot be built: the agent has no part in it
            raise Fault(f"{RULED_OUT}{error}", reason=Reason.CRASH) from error
        artifacts.put(other, found)
        _clear(other, "/logs/verifier")
        if not step.verifier.bundled:
            other.copy_in(packed(step.tests), "/tests")
        return _run(task, step, own, other)


def _clear(sandbox: Any, *places: str, keeper: str = "") -> None:
    """Remove folders, create the log folders; with `keeper` (a user id), only that user can access tests and rewards.

    Raises:
        NoVerdict: a file could not be removed.
    """
    closed = f"mkdir -m 700 /tests /logs/verifier; chown {keeper} /tests /logs/verifier; " if keeper else ""
    logs = _LOGS if keeper else f"/logs/verifier {_LOGS}"
    sandbox.run(f"rm -rf {' '.join(places)}; {closed}mkdir -p {logs}; chmod 777 {logs}")
    for place in (
        *(place for place in places if place == "/tests" and not keeper),
        *(f"/logs/verifier/{name}" for name in FILES),
    ):
        if _exists(sandbox, place):  # the agent may have replaced rm
            raise NoVerdict(f"{place} could not be removed")


def _keeper(sandbox: Any, step: Step) -> str:
    """Return the id of the user that runs the tests if access to them must be restricted to that user; else empty.

    Access is restricted if processes of the agent may survive. This is impossible if the agent is root or the same user as
    the tests; then the agent can access the tests as in Harbor.
    """
    if not getattr(getattr(sandbox, "spec", None), "background", False):
        return ""  # nothing of the agent runs any more
    users = (step.user, step.verifier.user)
    agent, tests = (sandbox.run_as(user, ["/bin/sh", "-c", "id -u"]).stdout.decode().strip() for user in users)
    return tests if agent.isdigit() and tests.isdigit() and agent not in ("0", tests) else ""


def _run(task: HarborTask, step: Step, place: Place, sandbox: Any) -> dict[str, float]:
    verifier = step.verifier
    variables = tables.resolved(verifier.variables, "verifier", task.file)
    assignments = [f"{name}={value}" for name, value in variables.items()]
    quiet = 'cd -- "$1" && shift && exec "$@" > /logs/verifier/test-stdout.txt 2>&1'
    words = ["/bin/bash", "-c", quiet, "bash", place.work, "/usr/bin/env", *assignments, "/bin/bash", "/tests/test.sh"]
    result = sandbox.run_as(verifier.user, words, timeout=verifier.seconds)
    if result.reason != ExitReason.EXIT:
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


def _exists(sandbox: Any, path: str) -> bool:
    """Return True if a path exists in a container, according to the daemon rather than to programs of the container."""
    try:
        sandbox.copy_out(path)
    except FileNotFoundError:
        return False
    except OSError:  # too large to be read
        return True
    return True


def _content(archive: bytes) -> bytes:
    """Return the content of the first small regular file in a tar archive.

    Raises:
        OSError: the archive has no regular file of at most 1 MiB.
    """
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isreg() and member.size <= MEGABYTE else None
            if content is not None:
                return content.read()
    raise OSError("it is not a file of at most 1 MiB")
