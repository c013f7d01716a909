"""When a sandbox begins and ends: with no thread, fork or exit of its owner, and nothing of it stays behind."""

import gc
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentgym
from agentgym.errors import BadConfig
from agentgym.sandbox import Limits, SandboxFault, sandbox
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.sandbox.local import cgroup, fork_server_sandbox
from agentgym.sandbox.warm_pool import take

LIMITS = Limits(timeout=5, memory=256 << 20, processes=40, disk=16 << 20, files=4000)
BACKENDS: dict[str, dict[str, Any]] = {"bubblewrap": {}, "process": {"unsafe": True}}
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(params=BACKENDS)
def backend(request: Any) -> str:
    return request.param


@pytest.fixture
def box(backend: str) -> Iterator[Any]:
    made: Any = sandbox(backend, limits=LIMITS, **BACKENDS[backend])
    yield made
    made.close()


def resources() -> tuple[int, list[Path]]:
    """Return the open files, and the groups and folders of sandboxes that this process has made."""
    gc.collect()
    groups = [path for place in cgroup.places().values() for path in place.glob(f"{cgroup.PREFIX}{os.getpid()}-*")]
    return len(list(Path("/proc/self/fd").iterdir())), groups


def left(before: tuple[int, list[Path]]) -> bool:
    """Whether more is held than before; less may be, where another test's last file was closed meanwhile."""
    files, groups = resources()
    return files > before[0] or groups != before[1]


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def gone(pid: int) -> bool:
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_a_sandbox_outlives_the_thread_that_asked_for_it(backend: str) -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(sandbox(backend, limits=LIMITS, **BACKENDS[backend])))
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert made[0].run("echo here").text == "here\n"
    made[0].close()


def test_a_sandbox_that_nobody_holds_is_closed(backend: str) -> None:
    sandbox(backend, **BACKENDS[backend]).close()  # what is made once and stays
    before = resources()
    made: Any = sandbox(backend, limits=LIMITS, **BACKENDS[backend])
    pid, work = made._process.pid, made.work
    kernel = made.kernel()
    del made
    assert kernel.run("1 + 1").text == "2\n"  # which holds it
    del kernel
    assert not left(before) and gone(pid)
    assert backend == "bubblewrap" or not Path(work).exists()


def test_close_twice_and_use_afterwards(box: Any) -> None:
    kernel = box.kernel()
    box.close()
    box.close()
    with pytest.raises(SandboxFault, match="sandbox is gone"):
        box.run("true")
    with pytest.raises(SandboxFault):
        kernel.run("1")
    kernel.close()
    kernel.close()


@pytest.mark.long
def test_what_cannot_be_started_leaves_no_file_open(box: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    box.run("true")
    before = resources()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    for room in range(12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] + room, limit[1]))
        for start in (lambda: box.run("true"), box.kernel):
            try:
                start()
            except OSError as error:
                assert "open files" in str(error)
    resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    assert not left(before)
    box._process.kill()
    box._process.wait()
    before = resources()
    for _ in range(3):
        with pytest.raises(SandboxFault):
            box.kernel()
        with pytest.raises(SandboxFault):
            box.run("true")
    assert not left(before)


def test_a_sandbox_that_does_not_start_leaves_nothing(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox(backend, **BACKENDS[backend]).close()
    before = resources(), children()
    monkeypatch.setattr(fork_server_sandbox, "_ONCE_TOLD", ("/bin/sh", "-c", "echo no room >&2; exit 1", "sh"))
    with pytest.raises(SandboxFault, match="no room"):
        sandbox(backend, **BACKENDS[backend])
    assert not left(before[0]) and children() == before[1]


def test_more_files_than_select_can_wait_for(box: Any) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[1] < 2000:
        pytest.skip(f"at most {limit[1]} files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], 2000), limit[1]))
    descriptors = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        kernel = box.kernel()
        assert kernel.run("1 + 1").text == "2\n" and kernel.run("while True: pass", 0.2).reason == "timeout"
        assert box.run("cat", stdin=b"x").text == "x"
    finally:
        for file in descriptors:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)


SCRIPT = """
import os, sys
from agentgym.sandbox import sandbox
from agentgym.sandbox.local import cgroup
box = sandbox({backend!r}, **{options!r})
kernel = box.kernel()
kernel.run("import subprocess; subprocess.Popen(['sleep', '60'])")
names = [str(path) for place in cgroup.places().values() for path in place.glob(cgroup.PREFIX + str(os.getpid()) + '-*')]
print(box._process.pid, box.work, *names, flush=True)
{end}
"""


@pytest.mark.long
@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "os.kill(os.getpid(), 9)"])
def test_nothing_stays_when_the_owner_ends(backend: str, end: str) -> None:
    script = SCRIPT.format(backend=backend, options=BACKENDS[backend], end=end)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    pid, work, *groups = done.stdout.split()
    assert gone(int(pid)), done
    if "kill" not in end:
        assert not any(Path(group).exists() for group in groups), groups
        assert backend == "bubblewrap" or not Path(work).exists()
        return
    for place in cgroup.places().values():  # the next process sweeps up after one that had no chance to
        for _ in range(100):
            cgroup._sweep(place)
    assert not any(Path(group).exists() for group in groups), groups


def test_a_forked_process_leaves_the_sandboxes_of_the_other_alone(box: Any) -> None:
    waiting = take(limits=LIMITS)  # and another of the kind waits in the warm pool
    child = os.fork()
    if not child:
        try:
            mine = sandbox(limits=LIMITS)
            fine = mine.run("echo mine").text == "mine\n"
            other = take(limits=LIMITS)
            fine = fine and other.run("echo other").text == "other\n"
            for made in (mine, other, box, waiting):
                made.close()
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert box.run("echo here").text == "here\n" and waiting.run("echo here").text == "here\n"
    waiting.close()


def test_a_program_that_stops_its_supervisor_is_a_fault_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_server_sandbox, "START", 1.0)
    box: Any = sandbox("process", unsafe=True, limits=Limits(timeout=1))
    with pytest.raises(SandboxFault, match="did not say within 2 s"):
        box.python("import os, time; os.kill(os.getppid(), 19); time.sleep(60)")
    box.close()
    assert (
        subprocess.run(["pgrep", "-f", "fork_server"], capture_output=True, text=True).stdout.find(str(box._process.pid)) < 0
    )


def test_a_folder_for_temporary_files_that_is_closed_to_others(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with sandbox(backend, packages=["numpy"], **BACKENDS[backend]) as box:  # type: ignore[attr-defined]
        assert box.python("import numpy; print(numpy.arange(2))").text == "[0 1]\n"
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_could_not_be_set_up_is_a_fault() -> None:
    with sandbox("process", unsafe=True) as box:  # type: ignore[attr-defined]
        box.run("rm -r $PWD")
        with pytest.raises(SandboxFault, match="could not run the program: FileNotFoundError"):
            box.run("true")


def test_a_package_that_cannot_be_imported_is_named(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "brokenpackage.py").write_text("import nothing_of_the_kind\n")
    monkeypatch.syspath_prepend(tmp_path)
    expected = (
        r"'brokenpackage' cannot be imported in the sandbox: ModuleNotFoundError: No module named 'nothing_of_the_kind'"
    )
    if backend == "process":
        expected = r"'brokenpackage' cannot be imported in the sandbox: ModuleNotFoundError"
    with pytest.raises(BadConfig, match=expected):
        sandbox(backend, packages=["brokenpackage"], **BACKENDS[backend])


def test_a_time_limit_that_is_none_is_refused(box: Any) -> None:
    kernel = box.kernel()
    for timeout in (0, -1, 0.0, float("nan"), float("inf")):
        for run in (lambda: box.run("true", timeout=timeout), lambda: kernel.run("1", timeout)):
            with pytest.raises(BadConfig, match=r"timeout is .*expected seconds above 0"):
                run()
        with pytest.raises(BadConfig, match="limit timeout of a sandbox is"):
            Limits(timeout=timeout)
    assert kernel.run("1").text == "1\n"


def test_limits_are_numbers_above_0() -> None:
    with pytest.raises(BadConfig, match="limit memory of a sandbox is -1"):
        Limits(memory=-1)


def test_processes_of_the_user_elsewhere_do_not_count() -> None:
    python = "/usr/bin/python3"
    if os.geteuid() or subprocess.run([python, "-P", "-c", ""], capture_output=True).returncode:
        pytest.skip("needs to become another user, and a Python 3.11 that this one can run")
    fork_server = Path(agentgym.__file__).with_name("sandbox") / "inside" / "fork_server.py"
    code = f"""
import os, subprocess, sys, time
from agentgym.sandbox import Limits
from agentgym.sandbox.local import cgroup
from agentgym.sandbox.inside.processes import threads_of_user
from agentgym.sandbox.process import sandbox as process
os.setuid(65533)
if not os.access({str(fork_server)!r}, os.R_OK): sys.exit("unreachable")
sys.executable, cgroup.places = {python!r}, dict
sleepers = [subprocess.Popen(["sleep", "60"]) for _ in range(60)]
with process.Process(limits=Limits(processes=20), unsafe=True) as box:
    before = threads_of_user()
    print(box.run("echo a | cat; (echo b; echo c) | sort").text)
    for _ in range(1000):  # what is still ending would be counted, and then leave room for one more
        if threads_of_user() <= before: break
        time.sleep(0.01)
    bomb = "import os, time\\ntry:\\n  for n in range(99): os.fork() or time.sleep(9)\\nexcept OSError: print(n)"
    print(box.python(bomb).text)
for sleeper in sleepers: sleeper.kill()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if "unreachable" in done.stderr:
        pytest.skip("the package is in a folder that other users cannot reach")
    first, second, third, number = done.stdout.split()
    assert (first, second, third) == ("a", "b", "c") and 10 <= int(number) <= 20, done


def test_the_socket_of_a_fork_server_is_not_to_be_had(box: Any) -> None:
    assert box.python("import os; print(sorted(os.listdir('/proc/self/fd'))[:4])").text == "['0', '1', '2', '3']\n"
    output = box.kernel().run(
        "import os; [os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd')[:4]]"
    )
    assert output.text.count("socket") == 1  # its own control
    assert isinstance(box._host, socket.socket)


def test_folders_that_a_killed_process_left_are_removed(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("agentgym-sandbox-old", "agentgym-box-new", "other"))
    for folder in (old, new, other):
        (folder / "0").mkdir(parents=True)
    (tmp_path / "agentgym-sandbox-link").symlink_to(other)
    for folder in (old, other):
        os.utime(folder, (1, 1))
    fork_server_sandbox._sweep(str(tmp_path))
    assert not old.exists() and (new / "0").exists() and (other / "0").exists()
