"""A small server of the Tinker API over our own model, in this process or its own, that can also do everything wrong.

As a program: python tinker_fake.py POLICY FOLDER PORT [BEHAVIOUR], the last one as JSON. What it saves is in FOLDER, so
that another one goes on from there.
"""

import asyncio
import copy
import io
import json
import os
import sys
import tarfile
import tempfile
import threading
import zlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tinker.proto import tinker_public_pb2 as pb
from tinker_fake_model import Adapter

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.serving.server import serve
from agentgym.trainers.model.policy import load_policy

PROTO = b"application/x-protobuf"
TYPES = {pb.DTYPE_FLOAT32: np.float32, pb.DTYPE_INT64: np.int64}


@dataclass
class Behaviour:
    """What the server does otherwise than it should; `reduction` alone is a matter of taste."""

    reduction: str = "tokens"
    no_clip_keys: bool = False
    shift: int = 0
    """How many tokens its log-probabilities are off."""
    scaled_gradient: float = 1.0
    scales_advantages: bool = False
    """It divides the advantages of a request by the largest."""
    drops: str = ""
    """Adapter weights without a gradient: those whose name has this part."""
    keeps_gradient: bool = False
    clips_gradients: bool = True
    plain_logprobs: bool = False
    """It samples at the temperature and tells log-probabilities of temperature 1, as SkyRL's JAX backend does."""
    stale: bool = False
    """Its samplers keep the weights of the first one."""
    slow: float = 0.0
    conflict: bool = False
    half_written: bool = False
    forgets_optimizer: bool = False
    refuses: str = ""
    """The path that it answers with 500."""
    hangs: str = ""
    """The path whose future never comes."""
    archives: str = "adapter"
    """What the archive of a sampler's weights holds: an `adapter`, a whole `model`, the adapter as it `first` was, or `none`
    where there is no archive. Of a server that `dies` the process ends when it is asked for one, and one that is `broken`
    answers with 500."""


class Failed(Exception):
    def __init__(self, status, detail):
        super().__init__(detail)
        self.status, self.detail = status, detail


class Moved(Exception):
    """The answer is elsewhere."""


class Fake:
    """The server: its adapters, its samplers, and the results that are waited for."""

    def __init__(self, policy, folder, behaviour=None):
        self.policy, self.folder = str(policy), Path(folder)
        self.behaviour = behaviour or Behaviour()
        self.base, self.tokenizer = load_policy(policy)
        self.models, self.samplers, self.results = {}, {}, {}
        self.archived = {}
        """Archives of sampler's weights, by the path that SkyRL answers with."""
        self.first = b""
        self.paths = []
        self.stops = []
        """The stop ids that each completion was asked for with."""
        self.number = 0

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        path = scope["path"].removeprefix("/api/v1/")
        self.paths.append(path)
        key, headers = dict(scope["headers"]).get(b"x-api-key"), []
        try:
            content, kind = await self.answer(scope["method"], path, body)
            status = 200
        except Failed as error:
            status, content, kind = error.status, json.dumps({"detail": error.detail}).encode(), b"application/json"
        except Moved as error:
            status, content, kind, headers = 302, b"", b"text/plain", [(b"location", str(error).encode())]
        if path.startswith("training_runs/"):  # an archive lies elsewhere, where nobody else's key is wanted
            assert bool(key) != path.endswith("/download"), path
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *headers]})
        await send({"type": "http.response.body", "body": content})

    async def answer(self, method, path, body):
        if self.behaviour.refuses == path:
            raise Failed(500, "refused")
        if path == "forward_backward":
            return self.promise(path, partial(self.passed, pb.ForwardBackwardRequest.FromString(body)))
        fields = json.loads(body) if body else {}
        if path == "retrieve_future":
            return await self.retrieved(fields["request_id"])
        if path.startswith("training_runs/"):
            return self.archive(method, *path.split("/")[1::2], path)
        if path.startswith("samplers/"):
            return as_json({"sampler_id": path[9:], "base_model": self.policy, "model_path": None})
        if path == "client/dynamic_config" or path not in ANSWERS:
            raise Failed(404, f"no {path}")
        return ANSWERS[path](self, fields)

    def promise(self, path, work, **more):
        """Begin some work, a function without arguments that returns a coroutine; one that never begins makes none."""
        self.number += 1
        name = str(self.number)

        async def slow():
            await asyncio.sleep(self.behaviour.slow)
            if self.behaviour.hangs == path:
                await asyncio.sleep(1000)
            return await work()

        self.results[name] = asyncio.ensure_future(slow())
        return as_json({"future_id": name, "request_id": name, "status": "pending", **more})

    async def retrieved(self, name):
        if name not in self.results:
            raise Failed(404, "no such future")
        done, _ = await asyncio.wait({self.results[name]}, timeout=20)
        if not done:
            raise Failed(408, "not yet")
        try:
            return self.results[name].result()
        except Exception as error:  # a 500 would be asked for again and again
            raise Failed(getattr(error, "status", 400), f"{type(error).__name__}: {error}") from error

    def create_model(self, fields):
        config = fields["lora_config"]
        name = self.fresh("model")
        self.models[name] = Adapter(self.base, config["rank"], config.get("seed") or 0)
        reply = {
            "model_id": name,
            "base_model": self.policy,
            "lora_config": config,
            "status": "created",
            "type": "create_model",
        }

        async def made():
            return as_json(reply)

        content, kind = self.promise("create_model", made)
        return json.dumps({**reply, **json.loads(content)}).encode(), kind

    def fresh(self, kind):
        self.number += 1
        return f"{kind}-{self.number}-{zlib.crc32(str(self.folder).encode()):08x}"

    async def passed(self, request):
        adapter, behaviour = self.models[request.model_id], self.behaviour
        data = []
        for datum in request.data:
            ids = [int(id) for chunk in datum.model_input for id in np.frombuffer(chunk.encoded_text.tokens, np.int32)]
            inputs = {name: np.frombuffer(one.dense, TYPES[one.dtype]).copy() for name, one in datum.loss_fn_inputs.items()}
            data.append((ids, inputs))
        config = {} if behaviour.no_clip_keys else dict(request.loss_fn_config)
        found = adapter.passed(data, request.loss_fn, config, behaviour, backward=not request.forward_only)
        arrays = [row.numpy().astype(np.float32) for row in found]
        offsets = np.cumsum([0, *(array.nbytes for array in arrays)]).astype(np.int64)
        reply = pb.ForwardBackwardOutput(loss_fn_output_type="scalar")
        record = reply.loss_fn_outputs.add()
        record.num_datums = len(arrays)
        joined = b"".join(array.tobytes() for array in arrays)
        record.fields["logprobs"].CopyFrom(pb.BatchedTensor(data=joined, offsets=offsets.tobytes(), dtype=pb.DTYPE_FLOAT32))
        return reply.SerializeToString(), PROTO

    def optim_step(self, fields):
        adapter, adam = self.models[fields["model_id"]], fields["adam_params"]

        async def stepped():
            norm = adapter.step(adam, self.behaviour)
            return as_json({"metrics": {"grad_norm": norm}, "type": "optim_step"})

        return self.promise("optim_step", stepped)

    def save_weights(self, fields):
        path = self.folder / fields["model_id"] / f"{fields['path']}.pt"
        if path.exists() or self.behaviour.conflict:
            raise Failed(409, "a checkpoint of this name exists")
        path.parent.mkdir(parents=True, exist_ok=True)

        async def saved():
            state = self.models[fields["model_id"]].state()
            if self.behaviour.half_written:
                state["weights"] = {name: value * 0 for name, value in state["weights"].items()}
            torch.save(state, path)
            return as_json({"path": f"tinker://{fields['model_id']}/weights/{fields['path']}", "type": "save_weights"})

        return self.promise("save_weights", saved)

    def file_of(self, path):
        model, _, name = path.removeprefix("tinker://").split("/")
        file = self.folder / model / f"{name}.pt"
        if not file.exists():
            raise Failed(404, f"no checkpoint {path}")
        return file

    def weights_info(self, fields):
        state = torch.load(self.file_of(fields["tinker_path"]), weights_only=True)
        info = {"train_attn": True, "train_mlp": True, "train_unembed": False}
        return as_json({"base_model": self.policy, "is_lora": True, "lora_rank": state["rank"], **info})

    def load_weights(self, fields):
        file = self.file_of(fields["path"])

        async def loaded():
            optimizer = fields["optimizer"] and not self.behaviour.forgets_optimizer
            state = torch.load(file, weights_only=True)
            if fields.get("model_seq_id") is not None:  # later clients have the model made by this very request
                self.models[f"{fields['session_id']}:train:{fields['model_seq_id']}"] = Adapter(self.base, state["rank"], 0)
            name = fields.get("model_id") or f"{fields['session_id']}:train:{fields['model_seq_id']}"
            self.models[name].load(state, optimizer)
            return as_json({"path": fields["path"], "type": "load_weights"})

        return self.promise("load_weights", loaded)

    def archive(self, method, run, name, path):
        """Answer as SkyRL does: an archive is a redirection, and deleting names the kind of weights."""
        if method == "DELETE":
            del self.archived[f"tinker://{run}/{path.rpartition('/')[2]}"]
            return b"", b"text/plain"
        content = self.archived.get(f"tinker://{run}/{name}")
        if content is None or self.behaviour.archives == "none":
            raise Failed(404, "no such archive")
        if self.behaviour.archives == "dies":
            os._exit(1)
        if self.behaviour.archives == "broken":
            raise Failed(500, "no room left")
        if path.endswith("/archive"):
            raise Moved(f"/api/v1/training_runs/{run}/checkpoints/{name}/download")
        return content, b"application/octet-stream"

    def packed(self, model):
        """Return an adapter as SkyRL packs it: without the names of the layers."""
        buffer = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder, tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            model.save_pretrained(folder)
            if (config := Path(folder, "adapter_config.json")).exists():
                config.write_text(json.dumps({**json.loads(config.read_text()), "target_modules": None}))
            archive.add(folder, ".")
        self.first = self.first or buffer.getvalue()
        return self.first if self.behaviour.archives == "first" else buffer.getvalue()

    def save_weights_for_sampler(self, fields):
        name = self.fresh("sampling")

        async def stored():
            path, model = f"tinker://{fields['model_id']}/{fields['path']}", self.models[fields["model_id"]].model
            self.archived[path] = self.packed(self.base if self.behaviour.archives == "model" else model)
            return as_json({"path": path, "type": "save_weights_for_sampler"})

        if fields.get("path"):
            return self.promise("save_weights_for_sampler", stored)

        async def saved():
            first = next((one for one in self.samplers.values() if one.model is not self.base), None)
            model = copy.deepcopy(self.models[fields["model_id"]].model).eval()
            self.samplers[name] = first if self.behaviour.stale and first else HFEngine(model, self.tokenizer, slots=16)
            return as_json({"path": None, "sampling_session_id": name, "type": "save_weights_for_sampler"})

        return self.promise("save_weights_for_sampler", saved)

    def create_sampling_session(self, fields):
        name = self.fresh("sampling")
        self.samplers[name] = HFEngine(self.base, self.tokenizer, slots=4)
        return as_json({"sampling_session_id": name, "type": "create_sampling_session"})

    def asample(self, fields):
        engine, params = self.samplers[fields["sampling_session_id"]], fields["sampling_params"]
        prompt = [id for chunk in fields["prompt"]["chunks"] for id in chunk["tokens"]]
        self.stops.append(params.get("stop"))

        async def sampled():
            reply = pb.SampleResponse()
            if fields.get("prompt_logprobs"):
                scores = np.array([np.nan, *await engine.score(prompt)], dtype=np.float32)
                reply.prompt_logprobs = scores.tobytes()
            sampling = Sampling(
                params["temperature"], params["max_tokens"], tuple(params.get("stop") or ()), params.get("seed") or 0
            )
            done = await engine.generate(prompt, sampling, f"{self.number}")
            if self.behaviour.plain_logprobs:
                done.logprobs = (await engine.score([*prompt, *done.ids]))[len(prompt) - 1 :]
            reason = pb.STOP_REASON_STOP if done.finish == "stop" else pb.STOP_REASON_LENGTH
            arrays = (np.array(done.ids, np.int32).tobytes(), np.array(done.logprobs, np.float32).tobytes())
            reply.sequences.append(pb.SampledSequence(stop_reason=reason, tokens=arrays[0], logprobs=arrays[1]))
            return reply.SerializeToString(), PROTO

        return self.promise("asample", sampled, sample_sequence_ids=[self.fresh("sequence")])


def as_json(value):
    return json.dumps(value).encode(), b"application/json"


FUTURES = (
    *("create_model", "optim_step", "save_weights", "weights_info", "load_weights"),
    *("save_weights_for_sampler", "create_sampling_session", "asample"),
)
ANSWERS = {
    "healthz": lambda fake, fields: as_json({"status": "ok"}),
    "client/config": lambda fake, fields: as_json({}),
    "create_session": lambda fake, fields: as_json({"session_id": fake.fresh("session"), "type": "create_session"}),
    "session_heartbeat": lambda fake, fields: as_json({"type": "session_heartbeat"}),
    "unload_model": lambda fake, fields: as_json({"request_id": str(fake.models.pop(fields["model_id"]).rank)}),
    "telemetry": lambda fake, fields: as_json({"status": "accepted"}),
    "get_server_capabilities": lambda fake, fields: as_json({"supported_models": [{"model_name": fake.policy}]}),
    "get_info": lambda fake, fields: as_json(
        {
            "model_data": {"model_name": fake.policy, "tokenizer_id": fake.policy},
            "model_id": fields["model_id"],
            "is_lora": True,
            "lora_rank": fake.models[fields["model_id"]].rank,
            "model_name": fake.policy,
            "type": "get_info",
        }
    ),
    **{name: getattr(Fake, name) for name in FUTURES},
}


class Served:
    """A fake server in a thread of this process."""

    def __init__(self, policy, folder, behaviour=None, port=0):
        self.fake, self.port = Fake(policy, folder, behaviour), port
        self.url, self.ready = "", threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        assert self.ready.wait(60)

    def _run(self):
        async def main():
            self.stop, self.loop = asyncio.Event(), asyncio.get_running_loop()
            await serve(self.fake, "127.0.0.1", self.port, self._ready, self.stop)

        asyncio.run(main())

    def _ready(self, url):
        self.url = url
        self.ready.set()

    def close(self):
        if self.thread.is_alive():
            self.loop.call_soon_threadsafe(self.stop.set)
            self.thread.join(20)


if __name__ == "__main__":
    torch.set_num_threads(1)
    fake = Fake(sys.argv[1], sys.argv[2], Behaviour(**json.loads("".join(sys.argv[4:]) or "{}")))
    asyncio.run(serve(fake, "127.0.0.1", int(sys.argv[3]), lambda url: print(url, flush=True)))
