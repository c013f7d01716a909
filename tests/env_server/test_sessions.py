"""Served environments, over real HTTP and WebSocket: they play as in this process, and say nothing that is hidden."""

import asyncio
import json
import time

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve-env` is not installed")
pytest.importorskip("websockets", reason="the extra `serve-env` is not installed")
import httpx2
from served_envs import SECRET, Blocking, Counter, running
from websockets.sync.client import connect

from agentgym.env_server import Limits, Sessions, sessions
from agentgym.registry import Maker
from agentgym.serving.asgi import Refusal


@pytest.fixture(scope="module", params=[Counter, Blocking])
def client(request):
    with running(request.param) as (url, sessions), httpx2.Client(base_url=url, timeout=120) as made:
        made.sessions = sessions
        yield made


def test_an_episode_is_what_it_is_in_this_process(client):
    env = Counter()
    text, info = env.reset(seed=7)
    began = client.post("/reset", json={"seed": 7, "episode_id": "e"}).json()
    session = {"session": began.pop("session")}
    assert began["observation"]["text"] == text and began["observation"]["info"]["task_id"] == info["task_id"]
    assert (began["reward"], began["done"], began["observation"]["tools"]) == (None, False, [])
    for action in ("no", "go", "go", "go"):
        text, reward, terminated, truncated, info = env.step(action)
        answer = client.post("/step", json={**session, "action": {"text": action}}).json()
        assert (answer["observation"]["text"], answer["reward"], answer["done"]) == (text, reward, terminated or truncated)
        public = answer["observation"]["info"]
        assert {name: public[name] for name in ("valid", "error", "success", "reason", "rewards")} == {
            name: info[name] for name in ("valid", "error", "success", "reason", "rewards")
        }
    assert public["metrics"] == info["metrics"] == {"progress": 1.0}
    state = client.get("/state", headers={"X-Session-Id": session["session"]}).json()
    assert state == {"episode_id": "e", "step_count": 4, "horizon": 20, "running": False}
    over = client.post("/step", json={**session, "action": "go"})
    assert (over.status_code, over.json()["code"]) == (409, "EPISODE_OVER")
    assert client.post("/close", json=session).json() == {"closed": True}
    assert client.post("/step", json={**session, "action": "go"}).status_code == 404


def test_a_snapshot_is_a_handle_that_any_session_goes_on_from(client):
    one = client.post("/reset", json={"seed": 1}).json()["session"]
    client.post("/step", json={"session": one, "action": "go"})
    handle = client.post("/snapshot", json={"session": one}).json()["snapshot"]
    ends = []
    for session in (one, client.post("/reset", json={"seed": 2}).json()["session"]):
        there = client.post("/restore", json={"session": session, "snapshot": handle}).json()
        assert there["observation"]["text"] == "1 of 3"
        ends.append([client.post("/step", json={"session": session, "action": "go"}).json() for _ in range(2)])
    assert ends[0] == ends[1] and ends[0][-1]["reward"] == 1.0
    client.post("/close", json={"session": session})
    assert client.post("/restore", json={"session": one, "snapshot": handle}).status_code == 200
    client.post("/close", json={"session": one})
    third = client.post("/reset", json={}).json()["session"]
    gone = client.post("/restore", json={"session": third, "snapshot": handle})
    assert gone.status_code == 404 and "snapshot" in gone.json()["detail"]
    client.post("/close", json={"session": third})


@pytest.mark.parametrize(("path", "more"), [("/reset", {"seed": 2}), ("/restore", {})])
def test_a_request_that_is_refused_for_another_one_changes_nothing(client, path, more):
    """Of two requests at once the second is refused, and the episode goes on."""
    session = {"session": client.post("/reset", json={"seed": 1}).json()["session"]}
    handle = client.post("/snapshot", json=session).json()
    [open_session] = [open_session for id, open_session in client.sessions.open.items() if id == session["session"]]
    open_session.busy = True  # as while a snapshot is taken
    refused = client.post(path, json={**session, **handle, **more, "info": False})
    open_session.busy = False
    assert (refused.status_code, refused.json()["code"]) == (409, "SESSION_BUSY")
    response = client.post("/step", json={**session, "action": "go"})
    assert response.status_code == 200 and "info" in response.json()["observation"]
    client.post("/close", json=session)


def test_many_sessions_step_in_one_request(client):
    ids = [client.post("/reset", json={"seed": n}).json()["session"] for n in range(5)]
    steps = [{"session": id, "action": "go" if n else "no"} for n, id in enumerate(ids)]
    results = client.post("/steps", json={"steps": [*steps, {"session": "nobody", "action": "go"}]}).json()["results"]
    assert [r["observation"]["text"] for r in results[1:5]] == ["1 of 3"] * 4
    assert results[0]["observation"]["info"]["valid"] is False and results[5]["status"] == 404
    for _ in range(2):
        brief = client.post("/steps", json={"steps": steps, "info": False}).json()["results"]
    assert brief[0] == {"observation": {"text": results[0]["observation"]["text"]}, "reward": 0.0, "done": False}
    assert brief[1]["done"] and brief[1]["observation"]["info"]["success"] is True  # an end says how it ended
    for id in ids:
        client.post("/close", json={"session": id})


def test_an_action_that_breaks_the_environment_is_a_failure_and_nobody_is_told_why(client):
    session, other = (client.post("/reset", json={"seed": n}).json()["session"] for n in range(2))
    response = client.post("/step", json={"session": session, "action": "raise"})
    assert SECRET not in response.text and "Traceback" not in response.text
    seen = response.json()["observation"]
    assert seen["terminated"] and seen["info"]["reason"] == "failure" and seen["info"]["success"] is False
    assert seen["info"]["error"] == "the agent's actions caused a crash twice, and others cause none"
    assert client.post("/step", json={"session": other, "action": "go"}).json()["observation"]["text"] == "1 of 3"
    assert client.post("/reset", json={"session": session}).status_code == 200  # with another environment
    assert client.post("/step", json={"session": session, "action": "go"}).json()["observation"]["text"] == "1 of 3"
    for id in (session, other):
        client.post("/close", json={"session": id})


def test_what_is_hidden_stays_hidden(client):
    """The answer is in the task and in the state; nothing that any route says holds it, nor the hash of a state."""
    pages = [client.get(path).text for path in ("/schema", "/metadata", "/health")]
    began = client.post("/reset", json={"seed": 3})
    session = {"session": began.json()["session"]}
    step = client.post("/step", json={**session, "action": "go"})
    pages += [began.text, step.text, client.post("/snapshot", json=session).text]
    pages += [client.get("/state", headers={"X-Session-Id": session["session"]}).text]
    assert not any(SECRET in text for text in pages)
    env = Counter()
    env.reset(seed=3)
    assert step.json()["observation"]["info"]["state_key"] not in (None, env.step("go")[4]["state_key"])
    assert set(step.json()["observation"]["info"]) == {
        "task_id", "valid", "error", "admissible", "rewards", "success", "reason", "state_key",
    }  # fmt: skip
    client.post("/close", json=session)


def test_a_connection_is_a_session(client):
    with connect(str(client.base_url).replace("http", "ws").rstrip("/") + "/ws") as ws:

        def ask(kind, data=None):
            ws.send(json.dumps({"type": kind, "data": data} if data is not None else {"type": kind}))
            return json.loads(ws.recv(60))

        assert ask("step", {"text": "go"})["data"]["code"] == "EPISODE_OVER"
        began = ask("reset", {"seed": 4, "episode_id": "mine"})
        assert began["type"] == "observation" and set(began["data"]) == {"observation", "reward", "done"}
        assert ask("step", {"message": "go"})["data"]["observation"]["text"] == "1 of 3"
        assert ask("state") == {
            "type": "state",
            "data": {"episode_id": "mine", "step_count": 1, "horizon": 20, "running": True},
        }
        handle = ask("snapshot")["data"]["snapshot"]
        ask("step", {"text": "go"})
        assert ask("restore", {"snapshot": handle})["data"]["observation"]["text"] == "1 of 3"
        assert ask("nonsense")["data"]["code"] == "UNKNOWN_TYPE"
        ws.send("{")
        assert json.loads(ws.recv(60))["data"]["code"] == "INVALID_JSON"
        ws.send(json.dumps({"type": "close"}))
        with pytest.raises(Exception, match="1000"):
            ws.recv(60)
    assert not client.sessions.open


@pytest.mark.parametrize(
    "body",
    [{"seed": -1}, {"seed": "x"}, {"seed": True}, {"seed": 2**70}, {"task": "no/such"}, {"task": []}, {"horizon": 0}],
)
def test_a_reset_that_means_nothing_is_a_422_and_leaves_no_session(client, body):
    before = set(client.sessions.open)
    answer = client.post("/reset", json=body)
    assert answer.status_code == 422 and answer.json()["detail"]
    assert set(client.sessions.open) == before


def test_calls_of_tools_in_three_forms():
    with running(Maker("search", {})) as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        began = client.post("/reset", json={"seed": 0}).json()
        tools = {tool["function"]["name"]: tool["function"] for tool in began["observation"]["tools"]}
        name, (field,) = next(
            (n, t["parameters"]["required"]) for n, t in tools.items() if len(t["parameters"]["required"]) == 1
        )
        arguments = {field: "a"}
        forms = [
            f"{name}[a]",
            {"name": name, "arguments": arguments},
            {"type": "call_tool", "tool_name": name, "arguments": arguments, "metadata": {}},
        ]
        texts = []
        for form in forms:
            session = client.post("/reset", json={"seed": 0}).json()["session"]
            observation = client.post("/step", json={"session": session, "action": form}).json()["observation"]
            assert observation["info"]["valid"]
            texts.append(observation["text"])
        assert len(set(texts)) == 1


def test_a_step_that_hangs_ends_its_own_episode_alone():
    with (
        running(Blocking, limits=Limits(step_seconds=2, workers=1)) as (url, _),
        httpx2.Client(base_url=url, timeout=120) as c,
    ):
        one, two = (c.post("/reset", json={"seed": n}).json()["session"] for n in range(2))
        seen = c.post("/step", json={"session": one, "action": "hang"}).json()["observation"]["info"]
        assert (seen["reason"], seen["success"]) == ("failure", False) and "caused a timeout" in seen["error"]
        assert c.post("/step", json={"session": two, "action": "go"}).json()["observation"]["text"] == "1 of 3"
        assert c.post("/reset", json={"session": one, "seed": 1}).status_code == 200


def test_an_environment_that_fails_whatever_is_done_is_an_infrastructure_error(monkeypatch):
    with running() as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        session = client.post("/reset", json={"seed": 1}).json()["session"]
        client.post("/step", json={"session": session, "action": "go"})
        monkeypatch.setattr(Counter, "broken", True)
        response = client.post("/step", json={"session": session, "action": "go"})
        seen = response.json()["observation"]
        assert (seen["info"]["reason"], seen["info"]["success"], seen["truncated"]) == ("crash", None, True)
        assert SECRET not in response.text
        monkeypatch.setattr(Counter, "broken", False)
        assert client.post("/reset", json={"session": session, "seed": 1}).status_code == 200


def test_the_actions_of_an_episode_that_are_held_are_bounded(monkeypatch):
    monkeypatch.setattr(sessions, "_ACTIONS", 1000)
    with running() as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        session = {"session": client.post("/reset", json={"seed": 1}).json()["session"]}
        assert client.post("/step", json={**session, "action": "x" * 900}).status_code == 200
        assert client.post("/step", json={**session, "action": "x" * 900}).status_code == 413
        client.post("/reset", json={**session, "seed": 1})
        assert client.post("/step", json={**session, "action": "x" * 900}).status_code == 200


def test_info_can_be_left_out_until_the_episode_is_over(client):
    with connect(f"{str(client.base_url).replace('http', 'ws').rstrip('/')}/ws") as ws:

        def ask(kind, **data):
            ws.send(json.dumps({"type": kind, "data": data}))
            return json.loads(ws.recv(60))["data"]

        assert "task_id" in ask("reset", seed=1, info=False)["observation"]["info"]
        assert ask("step", text="go") == {"observation": {"text": "1 of 3"}, "reward": 0.0, "done": False}
        assert ask("step", text="no")["observation"].keys() == {"text"}
        ask("step", text="go")
        assert ask("step", text="go")["observation"]["info"]["success"] is True
        ask("reset", seed=1)
        assert ask("step", text="go")["observation"]["info"]["valid"] is True


def test_messages_sent_ahead_are_answered_in_order(client):
    with connect(f"{str(client.base_url).replace('http', 'ws').rstrip('/')}/ws") as ws:
        ws.send('{"type": "reset", "data": {"seed": 1}}')
        for action in ("no", "go", "go", "go", "go"):
            ws.send(json.dumps({"type": "step", "data": {"text": action}}))
        ws.send('{"type": "state"}')
        answers = [json.loads(ws.recv(60)) for _ in range(7)]
    assert [a["type"] for a in answers] == ["observation"] * 5 + ["error", "state"]
    texts = [a["data"]["observation"]["text"] for a in answers[1:5]]
    assert texts == ["'no' is not go", "1 of 3", "2 of 3", "three"]
    assert answers[5]["data"]["code"] == "EPISODE_OVER" and answers[6]["data"]["step_count"] == 4


def test_a_task_that_takes_long_to_draw_holds_nobody_up():
    """Any client may name a task of any difficulty."""

    class Endless(Counter):
        def numbered(self, number, split=None, difficulty=None):
            if number == 7:
                time.sleep(3)
            return super().numbered(number, split, difficulty)

    async def main():
        served = Sessions(Endless, Limits(step_seconds=0.2))
        session = served.begin()
        with pytest.raises(Refusal, match="took longer than") as refused:
            await served.reset(session, {"task": "train/0/7"})
        assert refused.value.status == 422
        assert (await served.reset(session, {"task": "train/0/6"}))["observation"]["info"]["task_id"] == "train/0/6"
        served.close()

    asyncio.run(main())
