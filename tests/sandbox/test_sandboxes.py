"""One suite for every backend: what a sandbox does, and what no program in it may do."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nasty import MARK, PROGRAMS, Nasty

import agentgym
from agentgym.errors import BadConfig
from agentgym.sandbox import Limits, Sandbox, sandbox
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.sandbox.local import cgroup
from agentgym.sandbox.protocol import Program
from agentgym.sandbox.working_folder import packed

LIMITS = Limits(timeout=4, memory=256 << 20, processes=40, disk=32 << 20, files=4000)
BACKENDS: dict[str, dict[str, Any]] = {"bubblewrap": {}, "process": {"unsafe": True}}
NO_SANDBOX = {
    *("memory of a tree", "fill the folder", "fill /tmp", "fill /dev/shm", "50,000 files", "300 daemons"),
    *("fork bomb", "thread bomb", "a hidden file", "a link to a hidden file", "the package and its answers"),
    *("environments of others", "kills its parent", "kills all it can", "traces its parent", "new user namespace"),
    *("a port of the host", "writes to the system", "raw devices", "mounts", "set-user-id"),
}
"""What the backend without isolation does not stop (docs/guides/sandbox.md); without a sandbox it would do harm."""


@pytest.fixture(scope="module", params=["bubblewrap", "bubblewrap-without-groups", "process"])
def box(request: Any) -> Iterator[Sandbox]:
    name, _, without = request.param.partition("-")
    if name == "bubblewrap" and missing():
        pytest.skip(missing())
    with pytest.MonkeyPatch.context() as patch:
        if without:  # as where control groups may not be made: the supervisor watches
            patch.setattr(cgroup, "places", dict)
        made: Any = sandbox(name, limits=LIMITS, **BACKENDS[name])
    made.name = name
    yield made
    made.close()


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    secret = tmp_path_factory.mktemp("outside") / "secret"
    secret.write_text("hidden answer")
    secret.chmod(0o644)
    os.environ["AGENTGYM_SECRET"] = "hidden answer"
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield {"{secret}": secret, "{port}": server.getsockname()[1], "{package}": Path(agentgym.__file__).parent}
    del os.environ["AGENTGYM_SECRET"]


def left_behind() -> str:
    """Return the processes of nasty programs that are still there (the pattern matches no other search for them)."""
    return subprocess.run(["pgrep", "-fa", f"[:] {MARK}"], capture_output=True, text=True).stdout


@pytest.mark.long
@pytest.mark.parametrize("nasty", PROGRAMS, ids=lambda nasty: nasty.name)
def test_nasty(box: Any, nasty: Nasty, facts: dict[str, Any]) -> None:
    if box.name == "process" and nasty.name in NO_SANDBOX:
        pytest.skip("no sandbox: see docs/guides/sandbox.md")
    code = nasty.code
    for name, value in facts.items():
        code = code.replace(name, str(value))
    started = time.monotonic()
    result = box.python(code)
    assert time.monotonic() - started < 55  # those that nobody ends sleep for 60 s
    assert result.reason in nasty.ends, result
    assert nasty.says in result.text and not (nasty.never and nasty.never in result.text), result
    assert len(result.stdout) <= LIMITS.output and len(result.stderr) <= LIMITS.output
    assert left_behind() == ""
    again = box.run("rm -rf ~/* 2>/dev/null; echo fine") if box.name != "process" else box.run("echo fine")
    assert (again.stdout, again.reason) == (b"fine\n", "exit"), again


def test_files(box: Any) -> None:
    box.write("a/b c.bin", bytes(range(256)) * 300)
    assert box.read("a/b c.bin") == bytes(range(256)) * 300
    assert box.run(["cat", "a/b c.bin"]).stdout == bytes(range(256)) * 300
    assert box.run("cat x; echo $?", files={"x": b"1\n"}).stdout == b"1\n0\n"
    with pytest.raises(FileNotFoundError):
        box.read("nothing")
    with pytest.raises(IsADirectoryError):
        box.read("a")
    box.run("mkfifo pipe; ln -s /dev/zero endless; ln -s pipe link")
    for name in ("pipe", "endless", "link"):
        with pytest.raises(OSError):
            box.read(name)
    with pytest.raises(ValueError, match="path is ''"):
        box.write("", b"x")


def test_streams_input_and_codes(box: Any) -> None:
    result = box.run("cat; echo out; echo err >&2; exit 3", stdin=b"in\n" * 100_000)
    assert result.stdout == b"in\n" * 100_000 + b"out\n" and result.stderr == b"err\n"
    assert (result.exit_code, result.reason, result.ok) == (3, "exit", False)
    assert box.run("true", stdin=b"x" * 500_000).ok  # which it does not read
    assert box.run(["no-such-program"]).exit_code == 127
    assert box.python("import sys; sys.exit('bye')").stderr == b"bye\n"
    assert box.python("print(input())", stdin="é\n".encode()).stdout == "é\n".encode()


def test_nothing_of_the_caller_and_the_same_every_time(box: Any) -> None:
    first, second = (box.run("env | sort; pwd; locale 2>/dev/null; date +%Z; umask").stdout for _ in range(2))
    assert first == second and b"AGENTGYM" not in first and b"UTC" in first
    hashes = {box.python("print(hash('a'), list({'x', 'y', 'z'}))").stdout for _ in range(3)}
    assert len(hashes) == 1 or box.name == "process"


def test_snapshot_and_restore(box: Any) -> None:
    box.run("rm -rf *; mkdir -p d/e; echo 1 > d/e/f; ln -s d/e/f l; chmod 700 d; chmod +x d/e/f; mkfifo p; printf x > '-rf'")
    state = box.snapshot()
    listing = "find . -not -name p -printf '%p %m %l\n' | sort; cat d/e/f l"
    before = box.run(listing).stdout
    box.run("rm -r d l ./-rf; echo 2 > other; mkdir z")
    box.restore(state)
    assert box.run(listing).stdout == before
    other = sandbox(box.name, limits=LIMITS, **BACKENDS[box.name])
    try:
        other.restore(state)
        assert other.run(listing).stdout == before
    finally:
        other.close()
    with pytest.raises(Exception, match=r"archive|read|header|empty"):
        box.restore(b"no archive")
    assert box.run(listing).stdout == before


def test_a_batch_is_one_program_after_another(box: Any) -> None:
    later = "(setsid sh -c 'sleep 1; echo two > kept' > /dev/null 2>&1 &)"
    leaves = f"rm -rf ./*; echo one > kept; {later}; echo out; echo err >&2; exit 3"
    waits = "import time; time.sleep(1.5); print(open('kept').read(), end='')"
    first, second, late, packing = box.batch(
        [Program(leaves), Program(code=waits), Program(["sleep", "60"], timeout=0.5), box.packing()]
    )
    assert (first.exit_code, first.stdout, first.stderr) == (3, b"out\n", b"err\n")
    assert second.stdout == b"one\n"  # what the first one left running was ended with it
    assert late.reason == "timeout"
    box.run("rm -rf ./*")
    box.restore(packed(packing, box.packing().room))
    assert box.run("ls; cat kept").stdout == b"kept\none\n"


def test_kernel_keeps_its_variables(box: Any) -> None:
    kernel = box.kernel()
    assert kernel.run("x = 20\ndef double(n):\n    return 2 * n").text == ""
    assert kernel.run("double(x) + 2").text == "42\n"
    wrong = kernel.run("print('before')\ndouble(\n  missing)")
    assert wrong.stdout == b"before\n" and b"NameError: name 'missing' is not defined" in wrong.stderr
    assert b'File "<cell 3>", line 3' in wrong.stderr and b"kernel.py" not in wrong.stderr and wrong.exit_code == 1
    assert b"SyntaxError" in kernel.run("if").stderr and b"kernel.py" not in kernel.run("if").stderr
    assert kernel.run("import os\nos.system('echo from a child')").stdout == b"from a child\n0\n"
    assert box.run("echo beside it").text == "beside it\n"
    box.write("shared", b"7")
    assert kernel.run("open('shared').read()").text == "'7'\n"
    kernel.close()
    assert not kernel.alive


@pytest.mark.long
def test_kernel_limits(box: Any) -> None:
    kernel = box.kernel()
    kernel.run("x = 1")
    slow = kernel.run("import time; time.sleep(60)", timeout=0.5)
    assert slow.reason == "timeout" and kernel.alive and b"KeyboardInterrupt" in slow.stderr
    assert kernel.run("x").text == "1\n"
    loud = kernel.run("while True: print('x' * 1000)")
    assert loud.reason == "output" and not kernel.alive and len(loud.stdout) == LIMITS.output
    with pytest.raises(agentgym.EpisodeOver, match=r"variables are lost"):
        kernel.run("x")
    for code, reason, seconds in (
        ("import os; os._exit(5)", "killed", 60),
        ("sum(range(10 ** 12))", "timeout", 2),
        ("import ctypes; ctypes.string_at(0)", "killed", 60),
    ):
        kernel = box.kernel()
        result = kernel.run(code, timeout=seconds)
        assert result.reason == reason and not kernel.alive, (code, result)
    hog = box.kernel()
    result = hog.run("kept = []\nwhile True: kept.append(bytearray(16 << 20))")
    assert result.reason in ("memory", "killed", "timeout") or b"MemoryError" in result.stderr
    assert box.python("print(1)").ok
    assert left_behind() == ""


@pytest.mark.long
def test_a_kernel_that_lies_about_itself(box: Any) -> None:
    for code in (
        "import os; os.write(3, b'\\xff' * 100)",
        "import os, struct; os.write(3, struct.pack('I', 5) + b'[[[[[')",
        "import os; os.close(3)",
        "import os, struct; body = b'{\"status\": \"' + b'[' * 3000; os.write(3, struct.pack('I', len(body)) + body)",
    ):
        kernel = box.kernel()
        kernel.run(code, timeout=1)
        kernel.close()
        assert box.python("print(1)").ok


@pytest.mark.parametrize("backend", ["bubblewrap"])
def test_neighbours_do_not_meet(backend: str) -> None:
    if missing():
        pytest.skip(missing())
    one, two = (sandbox(backend, limits=LIMITS, **BACKENDS[backend]) for _ in range(2))
    try:
        one.write("mine", b"1")
        kernel = one.kernel()
        port = kernel.run("import socket, os; s = socket.create_server(('127.0.0.1', 0)); s.getsockname()[1]").text.strip()
        pid = kernel.run("os.getpid()").text.strip()
        output = two.python(
            f"import os, socket, glob\nprint(glob.glob('*'), glob.glob('/tmp/*'), glob.glob('/dev/shm/*'))\n"
            f"try: socket.create_connection(('127.0.0.1', {port}), 1); print('met')\nexcept OSError: print('refused')\n"
            f"print(sorted(int(n) for n in os.listdir('/proc') if n.isdigit()))"
        ).text
        lines = output.splitlines()
        assert lines[:2] == ["[] [] []", "refused"] and len(lines[2].split(",")) == 2, output
        assert pid and kernel.run("1 + 1").text == "2\n"
    finally:
        one.close()
        two.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sandbox_that_dies_is_a_fault(backend: str) -> None:
    if backend == "bubblewrap" and missing():
        pytest.skip(missing())
    made: Any = sandbox(backend, limits=LIMITS, **BACKENDS[backend])
    made._process.kill()
    made._process.wait()
    time.sleep(0.1)
    with pytest.raises(agentgym.Fault):
        made.run("echo")
    made.close()


def test_no_sandbox_has_to_be_asked_for() -> None:
    with pytest.raises(BadConfig, match=r"does not isolate.*unsafe=True"):
        sandbox("process")
    with pytest.raises(LookupError, match=r"Did you mean 'bubblewrap'"):
        sandbox("bublewrap")


def test_nothing_is_left_of_many(box: Any) -> None:
    def resources() -> tuple[int, list[str]]:
        mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if "agent" in line]
        return len(list(Path("/proc/self/fd").iterdir())), mounts

    before = resources()
    for _ in range(30):
        assert box.python("import os; os.fork(); print(1)").ok
    assert resources() == before
