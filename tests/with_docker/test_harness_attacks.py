"""A hostile harness: it goes for rewards, tests, other episodes, the host, and for more than its own part of the gateway."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
from conftest import URL
from test_harbor_attacks import FORGE, LATER, OUTLIVE
from test_harbor_steps import ENVIRONMENT, write
from test_harnesses import OWN, answers, played, scripted, terminal

from agentgym.registry import make

HARBOR = "rlvr/Harbor-v0"
TEST = "sleep 1; ls -A /app; [ -e /app/never ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
TRY = """
import glob, json, os, socket, urllib.error, urllib.request
def refused(action):
    try:
        action()
    except OSError as error:
        return True
    return False
def code(url, key, body=None):
    headers = {"Authorization": "Bearer " + key, "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code
def raw(line):
    host, port = BASE.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        lines = [line + " HTTP/1.1", "Host: x", "Authorization: Bearer " + KEY, "Connection: close", "", ""]
        connection.sendall("\\r\\n".join(lines).encode())
        return int((connection.recv(100).split() or [b"", b"0"])[1])
KEY, BASE = os.environ["KEY"], os.environ["BASE"]
secret, _, name = KEY.rpartition(":")
other = name[:-1] + ("1" if name.endswith("0") else "0")
files = ("/proc/1/mem", "/proc/1/environ", "/dev/mem", "/proc/kcore")
lines = ("GET http://192.0.2.1/", "CONNECT 192.0.2.1:80", "GET /v1/../../etc/passwd", "GET //etc/passwd")
print(json.dumps({
    "host": [refused(lambda p=p: open(p, "rb").read(1)) for p in files],
    "sockets": glob.glob("/run/*.sock") + glob.glob("/var/run/*.sock") + glob.glob("/tmp/**/*.sock", recursive=True),
    "process 1": refused(lambda: os.kill(1, 9)) or os.path.exists("/proc/1"),
    "another": [code(BASE + path, secret + ":" + other) for path in ("/models", "/sessions/" + other)],
    "own": code(BASE + "/models", KEY),
    "elsewhere": [raw(line) for line in lines],
    "marks": len(glob.glob("/tmp/mark-*") + glob.glob("/dev/shm/mark-*")),
}))
"""

FLOOD = """
import json, os, socket, time
host, port = os.environ["BASE"].split("/")[2].split(":")
def connect():
    one = socket.create_connection((host, int(port)), 5)
    one.settimeout(5)
    return one
def ended(one):
    one.settimeout(0.1)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
lines = ["POST /v1/chat/completions HTTP/1.1", "Host: x", "Authorization: Bearer " + os.environ["KEY"]]
lines += ["Content-Type: application/json", "Content-Length: 99999999999", "", "a" * 1000]
one = connect()
one.sendall("\\r\\n".join(lines).encode())
status = int(one.recv(100).split()[1])
many = [connect() for _ in range(100)]
time.sleep(7)
print(json.dumps({"status": status, "closed": sum(ended(each) for each in many)}))
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return f"harness:{path}"


@pytest.mark.parametrize("verifier", ["", SEPARATE], ids=["shared", "separate"])
@pytest.mark.parametrize("kind", ["a session of its own", "a daemon"])
def test_a_harness_writes_no_reward_and_sees_no_test(own: str, kind: str, verifier: str, tmp_path: Path) -> None:
    """It plants rewards and tests, and leaves a process that goes on planting them while the verifier runs."""
    own_image = "[ -e /opt/agentgym/note ] && touch /app/never\n" if verifier else ""  # a verifier has no harness
    files = {"instruction.md": "Do it.\n", "tests/test.sh": own_image + TEST, "tests/answer.txt": "the hidden answer\n"}
    folder = write(tmp_path / "t", ENVIRONMENT + verifier, files)
    look = (
        "grep -rls 'the hidden answer' / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev; ls -A /tests /logs/verifier"
    )
    leave = f"cat > /app/later <<'END'\n{LATER}\nEND\n{OUTLIVE[kind].format('. /app/later')}"
    steps = [look, FORGE, leave]
    options = {"path": str(folder), "backend_options": {"daemon": URL}}
    with make(HARBOR, **options) as env:
        tasks = env.tasks(1)
    (episode,) = played(own, scripted("own", steps), tasks, env=HARBOR, options=options)
    assert (episode.success, episode.reward, episode.reason) == (False, 0.0, "failure"), episode.error
    assert "/app" not in episode.turns[1].observation and "answer.txt" not in episode.turns[1].observation
    assert len(episode.turns) == 4 and episode.metrics["reward"] == 0.0


def test_a_harness_reaches_no_host_no_other_episode_and_only_its_own_part_of_the_gateway(own: str) -> None:
    """Two episodes at once leave marks and processes, and each finds its own alone."""
    tasks, _ = terminal(1)
    mark = "touch /tmp/mark-$$ /dev/shm/mark-$$; sleep 2"
    steps = [mark, f"sleep 1; python3 -I -c {shlex.quote(TRY)}"]
    both = played(own, scripted("own", steps), tasks, attempts=2, concurrency=2)
    for episode in both:
        seen: dict[str, Any] = json.loads(episode.turns[2].observation.splitlines()[-1])
        assert seen["host"] == [True] * 4 and seen["sockets"] == [] and seen["process 1"] is True, seen
        assert seen["own"] == 200 and all(code in (401, 403) for code in seen["another"]), seen
        assert all(400 <= code < 500 for code in seen["elsewhere"]), seen
        assert seen["marks"] == 2, seen
        assert (episode.success, episode.reason) == (False, "failure")


def test_a_harness_that_floods_the_gateway_is_refused_while_another_works(own: str) -> None:
    """A body that is announced too long is refused before it is read, and a container has 64 connections at most."""
    tasks, solutions = terminal(2)
    flooded = tasks[0].instruction

    def reply(prompt: str, turn: int) -> str:
        task = next(each for each in solutions if each in prompt)
        steps = [f"python3 -I -c {shlex.quote(FLOOD)}"] if task == flooded else solutions[task]
        return f"RUN {steps[answers(prompt)]}" if answers(prompt) < len(steps) else "Done."

    hostile, honest = sorted(played(own, reply, tasks), key=lambda episode: episode.instruction != flooded)
    seen: dict[str, int] = json.loads(hostile.turns[1].observation.splitlines()[-1])
    assert seen["status"] == 413 and 36 <= seen["closed"] < 100, seen
    assert (hostile.success, hostile.reason, honest.success) == (False, "failure", True), (hostile.error, honest.error)


@pytest.mark.parametrize("kind", ["script", "bytes", "link", "more files"])
def test_a_script_of_harbor_is_replayed_as_one_command_and_shows_no_file_of_the_host(kind: str, tmp_path: Path) -> None:
    """Anything but one plain script of text is sent packed; a link is sent as a link or refused."""
    folder = write(tmp_path / "t", ENVIRONMENT, {"instruction.md": "Do it.\n", "tests/test.sh": "true\n"})
    script, secret = folder / "solution" / "solve.sh", tmp_path / "secret"
    script.parent.mkdir()
    secret.write_text("secret")
    if kind == "link":
        script.symlink_to(secret)
    else:
        script.write_bytes(b"#!/bin/bash\necho 1\n" + (b"\xff" if kind == "bytes" else b""))
    if kind == "more files":
        script.with_name("data").write_text("x")
    with make(HARBOR, path=str(folder), backend_options={"daemon": URL}) as env:
        env.reset(seed=0)
        commands = env.unwrapped.solution_commands()  # type: ignore[attr-defined]
    assert (commands == ["echo 1"]) == (kind == "script") and "secret" not in "".join(commands)
