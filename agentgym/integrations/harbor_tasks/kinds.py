"""The two kinds of exported task: files that the agent edits, or a service that runs next to the agent's container."""

import io
import json
import shlex
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.core.actions import Call, parse_call, spell
from agentgym.core.env import MAX_ACTION, TextEnv
from agentgym.envs.code.env import EXAMPLES, Code
from agentgym.envs.code.text import example
from agentgym.envs.sql.env import CAPITALS, SQL
from agentgym.envs.sql.generate import instances
from agentgym.envs.swe.env import DATE, SWE
from agentgym.envs.swe.tasks.pytest_run import FOLDER as REPOSITORY
from agentgym.envs.terminal.env import EMAIL, Terminal
from agentgym.envs.terminal.scenario import FOLDER, HOME, scenario
from agentgym.envs.terminal.tree import Tree, digest, file, pack, unpack
from agentgym.sandbox.protocol import MEGABYTE

USER = 1000
"""User id of `agent`, in images whose agent is not root."""
PACKED = "/logs/artifacts/handed-in.tar"
"""Path, in the verifier's image, of the archive of the folder that the agent left."""
_SHELL_USER = 20_001
"""User id that runs programs while a shell task is judged."""


class NoSubmission(Exception):
    """The agent left nothing that can be judged: its own failure, with reward 0."""


@dataclass(frozen=True)
class Files:
    """Functions and texts that turn a task of a file-based environment into files of the agent's image."""

    instruction: Callable[[Any], str]
    """Return the agent's instruction; the environment has begun the task."""
    image: Callable[[Any], Mapping[str, bytes]]
    """Return the files of the agent's image by path below `environment/`; they must not contain the answer."""
    lines: str
    """Dockerfile lines that install these files."""
    work: str
    """Working folder of the agent's commands."""
    solve: Callable[[Any, Sequence[Call]], str]
    """Return a shell script with the same effects as the given tool calls."""
    hand_in: Callable[[Any, Path], str]
    """Load the agent's files into the verifier's environment and return the action that ends the episode.

    Raises NoSubmission.
    """
    artifacts: Sequence[str] = ()
    """Paths of the agent's files that Harbor copies to the verifier."""
    packed: str = ""
    """Name of the folder that the verifier gets as an archive; empty for none."""
    user: str = ""
    """Name of the agent's user; empty for root."""
    packages: Sequence[str] = ()
    """Python packages that both images need, pinned to the versions installed here."""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options of the environment inside the verifier."""


def kind_of(env: TextEnv) -> Files | None:
    """Return the conversion of an environment's tasks to files; None if the tasks need a service."""
    return FILES.get(type(env))  # a subclass may need more than files, such as a colleague to ask


def calls(env: TextEnv, actions: Sequence[str]) -> list[Call]:
    """Parse actions and return those that are calls of the environment's tools."""
    parsed = (parse_call(action, env.tools) for action in actions if env.tools)
    return [call for call in parsed if isinstance(call, Call)]


# Terminal


def _terminal_tree(env: Terminal) -> Tree:
    data = env.task.data
    return scenario(data["family"], data["ask"], data["fill"], data["level"]).tree


def _terminal_instruction(env: Terminal) -> str:
    return (
        f"{env.task.instruction}\n\nThe folder is `{HOME}/{FOLDER}`; paths are relative to it. Leave everything that the "
        "task does not mention as it is. The folder is judged as you leave it."
    )


def _shell_script(env: Any, calls: Sequence[Call]) -> str:
    commands = [str(call.arguments["command"]) for call in calls if call.name == "bash"]
    return "\n".join([f"cd {HOME}/{FOLDER}", *commands])


def _terminal_handed_in(env: Terminal, root: Path) -> str:
    env.folder = _archive(root, 2 * env.limits.disk)
    env.key = digest(unpack(env.folder))
    return spell("submit")


# SWE


def _repository_instruction(env: SWE) -> str:
    return (
        f"{env.task.instruction.strip()}\n\nThe repository is in `{env.place}`. Hidden tests decide; changes to tests and "
        "configuration do not count. The folder is judged as you leave it."
    )


def _repository_tree(env: SWE) -> Tree:
    return {path: file(content) for path, content in env.library.find(env.task.id).broken().items()}


def _repository_script(env: SWE, calls: Sequence[Call]) -> str:
    place = shlex.quote(env.place)
    lines = [f"cd {place}"]
    for call in calls:
        if call.name == "bash":
            lines.append(f"( {call.arguments['command']}\n)")
        elif call.name == "edit":
            words = " ".join(shlex.quote(str(call.arguments[name])) for name in ("path", "old", "new"))
            lines.append(f"python3 -c {shlex.quote(_EDIT)} {words}")
    return "\n".join(lines)


_EDIT = (
    "import pathlib, sys; path, old, new = pathlib.Path(sys.argv[1]), *sys.argv[2:]; "
    "before = path.read_bytes().decode() if path.exists() else ''; "
    "path.parent.mkdir(parents=True, exist_ok=True); "
    "path.write_bytes((before.replace(old, new, 1) if old else new).encode())"
)


def _repository_handed_in(env: SWE, root: Path) -> str:
    env.folder = _archive(root, 2 * env.limits.disk)
    return spell("submit")


# Code and SQL: one file each


def _code_instruction(env: Code) -> str:
    data = env.task.data
    lines = [data["statement"]]
    examples = [example(data, test) for test in data["public"][:EXAMPLES] if data["kind"] != "checks"]
    return "\n".join(
        [
            *lines,
            *(["Examples:", *examples] if examples else []),
            "",
            "Write the complete Python code, imports included, to `/app/solution.py`. Hidden tests decide.",
        ]
    )


def _code_script(env: Code, calls: Sequence[Call]) -> str:
    return _written(calls, "submit", "code", "/app/solution.py")


def _code_handed_in(env: Code, root: Path) -> str:
    return json.dumps({"name": "submit", "arguments": {"code": _text(root, "/app/solution.py")}})


def _sql_instruction(env: SQL) -> str:
    data = env.task.data
    return "\n".join(
        [
            f"Question: {data['question']}",
            *([] if data.get("spelled", True) else [CAPITALS]),
            "",
            "Answer it with one SQL query on the SQLite database `/app/database.sqlite` (Python's sqlite3 reads it), and "
            "write the query to `/app/answer.sql`. It is also tried on hidden databases with other contents.",
        ]
    )


def _sql_script(env: SQL, calls: Sequence[Call]) -> str:
    return _written(calls, "answer", "sql", "/app/answer.sql")


def _sql_handed_in(env: SQL, root: Path) -> str:
    return json.dumps({"name": "answer", "arguments": {"sql": _text(root, "/app/answer.sql")}})


def _written(calls: Sequence[Call], name: str, argument: str, path: str) -> str:
    """Return a shell script that writes `argument` of the last call of tool `name` to `path`."""
    texts = [str(call.arguments[argument]) for call in calls if call.name == name]
    return f"printf %s {shlex.quote(texts[-1])} > {path}" if texts else "true"


# Files that the verifier reads; they come from a stranger


def _text(root: Path, path: str) -> str:
    """Return the content of a text file that the agent left.

    Raises:
        NoSubmission: the file is missing, too large or not text.
    """
    place = root / path.removeprefix("/")
    try:
        if place.is_symlink() or not place.is_file() or place.stat().st_size > MAX_ACTION:
            raise NoSubmission(f"{path} is not a file of at most {MAX_ACTION} bytes")
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NoSubmission(f"{path} cannot be read as text: {error}") from None


def _archive(root: Path, most: int) -> bytes:
    """Return the tar archive of the agent's folder, which may unpack to at most `most` bytes.

    Raises:
        NoSubmission: the archive is missing, damaged or too large.
    """
    place = root / PACKED.removeprefix("/")
    if place.is_symlink() or not place.is_file() or place.stat().st_size > most + 64 * MEGABYTE:
        raise NoSubmission(f"{PACKED} is missing or too large")
    try:
        with tarfile.open(place, "r:") as archive:
            if sum(max(member.size, 0) for member in archive) > most:
                raise NoSubmission(f"the folder holds more than {most >> 20} MiB")
        content = place.read_bytes()
        unpack(content)
    except (OSError, tarfile.TarError, ValueError, RecursionError, OverflowError) as error:
        raise NoSubmission(f"{PACKED} cannot be read: {error}") from None
    return content


_AGENT = f"""RUN echo 'agent:x:{USER}:{USER}:agent:{HOME}:/bin/bash' >> /etc/passwd && \\
    echo 'agent:x:{USER}:' >> /etc/group && mkdir -p {HOME} && chown agent:agent {HOME} && chmod 700 {HOME}
ENV EMAIL={EMAIL}
ADD files.tar {HOME}/
"""
_GIT = """RUN command -v git > /dev/null && command -v ps > /dev/null || \\
    (apt-get update && apt-get install --yes --no-install-recommends git procps && rm -rf /var/lib/apt/lists/*)
"""
_COMMIT = f"""USER agent
RUN cd {HOME}/{REPOSITORY} && export GIT_AUTHOR_DATE={DATE} GIT_COMMITTER_DATE={DATE} && \\
    git -c init.defaultBranch=main init -q --template= && git add -A && \\
    git -c user.name=agent -c user.email=agent@localhost -c gc.auto=0 commit -q -m "The repository"
USER root
"""
SANDBOX: Mapping[str, object] = {"backend": "process", "backend_options": {"unsafe": True, "user": "own"}}
"""Sandbox options inside a disposable container: every program runs as a separate user that cannot read an answer."""
FILES: Mapping[type[TextEnv], Files] = {
    Terminal: Files(
        _terminal_instruction,
        lambda env: {"files.tar": _owned(pack(_terminal_tree(env), FOLDER))},
        _GIT + _AGENT,
        f"{HOME}/{FOLDER}",
        _shell_script,
        _terminal_handed_in,
        packed=FOLDER,
        user="agent",
        options={
            "backend": "process",
            "backend_options": {"unsafe": True, "user": _SHELL_USER, "work": HOME},
        },
    ),
    SWE: Files(
        _repository_instruction,
        lambda env: {"files.tar": _owned(pack(_repository_tree(env), REPOSITORY))},
        _GIT + _AGENT + _COMMIT,
        f"{HOME}/{REPOSITORY}",
        _repository_script,
        _repository_handed_in,
        packed=REPOSITORY,
        user="agent",
        packages=("pytest", "packaging", "pygments"),
        options=SANDBOX,
    ),
    Code: Files(
        _code_instruction,
        lambda _: {},
        "RUN mkdir -p /app\n",
        "/app",
        _code_script,
        _code_handed_in,
        artifacts=("/app/solution.py",),
        options=SANDBOX,
    ),
    SQL: Files(
        _sql_instruction,
        lambda env: {"database.sqlite": instances(env.task.data)[0]},
        "COPY database.sqlite /app/database.sqlite\n",
        "/app",
        _sql_script,
        _sql_handed_in,
        artifacts=("/app/answer.sql",),
    ),
}


def _owned(archive: bytes) -> bytes:
    """Return a copy of a tar archive in which user `agent` owns all files."""
    source, target = io.BytesIO(archive), io.BytesIO()
    with tarfile.open(fileobj=source) as read, tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as written:
        for member in read:
            member.uid = member.gid = USER
            member.uname = member.gname = "agent"
            written.addfile(member, read.extractfile(member) if member.isreg() else None)
    return target.getvalue()
