"""Runs of several processes: they learn together, stop together, resume exactly, and fail in words."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentgym.errors import BadConfig
from agentgym.trainers import TrainConfig, train

RUN = """# two processes
env = "rlvr/GuessNumber-v0"
out = "{out}"
processes = 2
threads = 1
sft_episodes = 8
sft_batch = 4
steps = {steps}
tasks_per_step = 2
group_size = 4
turn_tokens = 6
eval_every = 0
test_tasks = 4
select = "keep"
checkpoint_every = 1
"""


HERE = Path(__file__).parents[2] / "fakes"


def start(tmp_path, steps, **changes):
    text = RUN.format(out=tmp_path / "run", steps=steps)
    for key, value in changes.items():
        text = text.replace(f"\n{key} = ", f"\n{key} = {value} #")
    (tmp_path / "run.toml").write_text(text)
    command = [sys.executable, "-m", "agentgym", "train", str(tmp_path / "run.toml")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def rows(tmp_path):
    path = tmp_path / "run" / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.long
def test_two_processes_share_the_work(tmp_path):
    text, _ = start(tmp_path, 2).communicate(timeout=500)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["episodes"] == 8 + 2 * 2 * 4, text
    assert [row["step"] for row in rows(tmp_path) if row["phase"] == "rl"] == [1, 2]
    evaluations = (tmp_path / "run" / "episodes.jsonl").read_text().count("success_after/")
    assert evaluations == 4, "the episodes of both processes are kept"


@pytest.mark.long
def test_control_c_stops_both_with_a_checkpoint_and_resume_goes_on(tmp_path):
    process = start(tmp_path, 300)
    deadline = time.time() + 400
    while time.time() < deadline and not any(row["phase"] == "rl" for row in rows(tmp_path)):
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=400)
    assert process.returncode == 130, text
    done = [row["step"] for row in rows(tmp_path) if row["phase"] == "rl"]
    newest = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1]
    assert int(newest.name.removeprefix("step-")) == 2 + done[-1]


@pytest.mark.slow  # test_several_processes has another process with nothing to train
def test_a_process_whose_prompts_do_not_fit_takes_part_in_the_step_of_the_other(tmp_path):
    changes = {"env": '"long_prompts:me/LongPrompts-v0"', "sft_episodes": 0, "test_tasks": "0\ncontext_tokens = 200"}
    with start(tmp_path, 2, **changes) as process:
        try:
            text, _ = process.communicate(timeout=400)
        finally:
            process.kill()  # where they wait for one another
    assert process.returncode == 0, text
    assert [row["step"] for row in rows(tmp_path)] == [1, 2]
    assert all("loss" in row for row in rows(tmp_path))
    assert rows(tmp_path)[0]["turns"] < 2  # the half of them that could be played


def test_a_process_that_lost_another_is_not_taken_down_in_order():
    """Threads of a transport without its other end may crash then, and their signal would pass for what ended the run."""
    code = "import atexit; from agentgym.trainers.run.launch import LOST, leave; atexit.register(print, 'taken down');"
    done = subprocess.run([sys.executable, "-c", f"{code}print('said'); leave(LOST)"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (75, "said\n", "")


@pytest.mark.long
def test_processes_part_before_the_interpreter_ends():
    """What connects them may abort where it is left to the interpreter and the other process is gone: 2 of 12 ends did."""
    code = (
        "import atexit; from torch import distributed; from agentgym.trainers.run.session import join_processes;"
        "atexit.register(lambda: print('connected', distributed.is_initialized()));"
        "join_processes(2, 'train'); print('join_processes', distributed.is_initialized())"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    output = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert output == ["join_processes True\nconnected False\n"] * 2


def test_python_says_how_to_start_several_processes(tmp_path):
    with pytest.raises(BadConfig, match="accelerate launch --num_processes 2"):
        train(TrainConfig(env="rlvr/GuessNumber-v0", out=str(tmp_path), processes=2))
    with pytest.raises(BadConfig, match="multiple of processes, 3"):
        TrainConfig(processes=3)
