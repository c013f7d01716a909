"""A server that speaks vLLM's protocol over real HTTP and computes with the hf engine; it fails as it is told."""

import asyncio
import json
import socket
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import uvicorn

from agentgym.engines import Sampling, shards
from agentgym.engines.adapters import describe
from agentgym.engines.hf.engine import HFEngine
from agentgym.serving.asgi import read_body, send_json

_LOADING = threading.Lock()
"""transformers loads models in one thread at a time."""


class Refused(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.response = status, text


class FakeVLLM:
    """One server on a port that stays its own; `start`, `kill` and `start` again, with the weights of its folder.

    `slow`: seconds before each completion. `holds_after`: so many requests on, completions wait until it is raised; all
    else is answered. `hangs`: it takes requests and answers nothing. `dies_at`: a path at which it is killed, as after
    `dies_after` completions. `breaks_at`: a path at which it says 500. `rl`, `exact`: whether it has the endpoints.
    `raw`: it reports log-probabilities of temperature 1. `lies`: a label that it answers under. `lora`: the largest rank
    of adapters that it takes; 0 for a server without adapters.
    """

    def __init__(
        self, folder: Path, *, name: str = "tiny", rl: bool = True, exact: bool = True, raw: bool = False, key: str = "",
        lora: int = 0,
    ) -> None:  # fmt: skip
        self.folder, self.name, self.rl, self.exact, self.raw = folder, name, rl, exact, raw
        self.key, self.lora = key, lora
        self.slow, self.hangs, self.lies = 0.0, False, ""
        self.holds_after = float("inf")
        self.dies_at, self.breaks_at, self.dies_after = "", "", 0
        self.requests: Counter[str] = Counter()
        self.sessions: list[tuple[int, ...]] = []
        """Prompts in order."""
        self.seeds: list[int | None] = []
        """What each of them asked for."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread: threading.Thread | None = None

    def start(self) -> "FakeVLLM":
        self.engine = HFEngine(self.folder, slots=16)
        self.label, self.paused, self.part = "default", False, None
        self.cached: list[list[int]] = []
        self.adapters: dict[str, tuple[str, HFEngine]] = {}
        self.hangs, self.dies_at, self.dies_after = False, "", 0
        self.server = uvicorn.Server(
            uvicorn.Config(self, port=self.port, http="h11", ws="none", lifespan="off", log_config=None, access_log=False)
        )
        self._thread = threading.Thread(target=self.server.run, daemon=True)
        self._thread.start()
        while not self.server.started:
            self._thread.join(0.01)
        return self

    def kill(self) -> None:
        """End it at once: connections break, and nobody listens."""
        self.server.should_exit = self.server.force_exit = True
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(30)
            assert not self._thread.is_alive()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        path = scope["path"]
        self.requests[path] += 1
        body = await read_body(receive, 1 << 24, 60, Refused)
        late = 0 < self.dies_after <= len(self.sessions)
        if late or (self.dies_at and path.endswith(self.dies_at)):
            self.kill()
            for transport in [c.transport for c in self.server.server_state.connections]:
                transport.abort()
            return
        while self.hangs:
            await asyncio.sleep(0.02)
        try:
            if self.breaks_at and path.endswith(self.breaks_at):
                raise Refused(500, f"out of luck, {self.key}")
            if self.key and (b"authorization", f"Bearer {self.key}".encode()) not in scope["headers"]:
                raise Refused(401, "no")
            answer = await self._answer(path, json.loads(body) if body else {})
        except Refused as refused:
            await send_json(send, refused.status, {"error": {"message": refused.response}})
        else:
            if isinstance(answer, str):  # as vLLM answers calls that load adapters
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": answer.encode()})
            else:
                await send_json(send, 200, answer)

    async def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | str:
        if path == "/v1/models":
            entry = {"id": self.name, "root": str(self.folder), "max_model_len": self.engine.context, "parent": None}
            adapters = [{"id": name, "root": at, "parent": self.name} for name, (at, _) in self.adapters.items()]
            return {"data": [entry, *adapters]}
        if path == "/health":
            return {}
        if path == "/inference/v1/generate":
            if not self.exact:
                raise Refused(403, "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out")
            return await self._generate(body)
        if not self.rl:
            raise Refused(404, "Not Found")
        if path == "/weight_info":
            return {"weight_version": self.label}
        if path.endswith("_lora_adapter"):
            return self._adapter(path, body)
        return await getattr(self, "_" + path.strip("/"))(body)

    async def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        wire, prompt = body["sampling_params"], body["token_ids"]
        assert wire["ignore_eos"] is True
        if body["model"] not in (self.name, *self.adapters):
            raise Refused(404, f"The model `{body['model']}` does not exist.")
        engine = self.adapters[body["model"]][1] if body["model"] in self.adapters else self.engine
        self.sessions.append(tuple(prompt))
        self.seeds.append(wire.get("seed"))
        while self.paused or len(self.sessions) > self.holds_after:
            await asyncio.sleep(0.02)
        await asyncio.sleep(self.slow)
        sampling = Sampling(
            temperature=wire["temperature"], max_tokens=wire["max_tokens"], seed=wire.get("seed", len(self.sessions)),
            stop_ids=tuple(wire["stop_token_ids"]),
        )  # fmt: skip
        label = self.lies or self.label
        done = await engine.generate(prompt, sampling, f"{len(self.sessions)}")
        cached = max((_common(prompt, other) for other in self.cached), default=0)
        self.cached.append([*prompt, *done.ids])
        values = done.logprobs
        if self.raw:
            values = (await engine.score([*prompt, *done.ids]))[-len(done.ids) :]
        content = [{"token_id": id, "logprob": value} for id, value in zip(done.ids, values, strict=True)]
        answer: dict[str, Any] = {
            "choices": [
                {
                    "token_ids": done.ids, "finish_reason": done.finish, "logprobs": {"content": content},
                    "weight_versions": [{"version": label, "start": 0, "end": len(done.ids)}],
                }
            ],
            "usage": {"prompt_tokens_details": {"cached_tokens": min(cached, len(prompt) - 1)}},
        }  # fmt: skip
        if "prompt_logprobs" in wire:
            scores = await engine.score(prompt)
            rows = [{str(id): {"logprob": value}} for id, value in zip(prompt[1:], scores, strict=True)]
            answer["prompt_logprobs"] = [None, *rows]
        return answer

    def _adapter(self, path: str, body: dict[str, Any]) -> str:
        name = body["lora_name"]
        if not self.lora:
            raise Refused(404, "Not Found")
        if path == "/v1/unload_lora_adapter":
            if self.adapters.pop(name, None) is None:
                raise Refused(404, f"The lora adapter '{name}' cannot be found.")
            return f"Success: LoRA adapter '{name}' removed successfully."
        if name in self.adapters:
            raise Refused(400, f"The lora adapter '{name}' has already been loaded.")
        rank = describe(body["lora_path"])["r"]
        if rank > self.lora:
            raise Refused(500, f"LoRA rank {rank} is greater than max_lora_rank {self.lora}.")
        with _LOADING:
            self.adapters[name] = body["lora_path"], HFEngine(body["lora_path"], self.engine.tokenizer, slots=16)
        return f"Success: LoRA adapter '{name}' added successfully."

    async def _update_weight_version(self, body: dict[str, Any]) -> dict[str, Any]:
        self.label = body["new_version"]
        return {}

    async def _pause(self, _: dict[str, Any]) -> dict[str, Any]:
        self.paused = True
        return {}

    async def _resume(self, _: dict[str, Any]) -> dict[str, Any]:
        self.paused = False
        return {}

    async def _start_weight_update(self, _: dict[str, Any]) -> dict[str, Any]:
        if self.part is not None:
            raise Refused(500, "start_weight_update called while a weight update is already active")
        self.part = []
        return {}

    async def _collective_rpc(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body == {"method": "abandon_weight_update"}
        self.part = None
        return {"results": [None]}

    async def _update_weights(self, body: dict[str, Any]) -> dict[str, Any]:
        assert self.part is not None
        self.part += [(name, value.clone()) for name, value in shards.read(body["update_info"])]
        return {}

    async def _finish_weight_update(self, body: dict[str, Any]) -> dict[str, Any]:
        assert self.part and not body
        await self.engine.load_weights(self.part, 0)
        self.part = None
        return {}

    async def _reset_prefix_cache(self, _: dict[str, Any]) -> dict[str, Any]:
        self.cached.clear()
        return {"success": True}


def _common(a: list[int], b: list[int]) -> int:
    return next((place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
