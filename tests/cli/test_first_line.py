"""`agentgym train` says early what it will do: the command line is read once, and nothing heavy is imported before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNTED = """
import argparse, json, sys
from agentgym.cli import main, train_screen

parses = []
parse = argparse.ArgumentParser.parse_known_args

def counted(self, *arguments, **keywords):
    parses.append(1)
    return parse(self, *arguments, **keywords)

argparse.ArgumentParser.parse_known_args = counted

class Said(BaseException): ...

def begin(self, line, printed=False):
    raise Said(line)

train_screen.Screen.begin = begin
try:
    main(["train", "household", "--processes", "1", "--steps", "0", "--out", "run"])
except Said as said:
    heavy = [name for name in ("torch", "transformers", "accelerate", "agentgym.cli.train_help") if name in sys.modules]
    print(json.dumps([str(said), heavy, len(parses)]))
"""


def test_nothing_heavy_is_imported_before_the_first_line_and_the_command_line_is_read_once(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED], cwd=tmp_path, capture_output=True, text=True, check=True)
    line = "run: rlvr/Household-v0, model init, engine hf; loading torch"
    assert done.stdout == f'["{line}", [], 1]\n', done.stderr


@pytest.mark.long
def test_the_process_that_launches_others_says_the_first_line_and_no_other_process_repeats_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentgym", "train", "household", "--steps", "0", "--out", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        second = process.stdout.readline()
        assert children.read_text().split()  # two processes train
        process.kill()
    assert first == "run: rlvr/Household-v0, model init, engine hf; loading torch\n"
    assert second == "run: 0.42 M parameters on rlvr/Household-v0\n"
