"""Served environments under hostile clients: each gets a clear refusal, and an episode beside it goes on undisturbed."""

import asyncio
import base64
import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve-env` is not installed")
pytest.importorskip("websockets", reason="the extra `serve-env` is not installed")
import httpx2
from served_envs import running
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

import agentgym
from agentgym.env_server import App, Limits, Sessions

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def served():
    """A server with small limits: its address."""
    with running(limits=Limits(sessions=8), body_bytes=200_000, body_seconds=1.0) as (url, sessions):
        yield url, sessions


@pytest.fixture
def client(served):
    """A client, and an episode of somebody else, which must go on as if nothing had happened."""
    with httpx2.Client(base_url=served[0], timeout=60) as made:
        session = made.post("/reset", json={"seed": 0}).json()["session"]
        assert made.post("/step", json={"session": session, "action": "go"}).json()["observation"]["text"] == "1 of 3"
        yield made
        assert made.post("/step", json={"session": session, "action": "go"}).json()["observation"]["text"] == "2 of 3"
        made.post("/close", json={"session": session})
        assert not served[1].open


def ws_of(client):
    return str(client.base_url).replace("http", "ws").rstrip("/") + "/ws"


def test_a_huge_body(client):
    for body in (
        {"content": b"x" * 10_000_000},
        {"content": (b"x" * 100_000 for _ in range(100))},
    ):  # with a length, and without
        answer = client.post("/step", headers=JSON, **body)
        assert answer.status_code == 413 and "200000 bytes" in answer.json()["detail"]


def test_an_action_of_10_mb_and_one_that_fits_the_body_but_is_too_long(client):
    session = client.post("/reset", json={}).json()["session"]
    assert client.post("/step", json={"session": session, "action": "x" * 10_000_000}).status_code == 413
    long = client.post("/step", json={"session": session, "action": "x" * 150_000})
    assert long.status_code == 413 and "150000 characters" in long.json()["detail"]
    assert client.get("/state", headers={"X-Session-Id": session}).json()["step_count"] == 0
    client.post("/close", json={"session": session})


def test_a_message_of_10_mb_closes_its_connection(client):
    with connect(ws_of(client)) as ws:
        ws.send(json.dumps({"type": "step", "data": {"text": "x" * 10_000_000}}))
        with pytest.raises(ConnectionClosed, match="1009"):
            ws.recv(60)
    wait_for(lambda: len(client_sessions(client)) == 1)


def test_a_body_that_comes_too_slowly(client):
    with socket.create_connection((client.base_url.host, client.base_url.port)) as slow:
        slow.sendall(
            b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        )
        slow.settimeout(60)
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b"null", b'"a"', b"1" * 10_000])
def test_what_is_no_json_object(client, content):
    answer = client.post("/reset", content=content, headers=JSON)
    assert answer.status_code == 400 and answer.json()["code"] == "INVALID_JSON"
    with connect(ws_of(client)) as ws:
        ws.send(content)
        message = json.loads(ws.recv(60))
        assert message["type"] == "error" and message["data"]["code"] == "INVALID_JSON"


@pytest.mark.parametrize(
    "action",
    [None, 3, [], {}, {"text": 3}, {"text": "a", "more": 1}, {"pickle": "gASV"}, {"name": 3}, {"type": "call_tool"}],
)
def test_what_is_no_action(client, action):
    session = client.post("/reset", json={}).json()["session"]
    assert client.post("/step", json={"session": session, "action": action}).status_code == 422
    client.post("/close", json={"session": session})


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "go" * 40_000, "../../etc/passwd", "<script>"])
def test_odd_text_is_an_invalid_action(client, text):
    session = client.post("/reset", json={}).json()["session"]
    body = json.dumps({"session": session, "action": text}).encode()
    response = client.post("/step", content=body, headers=JSON)
    assert response.status_code == 200 and response.json()["observation"]["info"]["valid"] is False
    client.post("/close", json={"session": session})


@pytest.mark.parametrize("named", ["", "x", None, 3, {}, ["a"], "../reset", "0" * 10_000])
def test_sessions_of_others_cannot_be_guessed(client, served, named):
    for path in ("/step", "/snapshot", "/restore", "/close"):
        assert client.post(path, json={"session": named, "action": "go", "snapshot": named}).status_code == 404
    assert all(len(id) >= 32 for id in served[1].open)


@pytest.mark.parametrize("snapshot", ["", None, "gASVAAAA", {"payload": 1}, base64.b64encode(b"\x80\x04N.").decode()])
def test_a_snapshot_is_never_what_a_client_made(client, snapshot):
    session = client.post("/reset", json={}).json()["session"]
    assert client.post("/restore", json={"session": session, "snapshot": snapshot}).status_code == 404
    client.post("/close", json={"session": session})


def test_too_many_sessions_are_refused_with_the_reason(client):
    answers = [client.post("/reset", json={}) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [200] * 7 + [503] * 5  # one is somebody else's
    assert "all 8 sessions are in use" in answers[-1].json()["detail"]
    with connect(ws_of(client)) as ws:
        message = json.loads(ws.recv(60))
        assert (message["type"], message["data"]["code"]) == ("error", "CAPACITY_REACHED")
    for answer in answers[:7]:
        client.post("/close", json={"session": answer.json()["session"]})


def test_two_requests_for_one_session_do_not_mix(client):
    """One of a pile of requests plays at a time; no step is lost or counted twice."""
    session = client.post("/reset", json={}).json()["session"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(client.post, "/step", json={"session": session, "action": "no"}) for _ in range(16)]
        codes = [one.result().status_code for one in futures]
    assert set(codes) <= {200, 409}
    assert client.get("/state", headers={"X-Session-Id": session}).json()["step_count"] == codes.count(200)
    client.post("/close", json={"session": session})


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/reset", 405), ("POST", "/schema", 405), ("GET", "/../x", 404), ("POST", "/", 404)],
)
def test_other_paths_and_methods(client, method, path, status):
    assert client.request(method, path, json={}).status_code == status


def test_a_form_of_a_web_page_is_refused(client):
    assert client.post("/reset", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.post("/reset", json={}, headers={"Origin": "http://evil.example"}).status_code == 403
    with pytest.raises(InvalidStatus, match="403"):
        connect(ws_of(client), origin="http://evil.example")


def test_bad_batches(client):
    for steps in (None, [], [1], [{}] * 1025, {}):
        assert client.post("/steps", json={"steps": steps}).status_code == 422


def test_a_client_that_hangs_up_leaves_no_session(client):
    ws = connect(ws_of(client))
    ws.send(json.dumps({"type": "reset", "data": {}}))
    ws.recv(60)
    ws.socket.shutdown(socket.SHUT_RDWR)
    wait_for(lambda: len(client_sessions(client)) == 1)


def test_a_client_that_hangs_up_while_it_is_answered_is_no_error_of_ours(caplog):
    sessions = Sessions(lambda: agentgym.make("rlvr/GuessNumber-v0").unwrapped)
    heard = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": '{"type": "reset"}'}])

    async def receive():
        return next(heard)

    async def send(message):
        if message["type"] != "websocket.accept":
            raise OSError("gone")  # as uvicorn's ClientDisconnected

    scope = {"type": "websocket", "path": "/ws", "headers": [(b"host", b"127.0.0.1:1")]}
    asyncio.run(App(sessions, name="x")(scope, receive, send))
    assert not sessions.open and not caplog.records  # else whoever floods and leaves fills the log with stacks


def test_only_the_token_lets_in():
    with running(token="right") as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        assert client.get("/health").status_code == 200
        for header in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Bearer right2"},
            {"Authorization": "Basic !"},
        ):
            refused = client.post("/reset", json={}, headers=header)
            assert refused.status_code == 401 and "token" in refused.json()["detail"]
            assert client.get("/schema", headers=header).status_code == 401
        bearer, basic = "Bearer right", "Basic " + base64.b64encode(b"agentgym:right").decode()
        for header in (bearer, basic):
            assert client.post("/reset", json={}, headers={"Authorization": header}).status_code == 200
        there = url.removeprefix("http://")
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://{there}/ws")
        with connect(f"ws://agentgym:right@{there}/ws") as ws:  # as OpenEnv's client can say it
            ws.send('{"type": "state"}')
            assert json.loads(ws.recv(60))["type"] == "state"


def test_idle_sessions_end():
    with running(limits=Limits(idle_seconds=0.5)) as (url, sessions), httpx2.Client(base_url=url, timeout=60) as client:
        session = client.post("/reset", json={}).json()["session"]
        with connect(ws_of(client)) as ws:
            message = json.loads(ws.recv(60))
            assert message["type"] == "error" and "idle for 0.5 seconds" in message["data"]["message"]
        wait_for(lambda: not sessions.open)
        assert client.post("/step", json={"session": session, "action": "go"}).status_code == 404


def test_steps_keep_a_session_from_being_idle():
    with running(limits=Limits(idle_seconds=3)) as (url, _), connect(f"{url.replace('http', 'ws')}/ws") as ws:
        ws.send('{"type": "reset", "data": {"horizon": 100}}')
        until = time.monotonic() + 6
        while time.monotonic() < until:
            assert json.loads(ws.recv(60))["type"] == "observation"
            time.sleep(0.1)
            ws.send('{"type": "step", "data": {"text": "no"}}')
        assert json.loads(ws.recv(60))["type"] == "observation"
        assert json.loads(ws.recv(60))["data"]["code"] == "SESSION_ERROR"  # and then it is


def test_a_client_that_sends_ahead_holds_no_other_up():
    with (
        running() as (url, _),
        connect(f"{url.replace('http', 'ws')}/ws") as many,
        connect(f"{url.replace('http', 'ws')}/ws") as one,
    ):
        for ws in (many, one):
            ws.send('{"type": "reset", "data": {"horizon": 100000}}')
            ws.recv(60)
        for _ in range(5000):
            many.send('{"type": "step", "data": {"text": "no"}}')
        one.send('{"type": "step", "data": {"text": "go"}}')
        assert "1 of 3" in one.recv(60)
        many.send('{"type": "state"}')
        steps = [json.loads(many.recv(60)) for _ in range(5000)]
        assert {step["type"] for step in steps} == {"observation"}
        assert json.loads(many.recv(60))["data"]["step_count"] == 5000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_sessions_and_the_process(number):
    command = [sys.executable, "-m", "agentgym", "serve", "env", "frozenlake", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = process.stdout.readline()
        url = re.search(r"http://\S+", line)[0]
        session = httpx2.post(f"{url}/reset", json={"seed": 1}, timeout=60)
        assert session.status_code == 200
        process.send_signal(number)
        assert "and 1 open sessions" in process.communicate(timeout=60)[0]
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_a_host_for_others_needs_a_token():
    command = [sys.executable, "-m", "agentgym", "serve", "env", "frozenlake", "--host", "0.0.0.0", "--port", "0"]
    environ = {name: value for name, value in os.environ.items() if name != "AGENTGYM_TOKEN"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ)
    assert ended.returncode == 2 and "AGENTGYM_TOKEN" in ended.stderr


SESSIONS = {}


def client_sessions(client):
    return SESSIONS[str(client.base_url)]


@pytest.fixture(autouse=True)
def _sessions(served):
    SESSIONS[served[0]] = SESSIONS[served[0] + "/"] = served[1].open


def wait_for(condition):
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about in a minute")


def test_without_a_token_a_page_under_a_name_of_its_own_gets_nothing(client):
    """DNS rebinding: a page's own name points to loopback, so its requests have no Origin."""
    refused = client.get("/schema", headers={"Host": "env:8000"})
    assert refused.status_code == 403 and "localhost and 127.0.0.1 only, not to 'env:8000'" in refused.json()["detail"]
    assert client.get("/schema", headers={"Host": "localhost:1"}).status_code == 200
