"""The real packages of clients and the real mini-swe-agent against `agentgym serve gateway`; run by `./dev test-clients`."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conformance
import pytest
import transformers

from agentgym.episodes.episode import Episode, read_episodes
from agentgym.trainers.data.segments import build

CLIENTS = os.environ.get("AGENTGYM_CLIENTS", "")
pytestmark = pytest.mark.skipif(not CLIENTS, reason="the clients have an environment of their own: ./dev test-clients")
HERE = Path(__file__).parent
CHATS, TURNS, AGENTS, STEPS = 48, 8, 24, 4
ROUNDS = 2
totals = {"tokens": 0, "drifted": 0, "encoded anew": 0, "scored": 0}


@pytest.fixture
def served(folder: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Run the command, end it with Ctrl-C; yields base URL and the file of episodes."""
    out = tmp_path / "episodes.jsonl"
    command = [
        sys.executable,
        *["-m", "agentgym", "serve", "gateway", "--port", "0", "--model"],
        str(folder),
        "--out",
        str(out),
    ]
    environment = {**os.environ, "COLUMNS": "300", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout
        found = re.search(r"http://127\.0\.0\.1:\d+/v1", process.stdout.readline())
        assert found, process.communicate(timeout=30)
        yield found[0], out
        process.send_signal(signal.SIGINT)
        out_and_err = process.communicate(timeout=60)
        assert process.returncode == 0, out_and_err
    finally:
        process.kill()


def run(script: str, *arguments: str, stdin: str = "") -> list[dict[str, Any]]:
    command = [CLIENTS, str(HERE / script), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(episodes: list[Episode], folder: Path, temperature: float) -> None:
    """Count what is held, and compare every tenth episode with a forward pass of the library."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    for number, episode in enumerate(episodes):
        totals["tokens"] += int(episode.metrics["held_tokens"])
        totals["drifted"] += int(episode.metrics["drifted_tokens"])
        rows = build([episode])
        assert len(rows) == episode.metrics["rows"] and sum(len(row) for row in rows) == episode.metrics["held_tokens"]
        if number % 10 == 0:
            for turn in episode.turns:
                want = conformance.reference_logprobs(model, turn.prompt_ids, turn.output_ids, temperature)
                assert turn.logprobs == pytest.approx(want, abs=1e-3)
                totals["scored"] += len(turn.output_ids)


def test_openai(served: tuple[str, Path], folder: Path) -> None:
    url, out = served
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    chats = run("openai_chats.py", url, str(CHATS), str(TURNS))
    episodes = {episode.task_id: episode for episode in read_episodes(out)}
    calls, stops = 0, tokenizer.convert_tokens_to_ids(["<|im_end|>", "<eos>"])
    for chat in chats:
        episode, log = episodes[chat["name"]], chat["log"]
        assert [turn.prompt_ids for turn in episode.turns] == [got["prompt"] for got in log]
        assert [turn.output_ids for turn in episode.turns] == [got["ids"] for got in log]
        assert [turn.logprobs for turn in episode.turns] == [got["logprobs"] for got in log]
        assert {turn.policy_version for turn in episode.turns} == {got["version"] for got in log} == {0}
        assert episode.metrics["rows"] == (2 if chat["kind"] == "rewrite" else 1) and episode.success
        for got in log:
            ids, message = got["ids"], got["message"]
            text = tokenizer.decode(ids[:-1] if ids[-1] in stops else ids)
            if message.get("tool_calls"):
                calls += 1
                assert text.strip().endswith("</tool_call>") and got["finish"] == "tool_calls"
            else:
                assert message["content"] == text
            if chat["kind"] != "tools" and "<|" not in str(got["sent"]):  # transformers itself would read control strings
                own = tokenizer.apply_chat_template(got["sent"], add_generation_prompt=True, return_dict=False)
                assert own == got["prompt"]
                totals["encoded anew"] += len(got["prompt"])
    assert len(chats) == len(episodes) == CHATS and calls > CHATS // 4
    check(list(episodes.values()), folder, 0.9)


def test_mini_swe_agent(served: tuple[str, Path], folder: Path) -> None:
    url, out = served
    jobs = [
        {"base_url": url, "api_key": f"x:agent-{n}", "model": "model", "task": f"Fix issue {n}.", "steps": STEPS}
        for n in range(AGENTS)
    ]
    lines = [json.dumps({**one, "textbased": n % 3 == 2}) for n, one in enumerate(jobs)]
    agents = run("mini_swe.py", stdin="\n".join(lines) + "\n")
    assert len(agents) == AGENTS
    import httpx2

    for agent in agents:
        name = agent["key"].partition(":")[2]
        reward = {"reward": int(agent["end"] == "Submitted"), "task_id": name}
        assert httpx2.post(f"{url}/sessions/{name}/finish", json=reward).status_code == 200
    episodes = {episode.task_id: episode for episode in read_episodes(out)}
    for agent in agents:
        episode = episodes[agent["key"].partition(":")[2]]
        assert len(episode.turns) == agent["calls"]
        dropped = agent["calls"] - len(agent["said"])  # after a reply without a call it goes on as if there had been none
        assert episode.metrics["rows"] <= 1 + dropped
        assert (episode.success, len(agent["commands"])) in ((True, STEPS), (False, len(agent["commands"])))
    merged = sum(len(episode.turns) - int(episode.metrics["rows"]) for episode in episodes.values())
    ended = sum(agent["end"] == "Submitted" for agent in agents)
    print(f"\n{AGENTS} agents, {ended} came to their end; {merged} turns extended what was held")
    assert merged > AGENTS and ended
    check(list(episodes.values()), folder, 1.0)


def test_three_apis(served: tuple[str, Path], folder: Path) -> None:
    """What clients got back is what was sampled, and what they sent back was found again token by token."""
    url, out = served
    talks = run("wires.py", url, str(ROUNDS), str(TURNS))
    episodes = {episode.task_id: episode for episode in read_episodes(out)}
    assert len(talks) == 9 * ROUNDS == len(episodes)
    for talk in talks:
        episode, kind = episodes[talk["name"]], talk["kind"]
        if kind == "extras":
            assert talk["texts"][0] == "n 3" and set(talk["texts"][2:5]) <= {"forced", "spoiled"}
            refused = ["400 logit_bias", "400 frequency_penalty"]
            assert talk["texts"][5:] == [*refused, "previous_response_not_found", "not_found_error"]
            continue
        assert episode.metrics["rows"] == 1, (talk, episode.metrics)
        if not kind.startswith("sdk"):
            assert len(episode.turns) == TURNS
            for turn, text in zip(episode.turns, talk["texts"], strict=True):
                assert turn.text.startswith(text) or turn.text.partition("<tool_call>")[0].rstrip() == text
    forced = [text for talk in talks if talk["kind"] == "extras" for text in talk["texts"][2:5]]
    print(f"\n{len(talks)} conversations; of {len(forced)} forced calls {forced.count('forced')} could be read")
    check(list(episodes.values()), folder, 0.9)


def test_a_hundred_thousand_tokens_and_none_drifted() -> None:
    print(f"\n{totals}")
    assert totals["tokens"] >= 100_000 and totals["drifted"] == 0
    assert totals["encoded anew"] > 100 and totals["scored"] > 1000
