"""`agentgym eval` and `agentgym view` as a user calls them."""

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import agentgym
from agentgym.cli import main
from agentgym.cli.eval import Config, default_folder
from agentgym.cli.eval_screen import table
from agentgym.episodes.episode import Episode, read_episodes
from agentgym.errors import how_to_install
from agentgym.evaluate.summary import summarize
from agentgym.registry import DESCRIPTIONS, register


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("policy") / "p")
    assert main(["init-policy", "rlvr/GuessNumber-v0", "--out", path]) == 0
    return path


def test_a_policy_is_measured_and_the_table_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "e"
    command = ["eval", "guessnumber,frozenlake", "--policy", "oracle", "--tasks", "6", "--attempts", "2", "--out", str(out)]
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "rlvr/GuessNumber-v0" in output
    assert "100.0 % [61.0, 100.0]" in output  # 6 tasks: 6 / (6 + 1.96^2)
    assert "success avg@2" in output and "pass@2" in output and "pass^2" in output
    assert "interquartile mean 100.0 % [100.0, 100.0] of 2 attempts x 2 environments or task types" in output
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert options["policy"] == "oracle"
    assert main(command) == 0  # nothing is left to play
    assert len(read_episodes(out / "episodes.jsonl")) == 24
    assert main(["view", str(out)]) == 0
    assert (out / "report.html").stat().st_size > 20_000


def test_a_suite_of_ones_own_is_played_and_flags_are_laid_over_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, out = tmp_path / "mine.toml", tmp_path / "e"
    path.write_text(
        "tasks = 5\nattempts = 2\nseed = 3\n[envs]\nguessnumber = { horizon = 4, tasks = 2 }\n"
        'frozenlake = { split = "train", attempts = 3, options = { difficulty = 1 } }\n'
    )
    command = ["eval", str(path), "--policy", "expert", "--out", str(out)]
    assert main(command) == 0
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert options["envs"] == {
        "rlvr/GuessNumber-v0": {"split": "test", "tasks": 2, "options": {"horizon": 4}},
        "rlvr/FrozenLake-v0": {"split": "train", "tasks": 5, "options": {"difficulty": 1}, "attempts": 3},
    }
    assert (options["suite"], options["seed"], options["attempts"]) == ("mine", 3, 2)
    episodes = read_episodes(out / "episodes.jsonl")
    assert len(episodes) == 2 * 2 + 5 * 3
    assert {e.horizon for e in episodes if e.env == "rlvr/GuessNumber-v0"} == {4}
    assert main([*command, "--tasks", "1"]) == 2  # another evaluation: tasks is laid over the environment's own too
    assert "'tasks': 1" in capsys.readouterr().err


def test_sampling_and_prompt_of_a_suite_reach_a_model(policy: str, tmp_path: Path):
    path, out = tmp_path / "mine.toml", tmp_path / "e"
    path.write_text('envs = ["guessnumber"]\ntasks = 1\ntemperature = 0.5\nturn_tokens = 3\nprompt = "act"\nhorizon = 2\n')
    assert main(["eval", str(path), "--model", policy, "--out", str(out), "--turn-tokens", "4", "--threads", "1"]) == 0
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert (options["temperature"], options["turn_tokens"], options["prompt"]) == (0.5, 4, "act")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cor", "--policy", "oracle"], "Did you mean 'core'"),
        (
            ["no.toml", "--policy", "oracle"],
            "no.toml: cannot be read (No such file or directory). Suites of",
        ),
        (["core,household", "--policy", "oracle"], "core is a suite and is evaluated alone"),
        (["gessnumber", "--policy", "oracle"], "Did you mean 'guessnumber'"),
        (["rlvr/GessNumber-v0", "--policy", "oracle"], "Did you mean 'rlvr/GuessNumber-v0'"),
        (["guessnumber"], "say who plays"),
        (["guessnumber", "--policy", "oracel"], "Did you mean 'oracle'"),
        (["guessnumber", "--policy", "oracle", "--temperature", "1"], "--temperature has no effect with --policy"),
        (["guessnumber", "--policy", "oracle", "--split", "tset"], "Did you mean 'test'"),
        (["guessnumber", "--policy", "oracle", "--env.difficlty", "1"], "Did you mean 'difficulty'"),
        (["guessnumber", "--policy", "oracle", "--task", "3"], "Did you mean '--tasks'"),
        (["guessnumber", "--policy", "oracle", "--threads", "2"], "--threads has no effect with --policy"),
        (
            ["guessnumber", "--model", "vllm:x", "--threads", "2"],
            "--threads is 2; expected at least 1, and a model that the hf",
        ),
        (["guessnumber", "--model", "opnai:http://localhost"], "no engine 'opnai'. Did you mean 'openai'?"),
        (
            ["guessnumber", "--model", "chat:http://localhost:9#m", "--temperature", "nan"],
            "--temperature is nan; expected 0 (greedy) or more",
        ),
        (["guessnumber", "--model", "vllm:x", "--tasks", "0"], "tasks is 0; expected from 1"),  # before vLLM is looked for
        (["guessnumber", "--policy", "oracle", "--seed", "-1"], "seed is -1; expected 0 or more"),
        (["harbor:", "--policy", "oracle"], "'harbor:' names no environment: put its name, folder or URL after the colon"),
        (["guessnumber", "--policy", "oracle", "--concurrency", "0"], "--concurrency is 0; expected at least 1"),
        (["guessnumber", "--model", "runs/none"], "model runs/none is not there; expected the folder of a model"),
        (["guessnumber", "--model", "hf:./none"], "no folder './none'. Expected the folder of a model"),
        (["guessnumber", "--model", "vllm:/none/x"], "no folder '/none/x'. Expected the folder of a model"),
        (
            ["guessnumber", "--model", "."],
            "neither a model (config.json), an adapter (adapter_config.json)",
        ),
    ],
)
def test_bad_input_is_one_line_that_says_what_to_do(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["eval", *arguments]) == 2
    output = capsys.readouterr().err
    errors = [line for line in output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "with None" not in output
    assert message in errors[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [("eval", "guessnumber", "--policy", "oracle"), ("init-policy", "guessnumber"), ("train", "sql")]
)
@pytest.mark.parametrize("out", ["file", "file/below"])
def test_an_out_that_is_a_file_is_said_so(
    command: tuple[str, ...], out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    assert main([*command, "--out", out]) == 2
    assert f"error: out is {out}, but " in (errors := capsys.readouterr().err) and "is a file; expected a folder" in errors


@pytest.mark.parametrize("flag", ["layers", "vocabulary", "context", "episodes"])
def test_a_policy_of_nothing_is_not_made(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["init-policy", "guessnumber", "--out", str(tmp_path / "p"), f"--{flag}", "0"]) == 2
    assert f"error: {flag} is 0; expected at least " in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


def test_a_name_of_the_hub_is_asked_for_once(monkeypatch: pytest.MonkeyPatch):
    """A hub that cannot be reached costs one request, and the error is one sentence."""
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:9")
    output = subprocess.run(
        [sys.executable, "-m", "agentgym", "eval", "guessnumber", "--model", "nobody/nothing"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert output.returncode == 2 and "error: no folder 'nobody/nothing' here, and the hub" in output.stderr
    assert len(output.stderr.splitlines()) == 2 and "transformers" not in output.stderr


def test_a_server_that_is_not_there_stops_an_evaluation_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with socket.socket() as listener:  # a port where nobody listens
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        out = tmp_path / "e"
        command = ["eval", "guessnumber", "--model", f"chat:{url}#m", "--tasks", "50", "--out", str(out)]
        assert main([*command, "--engine.backoff", "100"]) == 2
    assert f"error: no connection to {url}: is the server running there?" in capsys.readouterr().err
    assert not read_episodes(out / "episodes.jsonl")


def test_what_cannot_be_played_is_skipped_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(DESCRIPTIONS, "me/NoExpert-v0", "")  # taken out at the end: others are not to meet it
    register("me/NoExpert-v0", NoExpert)
    command = ["eval", "guessnumber,me/NoExpert-v0", "--policy", "expert", "--tasks", "2", "--out", str(tmp_path / "e")]
    assert main(command) == 1
    output = capsys.readouterr().out
    assert "me/NoExpert-v0  skipped: me/NoExpert-v0 has no expert that could play it" in output
    assert json.loads((tmp_path / "e" / "summary.json").read_text())["skipped"].keys() == {"me/NoExpert-v0"}
    assert "NoExpert-v0 was skipped" in (tmp_path / "e" / "summary.md").read_text()
    assert main(["eval", "me/NoExpert-v0", "--policy", "expert", "--out", str(tmp_path / "f")]) == 2
    assert "error: me/NoExpert-v0 has no expert that could play it" in capsys.readouterr().err
    assert not (tmp_path / "f").exists()


def test_what_was_skipped_is_played_by_the_same_command_once_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "e"
    command = ["eval", "guessnumber,terminal", "--policy", "expert", "--tasks", "2", "--out", str(out)]
    with monkeypatch.context() as bare:
        bare.setenv("PATH", str(tmp_path))  # without bubblewrap
        assert main(command) == 1
        assert main([*command[:1], "guessnumber", *command[2:]]) == 0  # the same evaluation so far
    first = (out / "episodes.jsonl").read_text()
    assert main(command) == 0
    assert (out / "episodes.jsonl").read_text().startswith(first)
    assert {e.env: e.success for e in read_episodes(out / "episodes.jsonl")} == {
        "rlvr/GuessNumber-v0": True, "rlvr/Terminal-v0": True,
    }  # fmt: skip
    assert set(json.loads((out / "contamination.json").read_text())) == {"rlvr/GuessNumber-v0", "rlvr/Terminal-v0"}
    with monkeypatch.context() as bare:
        bare.setenv("PATH", str(tmp_path))  # and what was played is kept where it cannot be any more
        assert main(command) == 1
    assert len(read_episodes(out / "episodes.jsonl")) == 4
    assert main(["eval", "guessnumber,terminal", "--policy", "expert", "--tasks", "1", "--out", str(out)]) == 2


class NoExpert(agentgym.TextEnv):
    """An environment that nobody has written an expert for."""

    def begin(self, task: agentgym.Task) -> str:
        return "?"

    def act(self, action: str) -> str:
        return "?"

    @staticmethod
    def generate(rng: Any, difficulty: int) -> agentgym.Task:
        return agentgym.Task(instruction="?", data={"n": int(rng.integers(1 << 30))})


def test_json_is_the_summary_and_quiet_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    command = ["eval", "guessnumber", "--policy", "oracle", "--tasks", "2", "--out", str(tmp_path / "e")]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "e" / "summary.json").read_text())
    assert main([*command, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "" and len(captured.out.splitlines()) == 2


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is here")
def test_a_missing_engine_names_the_extra(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["eval", "guessnumber", "--model", "vllm:x", "--out", str(tmp_path / "e")]) == 2
    error = capsys.readouterr().err
    assert f"error: the vllm engine needs vLLM: {how_to_install('vllm')}" in error and "Traceback" not in error


def test_every_extra_that_a_message_names_exists():
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        name
        for path in (root / "agentgym").rglob("*.py")
        for name in re.findall(r"""\bhow_to_install\(['"]([^'"]+)['"]\)""", path.read_text())
    }
    assert {"train", "vllm"} <= named <= set(extras)


@pytest.mark.parametrize(("threads", "expected"), [([], 1), (["--threads", "2"], 2)])
def test_a_small_model_gets_one_thread(policy: str, tmp_path: Path, threads: list[str], expected: int):
    import torch

    before = torch.get_num_threads()
    command = ["eval", "guessnumber", "--model", policy, "--tasks", "1", "--turn-tokens", "2", "--env.horizon", "2"]
    try:
        torch.set_num_threads(3)
        assert main([*command, "--out", str(tmp_path / "e"), *threads]) == 0
        assert torch.get_num_threads() == expected
    finally:
        torch.set_num_threads(before)


def test_a_task_type_cannot_steer_the_terminal():
    episode = Episode("me/Env-v0", "a", "a", 0, success=True, reason="success", labels={"type": "[red]x\x1b[31m\x9b"})
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=100)
    console.print(table(summarize([episode])))
    output = console.file.getvalue()
    assert "[red]x\\x1b[31m\\x9b" in output
    assert "\x9b" not in output


def test_the_default_folder_is_a_plain_name():
    assert default_folder(Config("core", model="Qwen/Qwen3-1.7B")) == "runs/eval-core-Qwen-Qwen3-1.7B"
    assert default_folder(Config("a", model="../../x y")) == "runs/eval-a-..-..-x-y"


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_keeps_what_was_played_and_the_same_command_goes_on(tmp_path: Path):
    out = tmp_path / "e"
    command = [sys.executable, "-m", "agentgym", "eval", "frozenlake", "--policy", "expert", "--split", "train"]
    command += ["--tasks", "40", "--attempts", "300", "--concurrency", "4", "--out", str(out)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    path = out / "episodes.jsonl"
    deadline = time.monotonic() + 300
    while not (path.exists() and path.stat().st_size > 20_000) and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=300)
    assert running.returncode == 130, output
    assert "the same command continues" in output
    episodes = read_episodes(path)
    assert 0 < len(episodes) < 12_000
    again = [word.replace("300", str(max(e.attempt for e in episodes) + 1)) for word in command]
    refused = subprocess.run(again, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "attempts was 300, now" in refused.stderr


@pytest.mark.skipif(os.name != "posix", reason="limits the size of a file")
def test_no_room_is_one_line_and_what_was_written_is_gone_on_with(tmp_path: Path):
    out = tmp_path / "e"
    command = [sys.executable, "-m", "agentgym", "eval", "guessnumber", "--policy", "oracle", "--tasks", "13"]
    command += ["--attempts", "20", "--out", str(out)]
    limited = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh", *command]
    full = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert full.returncode == 2
    assert "Traceback" not in full.stderr and "episodes.jsonl: File too large" in full.stderr
    assert "Everything written before is kept: free some space" in full.stderr
    episodes = read_episodes(out / "episodes.jsonl")
    assert 0 < len(episodes) < 260
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert len(read_episodes(out / "episodes.jsonl")) == 260


def test_an_evaluation_interrupted_before_it_counted_does_not_say_that_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentgym.evaluate.run.choose", interrupted)
    command = ["eval", "guessnumber", "--policy", "expert", "--out", str(tmp_path)]
    assert main(command) == 130
    assert "earlier episodes are kept" in capsys.readouterr().out
