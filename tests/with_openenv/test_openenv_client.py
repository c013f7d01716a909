"""OpenEnv's own clients play our environments: the same episodes as in this process."""

import json
import subprocess
from pathlib import Path

import httpx2
import pytest
from conftest import PYTHON
from served_envs import running

from agentgym.env_server import Limits
from agentgym.registry import Maker

CLIENT = Path(__file__).with_name("client.py")


def played(url, kind, seed, *actions):
    command = [PYTHON, str(CLIENT), url, kind, str(seed), *actions]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(("id", "kind"), [("frozenlake", "typed"), ("household", "generic"), ("search", "generic")])
def test_an_episode_of_the_oracle(id, kind):  # a client takes seconds to import what it imports
    env = Maker(id, {})()
    env.reset(seed=5)
    actions = list(env.oracle())
    expected = [[env.reset(seed=5)[0], None, False]]
    for action in actions:
        text, reward, terminated, truncated, _ = env.step(action)
        expected.append([text, reward, terminated or truncated])
    assert expected[-1][1] == 1.0 and expected[-1][2]
    with running(Maker(id, {})) as (url, _):
        done = played(url, kind, 5, *actions)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [*expected, ["one", len(actions)]]


def test_the_client_gets_a_token_through_and_a_reason_where_it_has_none():
    with running(Maker("frozenlake", {}), token="right") as (url, _):
        refused = played(url, "generic", 0)
        assert refused.returncode != 0 and "403" in refused.stderr
        let_in = played(url.replace("http://", "http://agentgym:right@"), "generic", 0)
        assert let_in.returncode == 0, let_in.stderr[-2000:]


def test_the_client_is_told_that_the_server_is_full():
    with running(Maker("frozenlake", {}), limits=Limits(sessions=1)) as (url, _):
        assert httpx2.post(f"{url}/reset", json={}, timeout=60).status_code == 200
        refused = played(url, "generic", 0)
    assert refused.returncode != 0 and "CAPACITY_REACHED" in refused.stderr and "all 1 sessions" in refused.stderr
