"""Environments as MCP servers, under the official client: over stdio and over streamable HTTP."""

import asyncio
import json
import re
import subprocess
import sys

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from telling_env import Telling

import agentgym
from agentgym.env_server import Limits, Sessions
from agentgym.env_server.mcp_server import McpServer
from agentgym.envs.frozen_lake import FrozenLake
from agentgym.errors import BadConfig
from agentgym.registry import Maker

NAME = "a-name-that-nobody-guesses"


def oracle(id, seed, **options):
    """Return the first observation of a task, and the actions and observations of the oracle."""
    env = Maker(id, options)()
    first = env.reset(seed=seed)[0]
    actions = list(env.oracle())
    return env, first, actions, [env.step(action)[0] for action in actions]


async def played(target, env, actions, mode="auto"):
    """Play with the official client; return what is offered, and the result of every call."""
    async with Client(target, mode=mode) as client:
        tools = (await client.list_tools()).tools
        results = [await client.call_tool("reset", {})]
        for action in actions:
            if env.tools:
                call = json.loads(action) if action.startswith("{") else None
                name, _, body = action.partition("[")
                required = env.tools[name].required if call is None else []
                call = call or {"name": name, "arguments": {required[0]: body[:-1]} if required else {}}
                results.append(await client.call_tool(call["name"], call["arguments"]))
            else:
                results.append(await client.call_tool("act", {"action": action}))
        return tools, results


def texts(results):
    return [result.content[0].text for result in results]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_episode_over_stdio(tmp_path, mode):
    env, first, actions, seen = oracle("frozenlake", 5)
    out = tmp_path / "episodes.jsonl"
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "agentgym", "serve", "mcp", "frozenlake", "--seed", "5", "--out", str(out)],
        cwd=str(tmp_path),
    )
    tools, results = asyncio.run(played(stdio_client(command), env, actions, mode))
    assert [tool.name for tool in tools] == ["reset", "act"]
    assert texts(results)[:-1] == [first, *seen[:-1]]
    assert texts(results)[-1] == seen[-1] + "\n\nThe episode is over."
    assert all("reward" not in result.structured_content and not result.is_error for result in results)
    (row,) = map(json.loads, out.read_text().splitlines())
    assert (row["reward"], row["success"], row["reason"], row["turns"]) == (1.0, True, "success", len(actions))


@pytest.fixture
def http():
    """`agentgym serve mcp ... --http` as a process: a function from arguments to its address."""
    started = []

    def start(*arguments, environ=None):
        command = [sys.executable, "-m", "agentgym", "serve", "mcp", *arguments, "--http", "--port", "0"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ))
        return re.search(r"http://[^/]+/mcp", started[-1].stdout.readline())[0]

    yield start
    for process in started:
        process.terminate()
        assert process.wait(60) == 0


def test_an_episode_of_tools_over_http(http):
    env, first, actions, seen = oracle("search", 5)
    url = http("search", "--seed", "5", "--rewards", "--tries", "2")
    for mode in ("auto", "legacy"):
        tools, results = asyncio.run(played(f"{url}?session={NAME}-{mode}", env, actions, mode))
        assert {tool.name: tool.input_schema for tool in tools if tool.name != "reset"} == {
            name: tool.parameters for name, tool in env.tools.items()
        }
        assert texts(results)[:-1] == [first, *seen[:-1]] and texts(results)[-1].startswith(seen[-1])
        assert results[-1].structured_content == {"done": True, "reward": 1.0, "success": True, "reason": "success"}


def test_sessions_are_apart_and_have_names_that_cannot_be_guessed(http):
    url = http("frozenlake")

    async def main():
        one, two = f"{url}?session={NAME}-1", f"{url}?session={NAME}-2"
        async with Client(one) as first, Client(two) as second, Client(f"{url}?session=short") as third:
            a = (await first.call_tool("reset", {"seed": 1})).content[0].text
            assert (await second.call_tool("act", {"action": "left"})).is_error  # nothing was begun there
            b = (await second.call_tool("reset", {"seed": 2})).content[0].text
            assert a != b
            assert "16 random characters" in (await third.call_tool("reset", {})).content[0].text

    asyncio.run(main())


def test_an_episode_that_an_agent_gives_up_is_written(tmp_path):
    """A reset is no way out of a failure, and an episode that was never ended is seen to be missing."""
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Maker("frozenlake", {}), Limits()), "x", out=out)

    async def main():
        await server.call(NAME, "reset", {"seed": 4})
        await server.call(NAME, "act", {"action": "left"})
        await server.call(NAME, "reset", {"seed": 4})
        server.close()

    asyncio.run(main())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["turns"], row["success"], row["reason"]) for row in rows] == [(1, False, "reset"), (0, None, "unfinished")]
    assert rows[0]["task_id"] == rows[1]["task_id"] and rows[0]["task_id"].startswith("train/")


@pytest.mark.parametrize("wrong", [{"task": "no such task"}, {"seed": -1}, {"horizon": 3}])
def test_a_reset_that_is_refused_leaves_the_episode_to_be_written_once(tmp_path, wrong):
    out = tmp_path / "episodes.jsonl"
    actions = oracle("frozenlake", 4)[2]
    server = McpServer(Sessions(Maker("frozenlake", {}), Limits()), "x", out=out)

    async def main():
        await server.call(NAME, "reset", {"seed": 4})
        for action in actions:
            assert (await server.call(NAME, "reset", wrong))[2]
            assert not (await server.call(NAME, "act", {"action": action}))[2]
        await server.call(NAME, "reset", {"seed": 5})
        server.close()

    asyncio.run(main())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    ended = (len(actions), 1.0, True, "success")
    assert [(r["turns"], r["reward"], r["success"], r["reason"]) for r in rows] == [ended, (0, 0.0, None, "unfinished")]


def test_a_reset_in_which_the_environment_fails_gives_the_episode_up(tmp_path, monkeypatch):
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Maker("frozenlake", {}), Limits()), "x", out=out)

    async def main():
        await server.call(NAME, "reset", {"seed": 4})
        monkeypatch.setattr(FrozenLake, "begin", lambda self, task: 1 / 0)
        assert (await server.call(NAME, "reset", {"seed": 4}))[2]
        server.close()

    asyncio.run(main())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["turns"], row["success"], row["reason"]) for row in rows] == [(0, False, "reset")]


def test_tools_that_depend_on_the_task_are_offered():
    """Clients ask for the tools before they play."""
    server = McpServer(Sessions(Maker("desk", {"domains": "bank,library"}), Limits()), "x")
    kinds = {name: agentgym.make("desk", domains=name) for name in ("bank", "library")}

    def names(of=""):
        return {tool["name"] for tool in server.tools(of)} - {"reset"}

    async def main():
        assert names() == {*kinds["bank"].tools, *kinds["library"].tools} > {"set_limit", "renew_loan", "say"}
        text = (await server.call(NAME, "reset", {"seed": 4}))[0]
        assert names(NAME) == {*kinds["bank" if "Granite Bank" in text else "library"].tools} != names()
        assert not (await server.call(NAME, "find_customer", {"name": "Nobody"}))[1]["done"]
        server.close()

    asyncio.run(main())


def test_an_agent_that_stops_calling_has_failed(tmp_path):
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Maker("frozenlake", {}), Limits()), "x", out=out)

    async def main():
        await server.call(NAME, "reset", {"seed": 4})
        (session,) = server.sessions.open.values()
        server.sessions.end(session)  # as after so many idle seconds
        await server.call(f"{NAME}-2", "reset", {"seed": 4})
        server.close()

    asyncio.run(main())
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["success"], row["reason"]) for row in rows] == [(False, "idle"), (None, "unfinished")]


def test_what_calls_may_not_do():
    server = McpServer(Sessions(Maker("frozenlake", {}), Limits(sessions=1)), "x", fixed={"seed": 3}, tries=2)

    async def main():
        assert "call reset first" in (await server.call(NAME, "act", {"action": "left"}))[0]
        text, facts, failed = await server.call(NAME, "reset", {"seed": 4})
        assert failed and "takes no 'seed'" in text
        assert not (await server.call(NAME, "reset", {}))[2]
        for tool, arguments in (("act", {}), ("act", {"action": 3}), ("no", {}), ("act", {"action": "x" * 200_000})):
            text, facts, failed = await server.call(NAME, tool, arguments)
            assert failed and facts is None and len(text) < 300
        text, facts, failed = await server.call(NAME, "act", {"action": "fly"})
        assert failed and facts == {"done": False}  # an invalid action, which costs a turn
        text, facts, failed = await server.call("another-name-of-a-client", "reset", {})
        assert failed and "all 1 sessions are in use" in text
        server.sessions.close()

    asyncio.run(main())


def test_other_machines_need_a_token_and_web_pages_do_not_come_in(http):
    import os

    url = http("frozenlake", environ={**os.environ, "AGENTGYM_TOKEN": "right"})
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    assert httpx2.post(url, json=call, headers=accept).status_code == 401
    assert httpx2.post(url, json=call, headers={**accept, "Authorization": "Bearer right"}).status_code != 401
    open_url = http("frozenlake")
    assert httpx2.post(open_url, json=call, headers={**accept, "Origin": "http://evil.example"}).status_code == 403
    assert httpx2.post(open_url, json=call, headers={**accept, "Host": "evil.example"}).status_code == 403
    huge = httpx2.post(open_url, content=b"x" * 10_000_000, headers={**accept, "Content-Type": "application/json"})
    assert huge.status_code == 413


NAMES = [f"{NAME}-{number}" for number in range(4)]


async def reset(server, name=NAME):
    return await server.call(name, "reset", {})


def rows_of(out):
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("fixed", [{"task": "test/0/3"}, {"seed": 3}])
@pytest.mark.parametrize("name", [NAME, "another-name-of-a-client"])
def test_an_agent_that_was_told_the_answer_does_not_play_again(tmp_path, fixed, name):
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Telling, Limits()), "x", fixed=fixed, out=out)

    async def main():
        await reset(server)
        assert "it was right" in (await server.call(NAME, "act", {"action": "left"}))[0]
        text, facts, failed = await reset(server, name)
        assert (failed, facts) == (True, None) and text == (
            "this server plays one episode of its task, which was started already: there is no other try"
        )
        assert (await server.call(name, "act", {"action": "right"}))[2]
        server.close()

    asyncio.run(main())
    (row,) = rows_of(out)
    assert (row["success"], row["reason"], row["try"]) == (False, "failure", 1)


def test_a_reset_in_the_middle_of_the_one_episode_leaves_it_as_it_is(tmp_path):
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Maker("frozenlake", {}), Limits()), "x", fixed={"seed": 4}, out=out)

    async def main():
        await reset(server)
        for action in oracle("frozenlake", 4)[2]:
            assert (await reset(server))[2]
            assert not (await server.call(NAME, "act", {"action": action}))[2]
        server.close()

    asyncio.run(main())
    assert [(row["success"], row["try"]) for row in rows_of(out)] == [(True, 1)]


def test_resets_of_many_sessions_at_once_get_as_many_tries_as_there_are(tmp_path):
    async def main():
        answers = await asyncio.gather(*(reset(server, name) for name in NAMES))
        assert [failed for _, _, failed in answers] == [False, False, True, True]
        for name in NAMES[:2]:
            await server.call(name, "act", {"action": "left"})
        assert "2 episodes, which were all started already" in (await reset(server))[0]
        server.close()

    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Telling, Limits()), "x", fixed={"task": "test/0/3"}, out=out, tries=2)
    asyncio.run(main())
    assert sorted((row["try"], row["success"]) for row in rows_of(out)) == [(1, False), (2, False)]


@pytest.mark.parametrize("when", ["reset", "act"])
def test_an_infrastructure_error_takes_no_try(tmp_path, when):
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Telling, Limits()), "x", fixed={"task": "test/0/3"}, out=out)

    async def main():
        Telling.fails = when == "reset"
        try:
            assert (await reset(server))[2] is Telling.fails
            Telling.fails = True
            await server.call(NAME, "act", {"action": "right"})
        finally:
            Telling.fails = False
        assert not (await reset(server))[2]
        await server.call(NAME, "act", {"action": "right"})
        assert (await reset(server))[2]
        server.close()

    asyncio.run(main())
    ends = [(row["try"], row["success"], row["reason"]) for row in rows_of(out)]
    assert ends == [*([(1, None, "crash")] if when == "act" else []), (1, True, "success")]


def test_tries_at_a_task_that_the_client_chose_are_numbered(tmp_path):
    out = tmp_path / "episodes.jsonl"
    server = McpServer(Sessions(Telling, Limits()), "x", out=out)

    async def main():
        for name, task in ((NAMES[0], "test/0/1"), (NAMES[1], "test/0/1"), (NAMES[0], "test/0/2"), (NAMES[0], "test/0/1")):
            await server.call(name, "reset", {"task": task})
            await server.call(name, "act", {"action": "left"})
        server.close()

    asyncio.run(main())
    assert [(row["task_id"], row["try"]) for row in rows_of(out)] == [
        ("test/0/1", 1), ("test/0/1", 2), ("test/0/2", 1), ("test/0/1", 3)
    ]  # fmt: skip


def test_tries_are_those_of_a_fixed_task():
    for fixed, tries in (({}, 2), ({"seed": 1}, 0)):
        with pytest.raises(BadConfig, match="--tries is"):
            McpServer(Sessions(Telling, Limits()), "x", fixed=fixed, tries=tries)
