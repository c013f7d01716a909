"""Environments whose authors want a certificate they do not deserve, or break whoever checks them."""

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import ClassVar

import numpy as np
from broken_envs import Stairs

import agentgym
from agentgym.core.outcome import Outcome

FORGED = {"format": 1, "verdict": "passed", "claims": {}, "checks": []}


DAEMON = """import subprocess, sys
program = [sys.executable, "-c", "import time; time.sleep(600)", "left-by-an-environment"]
subprocess.Popen(program, start_new_session=True)"""


class EndsTheProcess(Stairs):
    """Leave with code 0 once it is played, which a caller might take for success."""

    def act(self, action):
        os._exit(0)


class RaisesSystemExit(Stairs):
    def act(self, action):
        sys.exit(0)


class RaisesKeyboardInterrupt(Stairs):
    def begin(self, task):
        raise KeyboardInterrupt


class RaisesWhereNobodyLooks(Stairs):
    def size(self, split=None):
        raise RuntimeError("no size")


class LoopsForEver(Stairs):
    def act(self, action):
        while True:
            time.sleep(0.05)


class LoopsWhenMade(Stairs):
    def setup(self):
        while True:
            time.sleep(0.05)


class LeavesAThread(Stairs):
    """Keep a thread that never ends, and a process that outlives it."""

    def setup(self):
        threading.Thread(target=time.sleep, args=(600,)).start()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "left-by-an-environment"])

    def begin(self, task):
        raise RuntimeError("no")


class LeavesADaemon(Stairs):
    """Start a process in a session of its own, and let it start another."""

    def begin(self, task):
        subprocess.Popen([sys.executable, "-c", DAEMON], start_new_session=True).wait()
        raise RuntimeError("no")


class WritesDownItsProcess(Stairs):
    """Say where it runs, then hang."""

    def begin(self, task):
        place = Path(os.environ["PLACE"])
        place.with_suffix(".part").write_text(str(os.getpid()))
        place.with_suffix(".part").replace(place)
        while True:
            time.sleep(0.05)


class KillsItsParent(Stairs):
    def begin(self, task):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)


def the_way_out():
    """Return the connection over which the process that checks says what it found."""
    return next(item for item in gc.get_objects() if isinstance(item, Connection) and not item.closed)


class SaysHalfAMessage(Stairs):
    """Say that a thousand bytes come, and send three."""

    def begin(self, task):
        os.write(the_way_out().fileno(), b"\x00\x00\x03\xe8abc")
        time.sleep(600)


class SaysNonsense(Stairs):
    """Say something else in the checker's place, from a file that the test wrote."""

    def setup(self):
        for line in Path(os.environ["WORDS"]).read_text().splitlines():
            the_way_out().send_bytes(line.encode())
        os._exit(0)


class PaysForNothing(Stairs):
    """Pay for an empty reply, and have a shortcut policy of that name that says something else."""

    def act(self, action):
        return super().act(action) if action else self.win("There.")

    def shortcuts(self):
        return {"empty": lambda seen: "no"}


class PaysWithNumPysTrue(Stairs):
    """Pay for an empty reply with what is not `True`, though true."""

    def act(self, action):
        return super().act(action) if action else Outcome("There.", success=np.True_)


class PrintsACertificate(Stairs):
    """Print what looks like the answer, and write it to every JSON file of the folder, at once and at exit."""

    def begin(self, task):
        self.forge()
        atexit.register(self.forge)
        raise RuntimeError("no")

    @staticmethod
    def forge():
        print(json.dumps(FORGED))
        for name in os.environ.get("FORGE", "").split(os.pathsep):
            if name:
                Path(name).write_text(json.dumps(FORGED))


class BehavesWhenChecked(Stairs):
    """Pay for nothing at all, but not where the modules of a check are loaded."""

    def act(self, action):
        if action == "" and not any(name.startswith("agentgym.contract") for name in sys.modules):
            return self.win("There.")
        return super().act(action)


class AnswersOtherwiseTheSecondTime(Stairs):
    seen: ClassVar[dict[str, int]] = {}

    def act(self, action):
        key = f"{self.task.id} {self.turn}"
        self.seen[key] = self.seen.get(key, 0) + 1
        return self.win("There.") if self.seen[key] > 1 else super().act(action)


KINDS = [
    EndsTheProcess,
    RaisesSystemExit,
    RaisesKeyboardInterrupt,
    RaisesWhereNobodyLooks,
    LoopsForEver,
    LoopsWhenMade,
    LeavesAThread,
    LeavesADaemon,
    WritesDownItsProcess,
    KillsItsParent,
    SaysHalfAMessage,
    SaysNonsense,
    PaysForNothing,
    PaysWithNumPysTrue,
    PrintsACertificate,
    BehavesWhenChecked,
    AnswersOtherwiseTheSecondTime,
]
for _kind in KINDS:
    agentgym.register(f"hostile/{_kind.__name__}-v0", _kind)
