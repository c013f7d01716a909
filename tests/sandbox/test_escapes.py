"""What no program may do in a sandbox that isolates, beyond the table of inputs that every backend is run through."""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from escapes import ESCAPES
from nasty import Nasty

from agentgym.sandbox import Limits, Sandbox, sandbox
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.sandbox.local import cgroup

LIMITS = Limits(timeout=4, memory=128 << 20, processes=40, disk=32 << 20, files=4000)
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module", params=["with groups", "without groups"])
def box(request: Any) -> Iterator[Sandbox]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "without groups":
            patch.setattr(cgroup, "places", dict)
        made = sandbox(limits=LIMITS)
    yield made
    made.close()


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    name = f"agentgym-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        yield name


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_escape(box: Any, escape: Nasty, name: str) -> None:
    started = time.monotonic()
    result = box.python(escape.code.replace("{socket}", name))
    assert time.monotonic() - started < 55  # those that nobody ends sleep for 60 s
    assert result.reason in escape.ends, result
    assert escape.says in result.text and not (escape.never and escape.never in result.text), result
    assert box.run("rm -rf ~/* ; echo fine").text == "fine\n"


def test_neighbours_reach_neither_memory_nor_processes() -> None:
    one, two = sandbox(limits=LIMITS), sandbox(limits=LIMITS)
    with one, two:  # type: ignore[attr-defined]
        kernel = one.kernel()
        pid = int(kernel.run("secret = 'hidden answer'\nimport os, ctypes\nos.getpid()").text)
        place = int(kernel.run("id(secret)").text)
        outer = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if b"/fork_server." in _command(folder)]
        code = f"""
import os, signal
def mine(pid): return pid in (1, os.getpid())
for pid in {[pid, *outer]}:
    try:
        file = open(f'/proc/{{pid}}/mem', 'rb')
        file.seek({place})
        print('read', file.read(60))
    except (OSError, ValueError): pass
    for name in ('root/home/agent', 'cwd', 'fd'):
        try:
            found = os.listdir(f'/proc/{{pid}}/{{name}}')
            if not mine(pid): print('listed', found)
        except OSError: pass
    try:
        if not mine(pid):
            os.kill(pid, signal.SIGKILL)
            print('killed')
    except OSError: pass
print('end')
"""
        output = two.python(code).text
        assert output.endswith("end\n") and "hidden" not in output and "listed" not in output and "killed" not in output, (
            output
        )
        assert kernel.run("secret").text == "'hidden answer'\n"
        assert one.run("echo alive").text == two.run("echo alive").text == "alive\n"


def _command(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def test_odd_requests() -> None:
    with sandbox(limits=LIMITS) as box:  # type: ignore[attr-defined]
        assert box.run(["x" * (8 << 20)]).exit_code == 127
        assert box.run(["echo", "x" * (3 << 20)]).exit_code == 127  # longer than an argument may be
        assert box.run(["echo", "\udcff"]).stdout == b"\xff\n"
        assert box.run(["echo", "a\0b"]).exit_code == 1
        assert box.run(["echo", "\ud800"]).exit_code == 1
        assert box.run([""]).exit_code == 1
        assert box.python("\ud800").exit_code == 1 and box.python("a\0b").exit_code == 1
        assert box.python("(" * 100_000).reason in ("exit", "killed")
        assert box.python("x = " + "-" * 200_000 + "1").reason in ("exit", "killed")
        assert box.python("print(1)" + " " * (20 << 20)).text == "1\n"
        for path in ("a/\udcff", "x" * 255):
            box.write(path, b"1")
            assert box.read(path) == b"1"
        for path in ("x" * 256, "x/" * 3000 + "x", "/proc/sys/kernel/hostname", "/etc/passwd", "/opt/agentgym/kernel.py"):
            with pytest.raises(OSError):
                box.write(path, b"1")
        for path in ("", "a\0b", "\ud800"):
            with pytest.raises(ValueError, match="path is"):
                box.write(path, b"1")
        assert box.run("echo fine").text == "fine\n"
