"""The measurements for a GPU keep their time, outlive a part that fails, and go on where they stopped; and fit the card."""

import contextlib
import sys
import time
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from gpu import __main__ as script
from gpu import machine
from gpu.cell import Parts

HANGS = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("child", child.pid, flush=True)
time.sleep(600)
"""


def run(folder, monkeypatch, program, **cells):
    monkeypatch.setattr(script, "CELLS", cells)
    monkeypatch.setattr(script, "GRACE", 0.5)
    monkeypatch.setattr(script.Run, "command", lambda *_: [sys.executable, "-c", program])
    return script.Run(folder, 30.0, folder / "copy", False)


def _wait_for_the_end_of(pid, seconds=30.0):
    """Fail unless a killed process ends; it sleeps for 600 s if nothing kills it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process, end = psutil.Process(pid), time.monotonic() + seconds
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < end, f"process {pid} still runs"
            time.sleep(0.05)


def test_a_cell_that_hangs_ends_with_all_that_it_started(tmp_path, monkeypatch):
    call = run(tmp_path, monkeypatch, HANGS, x=("?", 6.0, 0.0))  # a busy machine starts Python in seconds
    assert not call.cell("x")
    log = (tmp_path / "log.txt").read_text()
    assert "stopped at its limit" in log
    _wait_for_the_end_of(int(log.split("child ")[1].split()[0]))
    assert script.read(tmp_path)[-1]["part"] == "stopped"
    assert (tmp_path / "copy" / "log.txt").read_text() == log


def test_a_cell_that_dies_is_told_and_one_without_time_is_not_begun(tmp_path, monkeypatch):
    call = run(tmp_path, monkeypatch, "import sys; print('last words'); sys.exit(7)", x=("?", 5.0, 0.0), y=("?", 90.0, 60.0))
    assert not call.cell("x") and not call.cell("y")
    log = (tmp_path / "log.txt").read_text()
    assert "last words" in log and "ended with 7" in log and "y: left to the next call" in log


def test_parts_go_on_where_the_last_call_stopped(tmp_path, capsys):
    def fails():
        raise ValueError("out of luck")

    first = Parts("a", tmp_path, "1", 60.0, False)
    first.run("one", lambda: {"value": 1.0})
    first.run("two", fails)
    first.run("three", lambda: {}, seconds=100.0)
    assert (first.failed, first.left_over) == (1, 1)
    assert "out of luck" in capsys.readouterr().out, "the traceback is in the log"
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"call": "1", "ce')  # cut off, as by a machine that was taken away
    same, later = Parts("a", tmp_path, "1", 60.0, False), Parts("a", tmp_path, "2", 60.0, False)
    same.run("two", lambda: {"value": 2.0})
    assert same.failed == 1, "within a call it is not tried again"
    later.run("one", fails)
    later.run("two", lambda: {"value": 2.0})
    assert later.failed == 0
    lines = [line for line in script.read(tmp_path) if "error" not in line]
    assert [(line["call"], line["part"]) for line in lines] == [("1", "one"), ("2", "two")]


@pytest.mark.parametrize(("size", "parameters", "cache"), [("0.5B", 494_032_768, 12_288), ("1.5B", 1_543_714_304, 28_672)])
def test_what_is_sampled_fits_a_card_of_78_gib(size, parameters, cache):
    shape = machine.architecture(size, False)
    assert machine.cache_bytes(shape, 1, 1) == cache  # layers x 2 x key-value heads x head x 2 bytes
    assert machine.sampling_bytes(shape, 256, 888, parameters) < 0.3 * 78 * 2**30
    assert machine.sampling_bytes(shape, 128, 4096, parameters) < 0.5 * 78 * 2**30


def test_every_cell_has_its_share_of_eight_minutes():
    assert sum(most for _, most, _ in script.CELLS.values()) <= 8 * 60
    assert all(least < most for _, most, least in script.CELLS.values())
    assert list(script.CELLS) == ["a", "b", "c", "d", "e"]
