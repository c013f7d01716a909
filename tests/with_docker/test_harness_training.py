"""A harness in containers under the commands: measured, trained, killed and gone on with; and its credit by hand."""

import json
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import pytest
from conftest import PYTHON
from test_harnesses import OWN, TERMINAL, answers, played, terminal

from agentgym.cli import main
from agentgym.core.env import TextEnv
from agentgym.episodes.episode import Episode, read_episodes
from agentgym.registry import make
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.data.segments import build

ENV = ["--env.backend", "docker", "--env.backend_options", json.dumps(PYTHON)]
LEFT = "ls -A /tmp /dev/shm ~ /tmp/agentgym-harness 2>&1 | grep left$"


def own(folder: Path, text: str = OWN) -> str:
    path = folder / "own.toml"
    path.write_text(text)
    return f"harness:{path}"


def test_the_credit_of_a_group_by_hand(tmp_path: Path) -> None:
    """Two of four attempts do the task by one command; the other two change nothing. By hand, with gamma 0.95:

    rewards 1, 1, 0, 0: mean 0.5, standard deviation (ddof 1) 0.57735, so A_E is 0.86603 or its opposite. Returns from
    the first state: 0.95, 0.95, and 0 four times, mean 0.316667; from the second: 1 and 1, nothing to compare.
    """
    tasks, solutions = terminal(20)
    task = next(task for task in tasks if len(solutions[task.instruction]) == 1)
    (solution,) = solutions[task.instruction]
    first = count()

    def reply(prompt: str, turn: int) -> str:
        if answers(prompt):
            return "Done."
        return f"RUN {solution if next(first) % 2 else 'true'}"

    group = sorted(played(own(tmp_path), reply, [task], attempts=4), key=lambda episode: -episode.reward)
    start = group[0].turns[0].state_key
    assert [episode.reward for episode in group] == [1, 1, 0, 0] and start is not None
    assert [[turn.state_key == start for turn in e.turns] for e in group] == [[True, False]] * 2 + [[True, True]] * 2
    assert group[0].turns[1].state_key == group[1].turns[1].state_key is not None
    lost = [-0.866025 - 0.316667] * 2
    for name, options, expected in (
        ("gigpo", {"anchor": "state"}, [[0.866025 + 0.633333, 0.866025]] * 2 + [lost] * 2),
        # V(first) = (0.95 + 0.95 + 0.5 * 0.4875) / 4.5 = 0.476389, V(second) = (1 + 1 + 0.5 * 0.4875) / 2.5 = 0.8975
        ("state_td", {"scale": "none"}, [[0.405449, 0.1025]] * 2 + [[-0.159590, -0.476389]] * 2),
    ):
        (found,) = resolve(name, **options)([group])
        for array, numbers in zip(found, expected, strict=True):
            assert array == pytest.approx(numbers, abs=1e-4), name


def test_nothing_that_an_attempt_leaves_reaches_the_next(tmp_path: Path) -> None:
    tasks, _ = terminal(1)

    def reply(prompt: str, turn: int) -> str:
        leave = "for f in /tmp /dev/shm ~ /tmp/agentgym-harness; do echo $f > $f/left; done"
        return ["RUN " + LEFT, "RUN " + leave, "RUN " + LEFT, "Done."][answers(prompt)]

    before, after = played(own(tmp_path), reply, tasks, attempts=2, concurrency=1)
    for episode in (before, after):
        assert "left" not in episode.turns[1].observation and episode.turns[3].observation.split() == ["left"] * 4
    assert [turn.state_key for turn in before.turns] == [turn.state_key for turn in after.turns]


def test_nothing_that_commands_leave_reaches_the_next_episode() -> None:
    with make(TERMINAL, backend="docker", backend_options=PYTHON) as env:
        assert isinstance(env, TextEnv)
        (task,) = env.tasks(1)
        for _ in range(2):
            env.reset(seed=0, options={"task": task})
            assert "left" not in env.step(f"<bash>{LEFT}</bash>")[0]
            env.step("<bash>touch /tmp/left /dev/shm/left ~/left</bash>")


# The commands

PARITY = OWN.replace("while True:", "sols = json.load(open('/tmp/agentgym-harness/solutions.json'))\nwhile True:").replace(
    'if not said.startswith("RUN "):\n        break',
    "turn = len(messages) // 2\n"
    "    solution = next((sols[one] for one in sols if one in task), ['true'])\n"
    "    if turn == 0:\n"
    "        good = sum(said.encode()) % 2 == 0\n"
    "    if turn == len(solution):\n"
    "        break\n"
    "    command = solution[turn] if good else 'true'",
)
"""Does the task where the bytes of the first reply have an even sum; every reply of the model is a turn."""


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> str:
    from agentgym.trainers.model.policy import PolicySize, init_policy

    size = PolicySize(width=32, layers=1, heads=2, vocabulary=300)
    folder = tmp_path_factory.mktemp("policy") / "policy"
    return str(init_policy("rlvr/GuessNumber-v0", folder, size=size, episodes=10, template="chatml"))


def parity(folder: Path) -> str:
    """Write the harness of the commands' tests, which knows the first tasks of each split."""
    known: dict[str, list[str]] = {}
    for split in ("train", "test"):
        with make(TERMINAL, backend="docker", backend_options=PYTHON, split=split) as env:
            known |= {task.instruction: list(env._scene(task).solution) for task in env.tasks(12)}  # type: ignore[attr-defined]
    text = PARITY.replace("said[4:]", "command").replace('env={"KEY": key, "BASE": base, "HOME": "/home/agent"}', "env=None")
    return own(folder, text + f"\n'solutions.json' = {json.dumps(json.dumps(known))}\n")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "agentgym", *words, *ENV]


@pytest.mark.long
def test_an_evaluation_by_the_command(tmp_path: Path, policy: str) -> None:
    out = tmp_path / "eval"
    words = ["eval", "terminal", "--agent", parity(tmp_path), "--model", policy, "--tasks", "4", "--concurrency", "2"]
    assert main([*words, "--turn-tokens", "8", "--out", str(out), *ENV]) == 0
    episodes = read_episodes(out / "episodes.jsonl")
    assert len(episodes) == 4 and {episode.success for episode in episodes} <= {True, False}
    for episode in episodes:
        assert episode.metrics["drifted_tokens"] == 0 and len(build([episode])) == episode.metrics["rows"] == 1
        assert episode.success == (sum(episode.turns[0].text.encode()) % 2 == 0)
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert options["agent"] == "harness:own" and options["weights"]


@pytest.mark.long
def test_a_replay_of_solutions_is_imitated_and_trained(tmp_path: Path, policy: str) -> None:
    """The oracle's commands are run by the harness, recorded in the policy's tokens, and imitated."""
    harness = own(tmp_path, OWN + '\n[shell]\ntext = "RUN {command}"\n')
    out, warm = tmp_path / "eval", tmp_path / "warm"
    words = [
        "eval",
        TERMINAL,
        "--policy",
        "oracle",
        "--agent",
        harness,
        "--model",
        policy,
        "--tasks",
        "3",
        "--split",
        "train",
    ]
    assert main([*words, "--out", str(out), *ENV]) == 0
    episodes = read_episodes(out / "episodes.jsonl")
    assert [(episode.success, episode.metrics["drifted_tokens"]) for episode in episodes] == [(True, 0)] * 3
    for episode in episodes:
        replies = [turn.text for turn in episode.turns]
        assert all(reply.startswith("RUN bash -c ") for reply in replies[:-1]) and replies[-1] == "Done."
        assert {log for turn in episode.turns for log in turn.logprobs} == {0.0}
    options = json.loads((out / "manifest.json").read_text())["options"]
    assert options["policy"] == "oracle" and options["tokens_of"] and "model" not in options
    sft = ["sft", str(out), "--model", policy, "--epochs", "2", "--batch", "3", "--lr", "1e-3", "--out", str(warm)]
    assert main(sft) == 0
    assert json.loads((warm / "summary.json").read_text())["updates"] == 2


def test_a_replay_needs_a_model_and_the_form_of_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["eval", TERMINAL, "--policy", "oracle", "--agent", own(tmp_path), *ENV]
    assert main(words) and "name it with --model" in capsys.readouterr().err
    assert (
        main([*words, "--model", "x", "--temperature", "0.5"]) and "--temperature has no effect" in capsys.readouterr().err
    )


@pytest.mark.long
def test_a_run_by_the_command_is_killed_and_goes_on(tmp_path: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    harness, run, log = parity(tmp_path), tmp_path / "run", tmp_path / "log"
    words = ["train", "--env", TERMINAL, "--model", policy, "--agent", harness, "--attempt-seconds", "60", "--steps", "2"]
    words += ["--tasks-per-step", "2", "--group-size", "4", "--concurrency", "2", "--test-tasks", "0", "--lr", "1e-4"]
    words += ["--turn-tokens", "8", "--checkpoint-every", "1", "--credit", "gigpo", "--credit.anchor", "state"]
    with log.open("w") as file, subprocess.Popen(command(*words, "--out", str(run)), stdout=file, stderr=file) as going:
        while going.poll() is None and not (run / "checkpoints" / "step-00000001" / "trainer.pt").exists():
            time.sleep(0.05)
        going.kill()
    assert going.returncode == -signal.SIGKILL, log.read_text()
    assert main(["train", "--resume", str(run)]) and "--agent harness:" in capsys.readouterr().err  # it is started for none
    resumed = subprocess.run(command("train", "--resume", str(run), "--agent", harness), capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2] and any(row["groups_trained"] for row in rows)
    assert all(row["anchor_missing"] == row["faults"] == 0 for row in rows)
    groups: dict[str, list[Episode]] = {}
    for episode in read_episodes(run / "episodes.jsonl"):
        groups.setdefault(episode.group_id, []).append(episode)
    assert [len(group) for group in groups.values()] == [4] * 4
    for name, group in groups.items():
        assert len({episode.turns[0].state_key for episode in group}) == 1
        for episode in group:
            assert episode.metrics["drifted_tokens"] == 0 and len(build([episode])) == episode.metrics["rows"] == 1
            assert {turn.policy_version for turn in episode.turns} == {int(name[0]) - 1}
            changed = episode.turns[-1].state_key != episode.turns[0].state_key
            assert episode.success == changed == (sum(episode.turns[0].text.encode()) % 2 == 0)
