"""MCP servers in the container of a task, as tools of the policy: over stdio and HTTP, by the genuine client of mcp 2."""

import json
from pathlib import Path

import pytest
from test_harbor import bash, make
from test_harbor_steps import ENVIRONMENT, write

pytest.importorskip("mcp")
SERVER = Path(__file__).with_name("mcp_server.py").read_text()
STDIO = (
    '[[environment.mcp_servers]]\nname = "{}"\ntransport = "stdio"\n'
    'command = "python3"\nargs = ["/srv/server.py", "stdio"]\n'
)
SSE = '[[environment.mcp_servers]]\nname = "web"\ntransport = "sse"\nurl = "http://localhost:8123/sse"\n'
HTTP = '[[environment.mcp_servers]]\nname = "web"\ntransport = "streamable-http"\nurl = "http://localhost:8123/mcp"\n'
RUN = '[environment.healthcheck]\ncommand = "true > /dev/tcp/localhost/8123"\nstart_period_sec = 30\nretries = 9\n'
TEST = "grep -qx 42 /app/out && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n"


def folder(path: Path, servers: str, *, http: str = "", more: str = "") -> Path:
    dockerfile = "FROM agentgym-test/python\nCOPY server.py secret /srv/\nRUN mkdir /app\nWORKDIR /app\n"
    if http:
        dockerfile += 'ENTRYPOINT ["/bin/sh", "-c", "python3 /srv/server.py KIND 8123 & exec \\"$@\\"", "sh"]\n'.replace(
            "KIND", http
        )
    environment = ENVIRONMENT.split("\n", 2)[0] + f"\nmemory_mb = 256\n{servers}{RUN if http else ''}{more}"
    return write(
        path,
        environment,
        {
            "environment/Dockerfile": dockerfile,
            "environment/server.py": SERVER,
            "environment/secret": "42",
            "instruction.md": "Write the secret.\n",
            "tests/test.sh": TEST,
            "solution/solve.sh": "cat /srv/secret > /app/out; echo >> /app/out\n",
        },
    )


def called(env, name: str, **arguments: object) -> tuple[str, bool]:
    observation, _, _, _, info = env.step(json.dumps({"name": name, "arguments": arguments}))
    return observation, info["valid"]


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
def test_tools_of_a_server_are_the_policys(transport, tmp_path):
    servers = {"stdio": STDIO.format("my.srv"), "http": HTTP, "sse": SSE}[transport]
    env = make(folder(tmp_path / "t", servers, http="" if transport == "stdio" else transport))
    assert set(env.tools) == {"bash", "submit"}
    env.reset(seed=0)
    prefix = "my_srv" if transport == "stdio" else "web"
    assert set(env.tools) == {"bash", "submit", "add", "secret", "slow", "fail", "die", f"{prefix}_bash"}
    assert called(env, "add", a=40, b=2) == ("42", True)
    assert called(env, "secret") == ("secret 0 42", True)
    assert called(env, f"{prefix}_bash") == ("bash 0 42", True)
    assert called(env, "fail") == ("fail 0 42", False)
    assert called(env, "add", a="x")[1] is False
    assert env.step(bash("echo 42 > out; pwd"))[0] == "/app"  # commands and calls do not end one another
    assert called(env, "add", a=1, b=2) == ("3", True)
    assert env.step("submit[]")[4]["success"] is True
    env.close()


def test_a_server_that_the_agent_ends_is_its_own_loss(tmp_path):
    env = make(folder(tmp_path / "t", STDIO.format("s")), seconds=15)
    env.reset(seed=0)
    assert "failed" in called(env, "die")[0]
    assert called(env, "add", a=1, b=2) == ("3", True)  # connected again
    assert "took longer than 15 seconds" in called(env, "slow")[0]
    env.step(bash("rm /srv/server.py; kill -9 $(pgrep -f server.py)"))
    assert called(env, "add", a=1, b=2)[1] is False
    _, reward, terminated, _, info = env.step("submit[]")
    assert (reward, terminated, info["success"]) == (0.0, True, False)
    env.close()


def test_a_restored_snapshot_has_the_same_tools(tmp_path):
    env = make(folder(tmp_path / "t", STDIO.format("s")))
    env.reset(seed=0)
    called(env, "add", a=1, b=2)
    state = env.snapshot()
    other = make(tmp_path / "t")
    other.restore(state)
    assert set(other.tools) == set(env.tools) and called(other, "add", a=2, b=2) == ("4", True)
    env.close()
    other.close()


def test_the_servers_user_is_the_agents(tmp_path):
    env = make(folder(tmp_path / "t", STDIO.format("s"), more='[agent]\nuser = "nobody"\n'))
    env.reset(seed=0)
    assert called(env, "secret") == ("secret 65534 42", True)
    env.close()
