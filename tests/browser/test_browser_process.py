"""However a process ends, its browser ends with it; a forked child has its own."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentgym.browser.chromium import chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="needs a Chromium: apt install chromium")

PROGRAM = """
import os, signal, sys, time
sys.path.insert(0, {folder!r})
from hostile_site import Hostile
from agentgym.browser.server import server
env = Hostile()
env.reset(seed=1)
print(server().port, flush=True)
{end}
"""
ENDS = {
    "returns": "",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "interrupted": "signal.signal(2, signal.default_int_handler)\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
    "forks": "child = os.fork()\nif child == 0:\n    env = Hostile(); env.reset(seed=2)\n    os._exit(7)\n"
    "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\nassert env.step('scroll[down]')[3] is False",
}


def browsers(port):
    """Return the processes of the browser whose way out is our server on that port."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"--proxy-server=http://127.0.0.1:{port}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    "end", ["killed", "interrupted", *(pytest.param(e, marks=pytest.mark.slow) for e in ("returns", "forks"))]
)
def test_nothing_is_left_behind(end):
    program = PROGRAM.format(folder=str(Path(__file__).parents[1] / "fakes"), end=ENDS[end])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=400, check=False)
    codes = {"killed": -signal.SIGKILL, "interrupted": None, "returns": 0, "forks": 0}
    assert codes[end] is None or done.returncode == codes[end], done.stderr
    port = int(done.stdout)
    for _ in range(300):
        if not browsers(port):
            return
        time.sleep(0.1)
    raise AssertionError(f"left behind: {browsers(port)}")
