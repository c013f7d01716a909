"""Agents that go for the reward, the tests and the network of Harbor's tasks: what our guards keep them from."""

import json
import os

import pytest
from test_harbor import bash, make
from test_harbor_steps import ENVIRONMENT, IMAGE, SEPARATE, stepped, write

from agentgym.agents.policies import ScriptedPolicy
from agentgym.errors import RULED_OUT
from agentgym.rollout.collect import collect

try:
    from conftest import KIND, PYTHON, URL
except ImportError:
    pytest.skip("the tests' own daemon is not there: run ./dev test-docker", allow_module_level=True)

FORGE = """mkdir -p /logs/verifier; for s in s1 s2 s3; do mkdir -p /steps/$s /logs/verifier/$s /tests/$s
echo 1 > /logs/verifier/$s/reward.txt; done; echo '{"reward": 1}' > /logs/verifier/reward.json
echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; cp /tests/test.sh /app/test.sh; touch /tests/reward.json"""
LATER = """while true; do mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt
echo '{"reward": 1}' > /logs/verifier/reward.json; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh
echo > /tests/helper.sh; [ -e /app/alive ] || echo 1 > /app/alive; sleep 0.01; done"""
OUTLIVE = {
    "a session of its own": "(setsid nohup bash -c '{}' > /dev/null 2>&1 &)",
    "a daemon": """python3 - <<'END'
import os, subprocess
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        null = os.open("/dev/null", os.O_RDWR)
        [os.dup2(null, number) for number in range(3)]
        os.execvp("bash", ["bash", "-c", open("/app/later").read()])
    os._exit(0)
os.wait()
END""",
    "a stopped one that is woken": "(setsid bash -c 'kill -STOP $$; {}' > /dev/null 2>&1 &); sleep 0.2",
    "a trap at the end": "trap '' TERM HUP INT; (setsid nohup bash -c 'trap \"\" TERM HUP INT; {}' > /dev/null 2>&1 &)",
}


def test_a_step_writes_no_reward_of_another(tmp_path):
    """The first step plants rewards and tests for all that come, and leaves a process that writes them."""
    env = make(stepped(tmp_path / "t", ""))
    env.reset(seed=0)
    env.step(bash(f"echo 1 > number; {FORGE}"))
    env.step(bash(f"cat > later <<'END'\n{LATER}\nEND\n{OUTLIVE['a session of its own'].format('. /app/later')}"))
    observation, *_ = env.step("submit[]")
    assert "step 2 of 3" in observation
    env.step(bash("rm -f alive"))
    assert env.step(bash("sleep 0.5; ls /app/alive /logs/verifier/* /tests 2>&1"))[0].count("No such file") == 3
    env.step(bash(FORGE))
    observation, reward, terminated, _, info = env.step("submit[]")
    assert (reward, terminated, info["success"]) == (0.0, True, False), observation
    assert [found["reward"] for found in env.rewards] == [1.0, 0.0]
    env.close()


@pytest.mark.parametrize("kind", OUTLIVE)
def test_what_outlives_its_command_reaches_neither_tests_nor_reward(kind, tmp_path):
    test = "sleep 1; [ -e /app/never ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    files = {"instruction.md": "Do it.\n", "tests/test.sh": test}
    env = make(write(tmp_path / "t", ENVIRONMENT, files))
    env.reset(seed=0)
    env.step(bash(f"cat > later <<'END'\n{LATER}\nEND"))
    env.step(bash(OUTLIVE[kind].format(". /app/later")))
    env.step(bash("rm -f alive"))
    observation, reward, _, _, info = env.step("submit[]")
    assert (reward, info["success"]) == (0.0, False), observation
    assert not env.sandbox.run("test -e /app/alive").ok
    env.close()


def test_what_is_let_live_reaches_no_reward_as_another_user(tmp_path):
    """With `background=True` processes outlive the agent's turn; one that is not root writes no reward and reads no test."""
    wait = "for i in $(seq 300); do [ -e /app/tried ] || sleep 0.1; done"
    test = f"touch /app/begun; {wait}; echo 0 > /logs/verifier/reward.txt; sleep 1\n"
    dockerfile = f"FROM {IMAGE}\nRUN mkdir /app && chmod 777 /app\n"
    toml = ENVIRONMENT.replace(f'docker_image = "{IMAGE}"\n', "") + '[agent]\nuser = "nobody"\n[verifier]\nuser = "daemon"\n'
    files = {"instruction.md": "Do it.\n", "tests/test.sh": test, "environment/Dockerfile": dockerfile}
    env = make(write(tmp_path / "t", toml, files), background=True, seconds=20)
    env.reset(seed=0)
    steal = "until [ -e begun ]; do sleep 0.1; done; cat /tests/test.sh > stolen 2> /dev/null; touch tried\n"
    env.step(bash(f"cat > later <<'END'\n{steal}{LATER}\nEND"))
    env.step(bash(OUTLIVE["a session of its own"].format(". /app/later")))
    observation, reward, _, _, info = env.step("submit[]")
    assert (reward, info["success"]) == (0.0, False), observation
    assert [found["reward"] for found in env.rewards] == [0.0]  # of the tests, not for want of a verdict
    assert env.sandbox.run("test -e /app/alive").ok and env.sandbox.read("/app/stolen") == b""
    env.close()


class Submits(ScriptedPolicy):
    def choose(self, env, info, rng):
        return "submit[]"


def test_a_verifier_whose_image_cannot_be_built_is_no_failure_of_the_agent(tmp_path):
    toml = f'{ENVIRONMENT}[verifier]\nenvironment_mode = "separate"\n[verifier.environment]\nmemory_mb = 256\n'
    files = {"instruction.md": "Do it.\n", "tests/test.sh": "true\n", "tests/Dockerfile": f"FROM {IMAGE}\nRUN exit 7\n"}
    folder = write(tmp_path / "t", toml, files)
    options = {"path": str(folder), "backend_options": {"daemon": URL}}
    (episode,) = collect(Submits(), "rlvr/Harbor-v0", tasks=1, env_options=options)
    assert (episode.success, episode.reason) == (None, "crash") and "could not be built" in (episode.error or "")


@pytest.mark.long
@pytest.mark.parametrize("place", ["separate", "second step"])
def test_a_verifier_that_hangs_is_an_infrastructure_error(place, tmp_path):
    hang = "sleep 60; echo 0 > /logs/verifier/reward.txt\n"
    if place == "separate":
        toml = f'{ENVIRONMENT}[verifier]\nenvironment_mode = "separate"\ntimeout_sec = 2\n'
        folder = write(tmp_path / "t", toml, {"instruction.md": "Do it.\n", "tests/test.sh": hang})
    else:
        folder = stepped(tmp_path / "t", "", otherwise=0.5)
        (folder / "steps/s2/tests/test.sh").write_text(hang)
        toml = (folder / "task.toml").read_text()
        (folder / "task.toml").write_text(toml.replace('name = "s2"\n', 'name = "s2"\nverifier = {timeout_sec = 2}\n'))
    env = make(folder)
    env.reset(seed=0)
    if place == "second step":
        env.step(bash("echo 1 > number"))
        assert "step 2 of 3" in env.step("submit[]")[0]
    *_, terminated, truncated, info = env.step("submit[]")
    assert (terminated, truncated, info["success"], info["reason"]) == (False, True, None, "crash")
    assert info["error"].startswith(RULED_OUT) and "took too long" in info["error"]
    env.close()


@pytest.mark.long
def test_an_agent_that_makes_a_separate_verifier_hang_has_failed(tmp_path):
    """What the agent hands in is a pipe that nobody writes to: it never arrives, so the tests end."""
    toml = f'artifacts = ["/app/answer.txt"]\n{ENVIRONMENT}[verifier]\nenvironment_mode = "separate"\ntimeout_sec = 5\n'
    files = {"instruction.md": "Do it.\n", "tests/test.sh": SEPARATE, "tests/answer.txt": "42\n"}
    env = make(write(tmp_path / "t", toml, files))
    env.reset(seed=0)
    env.step(bash("mkfifo answer.txt"))
    observation, reward, terminated, _, info = env.step("submit[]")
    assert (reward, terminated, info["success"]) == (0.0, True, False), observation
    env.close()


SERVE = """import http.server as h, sys
class Names(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write((sys.argv[1] + " as " + self.headers["Host"]).encode())
h.HTTPServer(("", 80), Names).serve_forever()"""
RAW = """
import os, socket, sys
from urllib.parse import urlsplit
proxy = urlsplit(os.environ["http_proxy"])
def asked(text, host=proxy.hostname, port=proxy.port):
    try:
        with socket.create_connection((host, port), 5) as s:
            s.sendall(text.encode().decode("unicode_escape").encode())
            s.shutdown(socket.SHUT_WR)
            found = b""
            while piece := s.recv(65536): found += piece
            return found.decode("latin-1")
    except OSError as error:
        return f"no: {error}"
for text in sys.argv[1:]: print(repr(asked(text)))
"""


@pytest.mark.skipif(KIND != "docker", reason="tried with Docker")
def test_no_way_leads_through_the_proxy_to_a_refused_host(tmp_path):
    import docker

    client = docker.DockerClient(base_url=URL)
    net = client.networks.create(f"attacked-{os.getpid()}")
    servers = []
    for name in ("good", "bad"):
        host = client.api.create_host_config(network_mode=net.name)
        made = client.api.create_container(IMAGE, ["python3", "-c", SERVE, name], host_config=host)
        client.api.start(made["Id"])
        servers.append(client.containers.get(made["Id"]))
    good, bad = (made.attrs["NetworkSettings"]["Networks"][net.name]["IPAddress"] for made in servers)
    toml = ENVIRONMENT + f'network_mode = "allowlist"\nallowed_hosts = ["{good}"]\n'
    files = {"instruction.md": "Do it.\n", "tests/test.sh": "echo 0 > /logs/verifier/reward.txt\n"}
    options = {"daemon": URL, "proxy_image": PYTHON["image"]}
    env = make(write(tmp_path / "t", toml, files), network=net.name, seconds=60, backend_options=options)
    try:
        env.reset(seed=0)
        env.step(bash(f"cat > raw.py <<'END'\n{RAW}\nEND"))

        def answers(*texts: str) -> list[str]:
            printed = env.step(bash(f"python3 raw.py {' '.join(json.dumps(text) for text in texts)}"))[0]
            return printed.splitlines()

        end = r"\r\n\r\n"
        (plain,) = answers(f"GET http://{good}/ HTTP/1.1{end}")
        assert f"good as {good}" in plain, plain
        ways = [
            f"GET http://{bad}/ HTTP/1.1{end}",
            f"CONNECT {bad}:80 HTTP/1.1{end}GET / HTTP/1.1{end}",
            rf"GET http://{good}@{bad}/ HTTP/1.1\r\nHost: {good}{end}",
            rf"GET http://{bad}/ HTTP/1.1\r\nHost: {good}{end}",
            f"CONNECT localhost:3128 HTTP/1.1{end}GET http://{bad}/ HTTP/1.1{end}",
            f"CONNECT 127.0.0.1:3128 HTTP/1.1{end}GET http://{bad}/ HTTP/1.1{end}",
            f"GET http://{int.from_bytes(bytes(map(int, bad.split('.'))))}/ HTTP/1.1{end}",
            f"GET http://[::ffff:{bad}]/ HTTP/1.1{end}",
        ]
        assert all("bad as" not in answer for answer in answers(*ways))
        named, again, half = answers(
            rf"GET http://{good}/ HTTP/1.1\r\nHost: refused.test{end}",
            f"GET http://{good}/ HTTP/1.1{end}GET http://{bad}/ HTTP/1.1{end}",
            rf"GET http://{good}/ HTTP/1.1\r\nA: b\nHost: refused.test{end}",
        )
        assert f"good as {good}" in named and "refused.test" not in named + half
        assert "bad as" not in again and again.count("good as") <= 1  # or the server that gets more than it reads resets it

        setup = "import os, socket, time; a = os.environ['http_proxy'].split('/')[2].split(':'); "
        flood = setup + "s = [socket.create_connection((a[0], int(a[1]))) for _ in range(200)]; time.sleep(2)"
        env.step(bash(f'python3 -c "{flood}"'))
        direct = f"import socket; print(socket.create_connection(('{bad}', 80), 3))"
        assert "Error" in env.step(bash(f'python3 -c "{direct}" 2>&1 | tail -1'))[0]
        assert "Error" in env.step(bash("python3 -c 'import socket; socket.socket(socket.AF_PACKET, 3)' 2>&1 | tail -1"))[0]
        assert f"good as {good}" in answers(f"GET http://{good}/ HTTP/1.1{end}")[0], "the proxy lives on"
        local = 'python3 -m http.server 8001 > /dev/null 2>&1 & sleep 2; python3 -c "import urllib.request as u; '
        assert env.step(bash(local + "print(u.urlopen('http://localhost:8001/', timeout=5).status)\""))[0] == "200"
    finally:
        env.close()
        for made in servers:
            made.remove(force=True)
        net.remove()
