"""Side services of Harbor's tasks in real containers: reached by name, judged through artifacts, gone with the episode."""

import socket
from pathlib import Path

import pytest
from test_harbor import bash, make
from test_harbor_servers import SERVER, called
from test_harbor_steps import ENVIRONMENT, write

COMPOSE = """
services:
  main:
    volumes: ["shared:/shared:ro"]
  web:
    build: ./web
    environment: {ANSWER: "${ANSWER}"}
    volumes: ["shared:/shared"]
    healthcheck:
      test: ["CMD", "python3", "-c", "import socket; socket.create_connection(('localhost', 8000))"]
      interval: 0.3s
    networks: {default: {aliases: [www]}, inner: }
  vault:
    image: agentgym-test/python
    command: sleep 300
    networks: [inner]
    depends_on: {web: {condition: service_healthy}}
volumes: {shared: }
networks: {inner: }
"""
GET = "exec 3<>/dev/tcp/{}/8000; printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
WEB = """
import os, pathlib
from http.server import BaseHTTPRequestHandler, HTTPServer
pathlib.Path("/shared/from_web").write_text("shared")
class Web(BaseHTTPRequestHandler):
    def do_GET(self):
        pathlib.Path("/seen").write_text("1")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["ANSWER"].encode())
HTTPServer(("0.0.0.0", 8000), Web).serve_forever()
"""
SIDE = """artifacts = [{source = "/late", service = "web"}]
[verifier]
environment_mode = "separate"
[[verifier.collect]]
command = "cp /seen /late"
service = "web"
"""


def folder(path: Path, compose: str = COMPOSE, head: str = SIDE, web: str = WEB, more: str = "") -> Path:
    environment = f'{ENVIRONMENT}{more}[environment.env]\nANSWER = "forty-two"\n'
    return write(
        path,
        f"{head}{environment}" if not head.strip().startswith("[") else head + environment,
        {
            "environment/docker-compose.yaml": compose,
            "environment/web/Dockerfile": 'FROM agentgym-test/python\nCOPY web.py /\nCMD ["python3", "/web.py"]\n',
            "environment/web/web.py": web,
            "instruction.md": "Ask the service `web`.\n",
            "tests/test.sh": "cp /late /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
            "solution/solve.sh": f"{GET.format('web')}\n",
        },
    )


def ours(api) -> set[str]:
    return {network["Name"] for network in api.networks() if network["Name"].startswith("agentgym-")}


def test_a_task_with_services(api, tmp_path):
    before = ours(api), {volume["Name"] for volume in api.volumes()["Volumes"] or []}
    env = make(folder(tmp_path / "t"))
    env.reset(seed=0)
    assert "forty-two" in env.step(bash(GET.format("www")))[0]
    assert env.step(bash("cat /shared/from_web; touch /shared/x 2>&1"))[0].startswith("shared")
    assert env.step(bash("ls /shared"))[0].strip() == "from_web"  # read-only for the agent
    name = "python3 -c 'import socket; print(socket.gethostbyname(\"{}\"))' 2>&1"
    assert "gaierror" in env.step(bash(name.format("vault")))[0]  # on another network
    assert "gaierror" not in env.step(bash(name.format("web")))[0]
    attached = [c for c in api.containers() if any(n in ours(api) for n in c["NetworkSettings"]["Networks"])]
    for facts in map(api.inspect_container, (c["Id"] for c in attached)):
        host = facts["HostConfig"]
        assert not host["Privileged"] and not host["PortBindings"] and host["CapDrop"] == ["ALL"]
        assert host["PidsLimit"] > 0 and host["Memory"] > 0 and "no-new-privileges" in host["SecurityOpt"]
    assert len(attached) == 3
    assert env.step("submit[]")[4]["success"] is True
    env.close()
    assert (ours(api), {volume["Name"] for volume in api.volumes()["Volumes"] or []}) == before


def test_the_oracle_wins_and_doing_nothing_loses(api, tmp_path):
    env = make(folder(tmp_path / "t"))
    env.reset(seed=0)
    assert env.step("submit[]")[4]["success"] is False
    env.reset(seed=0)
    for action in env.oracle():
        info = env.step(action)[4]
    assert info["success"] is True
    assert "There is no network." in env.reset(seed=0)[0]
    with socket.create_server(("0.0.0.0", 0)) as here:  # every address of this machine: none is in reach
        gateways = [api.inspect_network(name)["IPAM"]["Config"][0]["Gateway"] for name in ours(api)]
        port = here.getsockname()[1]
        tries = "; ".join(f"timeout 3 bash -c 'exec 3<>/dev/tcp/{gateway}/{port} && echo reached'" for gateway in gateways)
        observation = env.step(bash(f"({tries}) 2>&1"))[0]
    assert "reached" not in observation
    env.close()


SHARED = """
services:
  web: {build: ./web, network_mode: "service:main", environment: {ANSWER: "1"}, healthcheck: {test: "true", interval: 0.3s}}
  ears:
    image: agentgym-test/python
    command: >-
      python3 -c "import http.server as h; h.HTTPServer(('127.0.0.1', 9000), h.SimpleHTTPRequestHandler).serve_forever()"
    network_mode: "service:web"
    depends_on: {web: {condition: service_healthy}}
  deaf: {image: agentgym-test/python, command: "sleep 300", network_mode: none}
"""


def test_services_that_share_the_network_of_the_agent(tmp_path):
    web = WEB.replace('pathlib.Path("/shared/from_web").write_text("shared")', "")
    env = make(folder(tmp_path / "t", SHARED, web=web))
    env.reset(seed=0)
    for _ in range(50):  # a service without a check may take its time
        heard, other = (env.step(bash(GET.format("127.0.0.1").replace("8000", port)))[0] for port in ("8000", "9000"))
        if heard.endswith("\n1") and " 200 " in other:
            break
    assert heard.endswith("\n1") and " 200 " in other
    services = env.sandbox.services
    space = ["readlink", "/proc/self/ns/net"]
    main, web, ears, deaf = (services.run(name, space, "", 20).stdout for name in ("main", "web", "ears", "deaf"))
    assert main == web == ears != deaf
    endless = services.run("deaf", ["yes"], "", 2)
    assert endless.exit_code == 137 and len(endless.stdout) == 1 << 20
    env.close()


def test_a_service_that_ends_is_a_fault(tmp_path):
    env = make(folder(tmp_path / "t", web="raise SystemExit(3)\n"))
    with pytest.raises(Exception, match="service 'web' of the task ended with 3"):
        env.reset(seed=0)
    env.close()


def test_an_mcp_server_beside_the_agent(tmp_path):
    compose = """
services:
  tools:
    build: ./tools
    command: python3 /server.py http 9000
    healthcheck:
      test: ["CMD", "python3", "-c", "import socket; socket.create_connection(('localhost', 9000))"]
      interval: 0.3s
"""
    pytest.importorskip("mcp")
    url = '[[environment.mcp_servers]]\nname = "tools"\ntransport = "streamable-http"\nurl = "http://tools:9000/mcp"\n'
    task = folder(tmp_path / "t", compose, head="", more=url)
    write(
        task,
        (task / "task.toml").read_text(),
        {
            "environment/tools/Dockerfile": "FROM agentgym-test/python\nCOPY server.py /\nCOPY secret /srv/\n",
            "environment/tools/secret": "7",
            "environment/tools/server.py": SERVER,
        },
    )
    env = make(task)
    env.reset(seed=0)
    assert called(env, "secret") == ("secret 0 7", True)
    assert "No such file" in env.step(bash("cat /srv/secret 2>&1"))[0]
    env.close()
