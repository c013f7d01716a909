"""Tools of a real MCP server inside an environment."""

import gzip
import json
import resource
import shlex
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from agentgym.core.tasks import Task
from agentgym.errors import RULED_OUT, BadConfig, Fault
from agentgym.mcp_tools import McpEnv

SERVER = Path(__file__).parents[1] / "fakes" / "mcp_server.py"
WHERE = f"mcp:{shlex.join([sys.executable, str(SERVER)])}"


class Sums(McpEnv):
    """Add two numbers with the server's tool."""

    tool_server = WHERE

    def generate(self, rng, difficulty):
        a, b = (int(n) for n in rng.integers(10, 99, 2))
        return Task(instruction=f"What is {a} + {b}?", data={"a": a, "b": b})

    def judge(self, answer):
        return answer.strip() == str(self.task.data["a"] + self.task.data["b"])

    def oracle(self):
        data = self.task.data
        yield json.dumps({"name": "add", "arguments": {"a": data["a"], "b": data["b"]}})
        yield f"answer[{data['a'] + data['b']}]"


@pytest.fixture(scope="module")
def env():
    made = Sums(call_seconds=5)
    yield made
    made.close()


@pytest.fixture(scope="module")
def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), "--http", str(port)], stderr=subprocess.DEVNULL)
    for _ in range(600):
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"mcp:http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


@pytest.fixture(scope="module")
def sessions(address):
    """An environment whose new servers are sessions of one process, which are quicker to start than processes."""
    made = Sums(tool_server=address, call_seconds=5)
    yield made
    made.close()


def test_the_tools_are_the_servers_and_the_answer_is_ours(env):
    assert {"answer", "add", "note", "slow"} <= set(env.tools)
    assert env.tools["add"].description == "Add two numbers." and env.tools["add"].required == ["a", "b"]
    env.reset(seed=1)
    results = [env.step(action) for action in env.oracle()]
    assert results[0][0] == str(env.task.data["a"] + env.task.data["b"])
    assert results[1][1:4] == (1.0, True, False)


def test_every_episode_has_a_server_of_its_own(env):
    for _ in range(2):
        env.reset(seed=1)
        assert env.step("note[a]")[0] == "a"
        assert env.step("note[b]")[0] == "a, b"


@pytest.mark.long
def test_a_snapshot_is_the_log_of_calls(env):
    env.reset(seed=1)
    env.step("note[a]")
    there = env.snapshot()
    assert env.step("note[b]")[0] == "a, b"
    env.restore(there)
    assert env.step("note[c]")[0] == "a, c"
    env.reset(seed=1)
    env.step("clock[]")
    there = env.snapshot()
    env.reset(seed=2)
    env.restore(there)
    result = env.step("note[a]")
    assert result[3] and result[4]["reason"] == "crash" and "returned something else" in result[4]["error"]


def test_what_a_tool_says_is_text_and_has_an_end(sessions):
    sessions.reset(seed=1)
    text, reward, *_, info = sessions.step("flood[]")
    assert reward == 0.0 and info["valid"] and len(text) < 17_000 and "characters left out" in text
    text, *_, info = sessions.step("fail[]")
    assert info["valid"] is False and "reset" not in text
    assert (
        "valid" in sessions.step("add[1]")[4]
        and sessions.step('{"name": "add", "arguments": {"a": "x", "b": 1}}')[4]["valid"] is False
    )
    assert sessions.step("note[\ud800]")[4]["valid"] is False


@pytest.mark.long
def test_a_call_that_takes_too_long_is_the_agents_and_the_episode_goes_on():
    env = Sums(call_seconds=3)
    env.reset(seed=1)
    env.step("note[a]")
    text, _, terminated, truncated, info = env.step("slow[]")
    assert "longer than 3 seconds" in text and info["valid"] is False and not terminated and not truncated
    assert env.step("note[b]")[0] == "a, b"
    env.close()


def test_a_server_that_dies_is_a_fault_and_the_next_episode_has_another(env):
    env.reset(seed=1)
    *_, truncated, info = env.step("die[]")
    assert truncated and info["reason"] == "crash" and info["success"] is None
    env.reset(seed=1)
    assert env.step("note[a]")[0] == "a"


def test_an_error_of_the_protocol_is_the_calls_unless_the_plainest_call_fails_too(sessions):  # mcp 2.3.0
    sessions.reset(seed=1)
    for call, message in (
        ("strict[up]", "no word 'up'"),
        ("strict[code]", "internal error at 'code'"),
        ("strict[own code]", "no luck with 'own code'"),
        ("letters[a1]", "'many' is not of type 'integer'"),
        ('{"name": "note", "arguments": {"text": "\\ud83d"}}', "half a character"),  # its client ends at it
        ('{"name": "add", "arguments": {"a": "one", "b": 1}}', "'a' of add must be of type integer"),
    ):
        text, _, terminated, truncated, info = sessions.step(call)
        assert message in text and (info["valid"], terminated, truncated) == (False, False, False)
    assert sessions.step(next(sessions.oracle()))[4]["valid"]  # it goes on
    down = Sums(tool_server=f"{WHERE} --down")
    down.reset(seed=1)
    *_, truncated, info = down.step("strict[code]")
    assert truncated and info["reason"] == "crash" and info["error"].startswith(RULED_OUT)
    down.close()


@pytest.mark.long
def test_the_last_call_that_was_carried_out_is_a_control_too(env):
    wrong, right = (f'{{"name": "lookup", "arguments": {{"number": "{n}", "kind": "card"}}}}' for n in ("?", "K-1"))
    fresh = Sums()
    fresh.reset(seed=1)
    assert fresh.step(wrong)[4]["reason"] == "crash"  # nothing that this tool carries out is known
    fresh.reset(seed=1)
    assert fresh.step(right)[0] == "card K-1"
    text, _, _, truncated, info = fresh.step(wrong)
    assert "no row '?'" in text and (truncated, info["valid"]) == (False, False)
    fresh.close()


def test_the_server_does_not_get_our_environment(env, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_TRAINER", "1")
    env.close()
    env.reset(seed=3)
    names = env.step("environment[]")[0].split()
    assert "PATH" in names and "SECRET_OF_THE_TRAINER" not in names


def test_a_server_at_an_address(address):
    env = Sums(tool_server=address)
    env.reset(seed=1)
    assert [env.step(action)[1] for action in env.oracle()] == [0.0, 1.0]
    env.close()


@pytest.mark.parametrize("kind", ["command", pytest.param("address", marks=pytest.mark.long)])
def test_a_result_has_a_largest_size(env, kind, request):  # mcp 2.3.0 reads a line, and a body of JSON, of any length
    there = env if kind == "command" else Sums(tool_server=request.getfixturevalue("address"))
    there.reset(seed=1)
    there.step("note[a]")
    assert there.step("endless[1]")[4]["valid"]
    text, _, terminated, truncated, info = there.step("endless[5]")
    assert text.endswith("it sent a message of more than 4 MiB")
    assert (info["valid"], terminated, truncated) == (False, False, False)
    if kind == "address":
        there.close()


@pytest.mark.long
def test_a_line_without_an_end_is_not_kept():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Fault, match="cannot be used: it sent a message of more than 4 MiB"):
        Sums(tool_server=f"{WHERE} --endless")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB


def test_a_packed_answer_is_refused():  # httpx2 unpacks whatever a server packs, of any size
    packed = gzip.compress(b" " * (64 << 20))

    class Packing(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(packed)))
            self.end_headers()
            self.wfile.write(packed)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Packing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(Fault, match="cannot be used"):
            Sums(tool_server=f"mcp:http://127.0.0.1:{server.server_port}/mcp")
        server.shutdown()


@pytest.mark.parametrize("where", ["", "python server.py", "mcp:", "ftp://x"])
def test_what_is_no_server(where):
    with pytest.raises(BadConfig, match="mcp:COMMAND"):
        Sums(tool_server=where)


def test_a_command_that_is_no_server():
    with pytest.raises(Fault, match="cannot be used"):
        Sums(tool_server="mcp:/nonexistent/program")
