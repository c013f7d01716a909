"""Put on PYTHONPATH by benchmarks/kills.py: each process notes what it is doing, so that a kill can be told by its phase.

A thread looks at the main thread's stack every two milliseconds and writes the phase into `$AGENTGYM_WATCH/PID`; what was
written outlives the process. Nothing of agentgym is changed or imported.
"""

import os
import sys
import threading
import time
from pathlib import Path

PHASES = (  # the first whose (file, function) is on the stack
    ("checkpoint", {("record.py", "checkpoint")}),
    ("policy made", {("policy.py", "init_policy")}),
    ("report", {("train.py", "_report")}),
    ("summary", {("loop.py", "_summary"), ("summary.py", "summarize"), ("manifest.py", "write_json")}),
    ("weights sent", {("sync.py", "push")}),
    ("update", {("loop.py", "learn")}),
    ("SFT warm start", {("training.py", "_sft_step")}),
    ("evaluation", {("measure.py", "_play"), ("run.py", "evaluate")}),
    ("rollouts", {("loop.py", "step")}),
)


def phase() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    stack: set[tuple[str, str]] = set()
    while frame is not None:
        stack.add((frame.f_code.co_filename.rpartition("/")[2], frame.f_code.co_name))
        frame = frame.f_back
    return next((name for name, marks in PHASES if marks & stack), "start-up")


def watch(folder: str) -> None:
    file = os.open(Path(folder) / str(os.getpid()), os.O_CREAT | os.O_WRONLY)
    rank = os.environ.get("RANK", "-")
    while True:
        os.pwrite(file, f"{rank} {phase()}".ljust(40).encode(), 0)
        time.sleep(0.002)


if "AGENTGYM_WATCH" in os.environ:
    threading.Thread(target=watch, args=(os.environ["AGENTGYM_WATCH"],), daemon=True).start()
