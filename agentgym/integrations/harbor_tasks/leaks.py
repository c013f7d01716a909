"""Check that no file that the agent can read contains part of the task's answer."""

from collections.abc import Mapping, Sequence

from agentgym.contract.tasks import shown_in
from agentgym.core.env import TextEnv
from agentgym.integrations.harbor_tasks.kinds import calls

HIDDEN = ("tests/", "solution/", "environment/service/")
"""Path prefixes of files that reach the agent's container only after the agent has finished, or never."""
OUTSIDE = ("task.toml",)
"""Files that only Harbor reads."""
LEAST = 24
"""Minimum characters of an action for the check; a shorter one may be in a file by accident."""
_DATA = (".tar", ".sqlite")
"""Suffixes of files with the task's own data, which may contain words of the answer."""


def leaks(env: TextEnv, files: Mapping[str, bytes], actions: Sequence[str]) -> list[str]:
    """Return the leaks in a task's files, one sentence each; `env` has begun the task, and `actions` solve it.

    Text that the first observation or the task's instruction also contains does not count as a leak.
    """
    found: list[str] = []
    readable = {path: content for path, content in files.items() if not path.startswith(HIDDEN) and path not in OUTSIDE}
    secret = {content for path, content in files.items() if path.startswith(HIDDEN) and len(content) >= LEAST}
    known = f"{env.observation}\n{env.task.instruction}"
    accidents = shown_in(known, env, env.task)
    for path, content in readable.items():
        text = content.decode("utf-8", "replace")
        if content in secret or path.endswith(".whl"):
            found.append(f"{path} is a file of the verifier or of the solution")
        if env.task.id in text and env.task.id not in known:
            found.append(f"{path} names the task, by which agentgym makes it with its answer")
        data = path.endswith(_DATA)
        if any(len(action) >= LEAST and action in text and action not in known for action in _texts(env, actions, data)):
            found.append(f"{path} holds an action of the solution")
        if not data and (answers := shown_in(text, env, env.task) - accidents):
            found.append(f"{path} shows the answer {min(answers)!r:.60}")
    return found


def _texts(env: TextEnv, actions: Sequence[str], data: bool) -> list[str]:
    """Return the texts that the agent's files must not contain: actions, and string arguments of their calls.

    Exceptions: an edit's `old` text is always in a file. In a file of the task's own data (`data`), `new` and `path` do
    not count either: a repository repeats lines such as `parts.append(part)`, and an archive names its files by path.
    """
    names = {"old", "new", "path"} if data else {"old"}
    pairs = [pair for call in calls(env, actions) for pair in call.arguments.items()]
    return [*actions, *(value for name, value in pairs if isinstance(value, str) and name not in names)]
