"""Python in a sandbox: a program ends as an interpreter ends it, a kernel bears Ctrl-C at any time."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from agentgym.sandbox import Limits, sandbox
from agentgym.sandbox.bubblewrap.sandbox import missing
from agentgym.sandbox.local.sandbox_kernel import _status

LIMITS = Limits(timeout=5, memory=256 << 20, processes=40, disk=16 << 20, files=4000)


@pytest.fixture(scope="module", params=["bubblewrap", "process"])
def box(request: Any) -> Iterator[Any]:
    if request.param == "bubblewrap" and missing():
        pytest.skip(missing())
    made: Any = sandbox(request.param, limits=LIMITS, **({"unsafe": True} if request.param == "process" else {}))
    yield made
    made.close()


def test_open_files_are_written_at_the_end(box: Any) -> None:
    box.write("module.py", b"kept = open('b.txt', 'w')\nkept.write('b')\n")
    assert box.python("import module\nfile = open('a.txt', 'w')\nfile.write('a')\ncycle = [file]\ncycle.append(cycle)").ok
    assert (box.read("a.txt"), box.read("b.txt")) == (b"a", b"b")
    assert box.python("file = open('c.txt', 'w')\nfile.write('c')\nraise SystemExit(4)").exit_code == 4
    assert box.read("c.txt") == b"c"


def test_threads_exit_functions_and_destructors(box: Any) -> None:
    code = """
import atexit, sys, threading, time
class Last:
    def __del__(self): print("destroyed")
last = Last()
atexit.register(print, "exit function")
threading.Thread(target=lambda: (time.sleep(0.3), print("thread"))).start()
from concurrent.futures import ThreadPoolExecutor
ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.5), print("pool")))
print("end")
sys.exit(3)
"""
    result = box.python(code)
    assert result.text.split("\n") == ["end", "thread", "pool", "exit function", "destroyed", ""], result
    assert result.exit_code == 3
    failed = box.python("import atexit\natexit.register(lambda: 1 / 0)")
    assert "ZeroDivisionError" in failed.text and failed.reason == "exit"
    forever = box.python("import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()", timeout=1)
    assert forever.reason == "timeout"
    assert box.python("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()").ok


def test_a_broken_pipe_and_a_file_too_large_are_exceptions(box: Any) -> None:
    pipe = "import os\nr, w = os.pipe()\nos.close(r)\ntry: os.write(w, b'x')\nexcept BrokenPipeError: print('broken')"
    assert box.python(pipe).text == "broken\n"
    large = f"file = open('big', 'wb')\ntry: file.truncate({LIMITS.disk + 1})\nexcept OSError as error: print(error.errno)"
    assert box.python(large).text == "27\n"
    assert box.run("yes | head -1").text == "y\n"  # a program of the shell ends by it, as it should


def test_the_same_every_time_in_every_sandbox(box: Any) -> None:
    code = "import random; print(hash('a'), list({'x', 'y', 'z', 'long'}), random.random())"
    first = box.python(code).stdout
    again: Any = sandbox("process", unsafe=True)
    with again:
        assert box.python(code).stdout == box.kernel().run(code).stdout == again.python(code).stdout == first


def test_a_kernel_bears_ctrl_c_at_any_time(box: Any) -> None:
    kernel = box.kernel()
    kernel.run("import time; n = 0")
    for place in range(60):  # time-outs at the very moment when a step ends
        result = kernel.run("n += 1\ntime.sleep(0.02)", timeout=0.02 + 0.0002 * (place % 20 - 10))
        assert kernel.alive and result.reason in ("exit", "timeout"), result
        assert kernel.run("'fine'").text == "'fine'\n"  # an interrupt of the step before does not reach it
    assert int(kernel.run("n").text) == 60
    for _ in range(20):  # and before it begins
        assert kernel.run("pass", timeout=1e-6).reason in ("exit", "timeout") and kernel.alive
        assert kernel.run("1").text == "1\n"


def test_ctrl_c_between_steps_from_the_program_itself_does_no_harm(box: Any) -> None:
    kernel = box.kernel()
    kernel.run("import os, signal, subprocess\nx = 5\nsubprocess.Popen(['sh', '-c', f'sleep 0.3; kill -INT {os.getpid()}'])")
    time.sleep(0.6)
    assert kernel.run("x").text == "5\n"


def test_a_handler_of_the_program_stays(box: Any) -> None:
    kernel = box.kernel()
    kernel.run("import signal, time\nsignal.signal(signal.SIGINT, lambda *_: print('own'))")
    result = kernel.run("time.sleep(0.4)", timeout=0.2)
    assert (result.reason, result.text) == ("timeout", "own\n") and kernel.alive


def test_ctrl_c_reaches_what_the_step_waits_for(box: Any) -> None:
    kernel = box.kernel()
    result = kernel.run("import os\nos.system('sleep 60')", timeout=0.3)  # which itself ignores Ctrl-C meanwhile
    assert result.reason == "timeout" and kernel.alive and kernel.run("1").text == "1\n"


@pytest.mark.long
def test_a_kernel_that_does_not_listen_holds_nobody_up(box: Any) -> None:
    kernel = box.kernel()
    kernel.run("import threading, time, os\nthreading.Thread(target=lambda: time.sleep(60), daemon=True).start()")
    kernel.run("import socket\nheard = socket.socket(fileno=os.dup(3))\nheard.shutdown(socket.SHUT_RD)")
    started = time.monotonic()
    if kernel.alive:  # it hears that it is at its end
        kernel.run("x = 1" + " " * (8 << 20), timeout=1)
    assert time.monotonic() - started < 20
    kernel = box.kernel()
    kernel.run("import os, signal, subprocess\nsubprocess.Popen(['sh', '-c', f'sleep 0.2; kill -STOP {os.getpid()}'])")
    time.sleep(0.4)
    result = kernel.run("x = '" + "x" * (8 << 20) + "'", timeout=1)  # more than a socket holds
    assert (result.reason, kernel.alive) == ("timeout", False)


@pytest.mark.parametrize("status", ["1e999", "-1", "1" * 4000, '"7"', "null", "[" * 5000, "{}", '{"status": 1e999}'])
def test_any_answer_of_a_kernel_is_a_status(status: str) -> None:
    for answer in (status, f'{{"status": {status}}}'):
        assert 0 <= _status(answer.encode()) <= 255


def test_init_and_supervisors_bear_signals_of_the_program(box: Any) -> None:
    if box.work != "/home/agent":
        pytest.skip("no sandbox: it may kill what it likes")
    code = (
        "import os, signal, time\nfor number in range(1, 65):\n"
        "    try: os.kill(1, number)\n    except OSError: pass\n    time.sleep(0.002)\n"
    )
    result = box.python(code + "print('goes on')")
    assert result.ok or result.exit_code == 130 or "KeyboardInterrupt" in result.text, result
    quiet = box.python("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + code + "print('goes on')")
    assert quiet.ok and quiet.text == "goes on\n", quiet
    kernel = box.kernel()
    kernel.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + code)
    assert kernel.run("1").text == "1\n"
    flood = "import os\nfor _ in range(50_000): os.kill(1, 10)\n"  # each asks for Ctrl-C
    assert box.python("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n" + flood).ok
    assert kernel.run(flood).reason == "exit" and kernel.run("1").text == "1\n"


def test_the_fork_server_is_not_what_the_kernel_ends_for_want_of_memory() -> None:
    if missing():
        pytest.skip(missing())
    small: Any = sandbox(limits=Limits(memory=24 << 20, disk=40 << 20, timeout=20))
    with small:
        if not small.group.bounds_memory:
            pytest.skip("no control group bounds memory here")
        for _ in range(5):  # small programs fill memory with files: the largest process is ours
            full = small.run(
                "echo 0 > /proc/self/oom_score_adj; head -c 39m /dev/zero > /dev/shm/a; head -c 39m /dev/zero > /tmp/a"
            )
            assert full.reason == "memory", full
            fine = small.run("echo fine")
            if fine.reason == "memory":  # what the one before held is given back a moment after its end
                fine = small.run("echo fine")
            assert fine.text == "fine\n", fine
        kernel = small.kernel()
        lost = kernel.run("kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20))")
        assert (lost.reason, kernel.alive) == ("memory", False)
        assert small.run("echo fine").text == "fine\n"


@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
def test_a_module_of_the_standard_library_may_be_loaded_already() -> None:
    for packages, loaded in (((), "False\n"), (("tarfile",), "True\n")):
        made = sandbox(packages=packages)
        assert made.python("import sys; print('tarfile' in sys.modules)").text == loaded
        made.close()
