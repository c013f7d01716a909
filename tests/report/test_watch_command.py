"""agentgym watch as a command: how it ends, its port, its browser, its terminal, and beside a training run."""

import http.client
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watched_page import serving, until

from agentgym.cli import train
from agentgym.errors import BadConfig


def watching(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "agentgym", "watch", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=_interruptible)


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell ignores for what it runs in the background


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_ends_cleanly(run_folder: Path, number: signal.Signals):
    process = watching(str(run_folder), "--port", "0")
    assert process.stdout is not None
    line = process.stdout.readline()
    assert re.search(r"at http://127\.0\.0\.1:\d+/ ", line), line
    process.send_signal(number)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in rest


def test_the_page_opens_in_a_browser_that_returns_when_it_is_closed(run_folder: Path, tmp_path: Path, monkeypatch: Any):
    seen, script = tmp_path / "seen", tmp_path / "browser.py"
    script.write_text(
        "import pathlib, sys, urllib.request\n"
        f"pathlib.Path({str(seen)!r}).write_bytes(urllib.request.urlopen(sys.argv[1], timeout=60).read())\n"
    )
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} %s")
    process = watching(str(run_folder), "--port", "0", "--open")
    try:
        until(lambda: seen.exists() and b"</html>" in seen.read_bytes())
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_taken_port_is_said_and_the_default_one_moves(run_folder: Path):
    with serving(run_folder) as server:
        process = watching(str(run_folder), "--port", str(server.port))
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 2 and f"port {server.port} is taken" in output


def test_the_terminal_shows_the_same_once_where_it_is_no_terminal(
    run_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from agentgym.cli import main

    monkeypatch.setenv("COLUMNS", "110")
    assert main(["watch", str(run_folder), str(run_folder.parent / "none"), "--terminal"]) == 0
    output = capsys.readouterr().out
    assert (
        "success in training" in output
        and "newest groups" in output
        and "attempt 0" in output
        and "does not exist yet" in output
    )
    assert "\x1b" not in output and "\u202e" not in output and "\x00" not in output
    assert max(map(len, output.splitlines())) <= 110


def test_the_terminal_has_the_curriculum_and_the_word_of_an_idle_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    from agentgym.cli import main

    monkeypatch.setenv("COLUMNS", "80")
    idle = {"success_train": 0.0, "groups": 4, "groups_equal": 4, "groups_trained": 0, "entropy": int("9" * 400)}
    own = {"valid": 0.5, "success_hinted": 0.25, "curriculum/back": 3, "curriculum/\x1b[31m": 1.0}
    rows = [json.dumps({"step": step, **idle, **own}) for step in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    assert main(["watch", str(tmp_path), "--terminal"]) == 0
    output = capsys.readouterr().out
    assert "step 3: no update: all 4 groups had equal returns. 3 steps in a row" in " ".join(output.split())
    curves = {line.split()[0]: line.split()[-1] for line in output.splitlines() if "▁" in line}
    assert curves["back"] == "3" and curves["valid"] == "0.5" and curves["hinted"] == "0.25" and "entropy" not in curves
    assert "\x1b" not in output and max(map(len, output.splitlines())) <= 80


@pytest.mark.parametrize("end", ["close", "kill"])
def test_the_page_beside_training_ends_with_it(run_folder: Path, end: str):
    code = (
        "import sys, time\nfrom rich.console import Console\nfrom agentgym.cli.watch import beside\n"
        f"with beside({str(run_folder)!r}, Console(width=300)):\n    {'pass' if end == 'close' else 'time.sleep(600)'}\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    port = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert port
    if end == "kill":
        process.kill()
    process.wait(60)
    until(lambda: refused(int(port[1])))


def test_train_takes_the_flag_wherever_it_stands():
    assert train.read(["household", "--watch", "--steps", "3"]).watch
    assert train.read(["--resume", "runs/a", "--watch"]).watch and not train.read(["household"]).watch
    with pytest.raises(BadConfig, match="nothing to --watch"):
        train.read(["household", "--plan", "--watch"])


def refused(port: int) -> bool:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/state")
        return connection.getresponse().status != 200
    except OSError:
        return True


def test_the_terminal_says_in_full_which_evaluation_a_group_is_of():
    from agentgym.report.watch.terminal import _groups

    groups = [{"part": part, "step": step, "outcomes": ["succeeded"], "task": "t"} for part, step in STEPS]
    lines = [str(line) for line in _groups([{"episodes": {"groups": groups}}], 80)][1:]
    assert lines == ["eval after training ● 1 of 1  t", "step 3              ● 1 of 1  t"]


STEPS = (("eval", "after training"), ("train", "3"))
