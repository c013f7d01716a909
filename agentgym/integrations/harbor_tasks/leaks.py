"""Check that the files of a task's folder that the agent can read contain no part of the answer."""

from collections.abc import Mapping, Sequence

from agentgym.contract.tasks import shown_in
from agentgym.core.env import TextEnv
from agentgym.integrations.harbor_tasks.kinds import calls

HIDDEN = ("tests/", "solution/", "environment/service/")
"""Files that never reach the agent's container before its turn is over."""
OUTSIDE = ("task.toml",)
"""Read by Harbor alone."""
LEAST = 24
"""Characters of an action from which it is not in a file by accident."""
_DATA = (".tar", ".sqlite")
"""Files of the task itself, among which the words of an answer may be."""


def leaks(env: TextEnv, files: Mapping[str, bytes], actions: Sequence[str]) -> list[str]:
    """Return the leaks, one sentence each; the environment has begun the task of the files.

    An answer that also appears in the environment's first observation does not count as a leak.
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
    """Return actions and the arguments of calls among them that the agent's files must not contain.

    The text that an edit replaces is in a file by nature. The text that replaces it may be in the task's own files by
    accident (`data`): a repository repeats a line such as `parts.append(part)`. An archive also names its files by path.
    """
    names = {"old", "new", "path"} if data else {"old"}
    pairs = [pair for call in calls(env, actions) for pair in call.arguments.items()]
    return [*actions, *(value for name, value in pairs if isinstance(value, str) and name not in names)]
