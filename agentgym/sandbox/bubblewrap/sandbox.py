"""The default sandbox on Linux: bubblewrap isolates a fork server, which starts every program (see `fork_server.py`)."""

import importlib.util
import marshal
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from agentgym.errors import BadConfig, how_to_install
from agentgym.sandbox.local.fork_server_sandbox import LOADED_WITH, ForkServerSandbox
from agentgym.sandbox.protocol import Limits
from agentgym.sandbox.seccomp import denied_calls

NOBODY = "65534"
FORK_SERVER = Path("/opt/agentgym/fork_server.pyc")


class Bubblewrap(ForkServerSandbox):
    """A sandbox that bubblewrap isolates. `packages` are importable libraries, preloaded in its Python.

    Raises BadConfig if bubblewrap or pyseccomp is missing, SandboxFault if the sandbox does not start.
    """

    def __init__(self, limits: Limits | None = None, *, packages: Sequence[str] = ()) -> None:
        problem = missing()
        if problem:
            raise BadConfig(problem)
        super().__init__(limits, packages)

    def _own_settings(self) -> dict[str, object]:
        return {"isolated": True, "user": 0, "filter": denied_calls().hex()}

    def _temporary(self) -> str | None:
        """Return a folder for temporary files that unprivileged users can reach, if we run as root; None for the default."""
        for place in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/run") if os.geteuid() == 0 else ():
            path = Path(place).resolve()
            if path.is_dir() and all(folder.stat().st_mode & 1 for folder in (path, *path.parents)):
                return place
        return None

    def _command(self, packages: Sequence[str], stage: Path) -> list[str]:
        """Return the command that starts the fork server.

        If we run as root, the command first mounts folders that only root can reach, then drops privileges.
        """
        prefix = Path(sys.base_prefix)
        package_mounts = {f"/opt/packages/{path.name}": path for name in packages for path in package_paths(name)}
        if not prefix.is_relative_to("/usr"):
            package_mounts[str(prefix)] = prefix
        root, mounts = os.geteuid() == 0, ""
        stage.chmod(0o755)
        for number, (inner, outer) in enumerate(package_mounts.items() if root else ()):
            place = package_mounts[inner] = stage / str(number)
            place.mkdir() if outer.is_dir() else place.touch()
            mounts += f"mount --bind {shlex.quote(str(outer.resolve()))} {shlex.quote(str(place))} && "
        package_mounts |= _copied(stage)
        binds = [word for inner, outer in package_mounts.items() for word in ("--ro-bind", str(outer), inner)]
        fork_server = [_python(), "-s", "-S", "-P", str(FORK_SERVER)]
        command = [_program("bwrap"), *_SYSTEM, *binds, *_masked(), *_LAST, "--", *fork_server]
        if not root:
            return command
        drop = [*_dropped(), *command]
        private = [_program("unshare"), "--mount", "--propagation", "private"]
        return [*(private if mounts else ()), "/bin/sh", "-c", f'{mounts}exec "$@"', "sh", *drop]


def missing() -> str:
    """Return a sentence on a requirement that this machine lacks and how to install it; empty if nothing is missing."""
    if sys.platform != "linux":
        return f"the bubblewrap sandbox needs Linux, and this is {sys.platform}: use backend='docker'"
    needed = {"bwrap": "bubblewrap", **({"setpriv": "util-linux", "unshare": "util-linux"} if os.geteuid() == 0 else {})}
    absent = [package for program, package in needed.items() if shutil.which(program) is None]
    if absent:
        return f"the bubblewrap sandbox needs {absent[0]}: apt install {absent[0]} (or the like on other systems)"
    if importlib.util.find_spec("pyseccomp") is None:
        return f"the bubblewrap sandbox needs pyseccomp: {how_to_install('sandbox')}"
    if refusal := _refusal():
        return (
            f"bubblewrap cannot create a sandbox here, which is common in containers ({refusal}): see docs/guides/sandbox.md"
        )
    return ""


@cache
def _refusal() -> str:
    """Return bubblewrap's error if it may not create namespaces or mounts, as in many containers; else empty."""
    command = [*_dropped(), _program("bwrap"), *_SYSTEM, *_masked(), *_LAST, "--", "/usr/bin/true"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:  # a busy machine proves nothing
        return ""
    refused = done.returncode != 0 and re.search("permi|denied", done.stderr)  # unlike a lack of processes or memory
    return done.stderr.strip().splitlines()[-1] if refused else ""


def _dropped() -> list[str]:
    """Return the command prefix that turns root into an unprivileged user; empty for other users."""
    if os.geteuid() != 0:
        return []
    return [_program("setpriv"), "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]


def _program(name: str) -> str:
    return shutil.which(name) or name


def _copied(stage: Path) -> dict[str, Path]:
    """Copy the sandbox's own files to `stage`, readable by every user; return the copies by path in the sandbox."""
    mounts: dict[str, Path] = {}
    for inner, content in _inside().items():
        mounts[inner] = stage / Path(inner).name
        mounts[inner].write_bytes(content)
        mounts[inner].chmod(0o644)
    return mounts


@cache
def _inside() -> dict[str, bytes]:
    """Return the sandbox's own files by path in the sandbox; code is compiled, which saves time and memory."""
    here = Path(__file__).parent
    code_inside = here.parent / "inside"
    files = {f"/etc/{path.stem}": path.read_bytes() for path in (here / "etc").iterdir()}
    for name in ("fork_server", "system", "processes", "kernel"):
        place = f"{FORK_SERVER.parent}/{name}.pyc"
        code = compile((code_inside / f"{name}.py").read_bytes(), place, "exec", dont_inherit=True, optimize=2)
        flags_and_hash = (1).to_bytes(4, "little") + bytes(8)  # PEP 552: unchecked
        files[place] = importlib.util.MAGIC_NUMBER + flags_and_hash + marshal.dumps(code)
    return files


def package_paths(name: str) -> list[Path]:
    """Return an installed library's paths for the sandbox: its folder or file, and its shared objects.

    A module of the standard library needs no paths.

    Raises:
        BadConfig: the library is not installed.
    """
    if name in sys.stdlib_module_names:  # present already, only preloaded
        return []
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise BadConfig(f"package {name!r} for the sandbox is not installed here: pip install {name}")
    origin = Path(spec.origin)
    path = origin.parent if origin.name == "__init__.py" else origin
    libraries = path.with_name(f"{name}.libs")
    return [path, *([libraries] if libraries.is_dir() else [])]


_SYSTEM = [
    *("--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--die-with-parent"),
    *(
        "--clearenv",
        "--setenv",
        "PYTHONHASHSEED",
        "0",
        "--cap-add",
        "ALL",
        "--ro-bind",
        "/usr",
        "/usr",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
    ),
    *(word for name in ("bin", "sbin", "lib", "lib32", "lib64") for word in ("--ro-bind-try", f"/{name}", f"/{name}")),
    *(
        word
        for name in ("ld.so.cache", "alternatives", "localtime", "magic", "mime.types", "ssl/openssl.cnf")
        for word in ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    ),
    *(word for name, value in LOADED_WITH.items() for word in ("--setenv", name, value)),
    *("--dir", "/home/agent", "--tmpfs", "/tmp", "--dir", "/dev/shm"),
]
_LAST = ["--chdir", "/", "--remount-ro", "/dev", "--remount-ro", "/"]


def _python() -> str:
    """Return the path of the sandbox's interpreter: the current Python outside its virtual environment."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(Path(sys.base_prefix) / "bin" / version)


def _masked() -> list[str]:
    """Return options that hide this package, which contains answers, if it is among the system's libraries."""
    package = Path(__file__).parents[2].resolve()
    places = (Path("/usr"), Path(sys.base_prefix).resolve())
    return ["--tmpfs", str(package)] if any(package.is_relative_to(place) for place in places) else []
