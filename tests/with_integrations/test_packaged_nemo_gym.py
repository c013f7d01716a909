"""The real NeMo Gym (0.7.0) on a package of ours: its own agent and client play the oracle's episode, over HTTP."""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("nemo_gym", reason="nemo_gym is not installed: ./dev test-integrations")

import packaged
import uvicorn
from fastapi import FastAPI
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent, GymnasiumAgentConfig, GymnasiumAgentRunRequest

import agentgym


@contextlib.contextmanager
def served(application: Any) -> Iterator[str]:
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    server = uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def address(url: str) -> dict[str, object]:
    host, _, port = url.removeprefix("http://").partition(":")
    return {"host": host, "port": int(port)}


@pytest.mark.parametrize(("env", "name"), [(packaged.ENV, "mine_doors"), ("rlvr/GuessNumber-v0", "rlvr_guess_number")])
@pytest.mark.parametrize("right", [True, False])
def test_its_agent_plays_an_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, env: str, name: str, right: bool
) -> None:
    monkeypatch.setattr("nemo_gym.server_utils._GLOBAL_AIOHTTP_CLIENT", None)  # of the event loop before
    monkeypatch.setenv("NEMO_GYM_CONFIG_DICT", "{}")  # as in its own processes; else its client reads the command line
    folder = packaged.package("nemo_gym", tmp_path, monkeypatch, env)
    loaded: Any = agentgym.make(f"nemo_gym:{folder}")  # makes the server from app.py, the configuration and the data
    config = OmegaConf.load(folder / "configs" / f"{name}.yaml")
    row = json.loads((folder / "data" / "example.jsonl").read_text().splitlines()[0])
    ours = agentgym.make(env)
    ours.reset(seed=0, options={"task": row["task_id"]})
    answer = next(iter(ours.oracle())) if right else "open nothing"
    prompts: list[str] = []

    async def says(body: dict[str, Any]) -> dict[str, Any]:
        """Reply as a model server does, in OpenAI's Responses."""
        prompts.append(str(body["input"][-1]["content"]))
        text = f"<think>well</think><action>{answer}</action>"
        message = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": "msg_0", "type": "message", "role": "assistant", "status": "completed", "content": [message]}
        fixed = {"id": "resp_0", "created_at": 0.0, "model": "fake", "object": "response", "status": "completed"}
        return fixed | {"output": [item], "parallel_tool_calls": False, "tool_choice": "auto", "tools": []}

    fake = FastAPI()
    fake.post("/v1/responses")(says)
    with served(loaded.unwrapped._app) as resources, served(fake) as model:
        OmegaConf.update(config, f"{name}.resources_servers.{name}", address(resources))
        OmegaConf.update(config, "policy_model.responses_api_models.any", address(model), force_add=True)
        client = ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=1), global_config_dict=config)
        agent: Any = OmegaConf.to_container(config[f"{name}_gymnasium_agent"].responses_api_agents.gymnasium_agent)
        fields = {"name": "agent", "host": "127.0.0.1", "port": 1, "entrypoint": "app.py"}
        fields |= {key: agent[key] for key in ("resources_server", "model_server", "max_steps")}
        seat = GymnasiumAgent(config=GymnasiumAgentConfig.model_validate(fields), server_client=client)
        request: Any = SimpleNamespace(cookies={})
        done: Any = asyncio.run(seat.run(request, GymnasiumAgentRunRequest.model_validate(row)))
    assert ours.reset(seed=0, options={"task": row["task_id"]})[0] in prompts[0]
    assert (done.reward, done.info["success"]) == ((1.0, True) if right else (0.0, False))
    assert (done.terminated, done.truncated) == (right, not right)
    assert len(prompts) == (1 if right else ours.horizon)
