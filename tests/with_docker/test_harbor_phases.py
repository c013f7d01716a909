"""Networks of Harbor's tasks: what a task states, what the caller lets it have, and hosts that a proxy lets through."""

import os
from pathlib import Path

import pytest
from test_harbor import bash, make, write

try:
    from conftest import KIND, PYTHON, URL
except ImportError:
    pytest.skip("the tests' own daemon is not there: run ./dev test-docker", allow_module_level=True)
if KIND != "docker":
    pytest.skip("tried with Docker", allow_module_level=True)

SERVE = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=80)"
GET = """python3 -c "import urllib.request as u; print(u.urlopen('http://{}/', timeout=15).status)" 2>&1 | tail -1"""


@pytest.fixture(scope="module")
def outside():
    """A network of the tests and the addresses of two servers on it: Docker's names need a firewall that CI lacks."""
    import docker

    client = docker.DockerClient(base_url=URL)
    net = client.networks.create(f"outside-{os.getpid()}")
    servers = []
    for _ in range(2):
        host = client.api.create_host_config(network_mode=net.name)
        made = client.api.create_container(PYTHON["image"], ["python3", "-c", SERVE], host_config=host)
        client.api.start(made["Id"])
        servers.append(client.containers.get(made["Id"]))
        answers = f"until {GET.format('127.0.0.1')} | grep 200; do sleep 0.1; done"
        assert servers[-1].exec_run(["sh", "-c", answers]).exit_code == 0
    yield net.name, *(made.attrs["NetworkSettings"]["Networks"][net.name]["IPAddress"] for made in servers)
    for made in servers:
        made.remove(force=True)
    net.remove()


def play(folder: Path, network: str, servers, environment: str = "", agent: str = "", verifier: str = ""):
    """Return whether two servers, and the first without a proxy, are reached: in the agent's phase, then in the tests'."""
    checks = [
        *(GET.format(server) for server in servers),
        f"env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY {GET.format(servers[0])}",
    ]
    looks = "\n".join(f"{check} >> /app/seen" for check in checks)
    write(folder, test=f"#!/bin/bash\n{looks}\necho 1 > /logs/verifier/reward.txt\n")
    (folder / "task.toml").write_text(
        f'[environment]\ndocker_image = "{PYTHON["image"]}"\nmemory_mb = 256\nworkdir = "/app"\n{environment}\n'
        f"[agent]\n{agent}\n[verifier]\ntimeout_sec = 60\n{verifier}\n"
    )
    made = make(folder, network=network, seconds=60, backend_options={"daemon": URL, "proxy_image": PYTHON["image"]})
    opening, _ = made.reset(seed=0)
    seen = [made.step(bash(check))[0] == "200" for check in checks]
    assert ("There is no network." in opening) == (seen == [False] * 3)
    made.step("submit[]")
    tests = [line == "200" for line in made.sandbox.read("/app/seen").decode().splitlines()]
    made.close()
    return seen, tests


NOTHING, GOOD, ALL = [False] * 3, [True, False, False], [True] * 3


@pytest.mark.parametrize(
    ("stated", "network", "agent", "tests"),
    [
        ({}, "stated", NOTHING, NOTHING),
        ({"environment": 'network_mode = "no-network"'}, "outside", NOTHING, NOTHING),
        ({"environment": 'network_mode = "public"'}, "none", NOTHING, NOTHING),
        ({}, "outside", ALL, ALL),
        ({"environment": 'network_mode = "allowlist"\nallowed_hosts = ["GOOD/32"]'}, "outside", GOOD, GOOD),
        ({"agent": 'network_mode = "no-network"'}, "outside", NOTHING, ALL),
        (
            {"environment": 'network_mode = "public"', "agent": 'network_mode = "allowlist"\nallowed_hosts = ["GOOD/32"]'},
            "outside",
            GOOD,
            [True, True, False],
        ),
    ],
)
@pytest.mark.long
def test_phases_reach_what_they_may(stated, network, agent, tests, outside, tmp_path):
    net, good, bad = outside
    stated = {phase: text.replace("GOOD", good) for phase, text in stated.items()}
    assert play(tmp_path / "t", net if network == "outside" else network, (good, bad), **stated) == (agent, tests)


def test_nothing_is_left_of_a_proxy(outside, tmp_path, api):
    before = {net["Name"] for net in api.networks()}
    folder = write(tmp_path / "t")
    toml = f'[environment]\ndocker_image = "{PYTHON["image"]}"\nnetwork_mode = "allowlist"\nallowed_hosts = ["192.0.2.7"]\n'
    (folder / "task.toml").write_text(toml)
    made = make(folder, network=outside[0], backend_options={"daemon": URL, "proxy_image": PYTHON["image"]})
    made.reset(seed=0)
    assert len({net["Name"] for net in api.networks()} - before) == 1
    made.close()
    assert {net["Name"] for net in api.networks()} == before
