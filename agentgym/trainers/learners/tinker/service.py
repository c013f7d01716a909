"""Client of a server of the Tinker API: wraps the API's client package with deadlines and unique names."""

# tinker is an extra and typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import contextlib
import importlib
import json
import logging
import os
import threading
import time
import urllib.error
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from agentgym.errors import BadConfig, EngineDead, Fault, MissingExtra, how_to_install
from agentgym.trainers.learners.tinker import adapter

T = TypeVar("T")
Array = npt.NDArray[np.float32]
LOOK = 1.0
"""Seconds without an answer after which the server's health is checked."""


def client_package() -> Any:
    """Import and return the client package.

    Raises:
        MissingExtra: the client package is not installed.
    """
    os.environ.setdefault("TINKER_TELEMETRY", "0")  # else it reports exceptions of this process to the server
    try:
        tinker = importlib.import_module("tinker")
    except ImportError as error:
        raise MissingExtra(f"a tinker server needs its client package: {how_to_install('tinker')}") from error
    logging.getLogger("tinker").setLevel(logging.ERROR)  # it warns of each retry
    importlib.import_module("agentgym.trainers.learners.tinker.bodies").bound_answers()
    return tinker


class Service:
    """A session with a server. Every call has a deadline and ends early if the server answers no health check.

    The bare client package retries a refused connection, a 409 and a 5xx for minutes, and waits for a result forever.
    """

    def __init__(self, url: str, *, seconds: float = 1800.0, patience: float = 30.0, key: str = "") -> None:
        self.tinker = client_package()
        self.url, self.seconds, self.patience = url.rstrip("/"), seconds, patience
        self._looked = time.monotonic()
        """Time of the last answer or health check, in seconds of `time.monotonic`."""
        self._unanswered: float | None = None
        """Start of the first failed health check since the last answer, in seconds of `time.monotonic`; else None."""
        self._health = threading.Lock()
        self._check_address()
        self.key = key or os.environ.get("TINKER_API_KEY", "") or "tml-local"
        self.client: Any = self.call(
            "open a session", lambda: _session(self.tinker.ServiceClient(base_url=self.url, api_key=self.key))
        )

    def _check_address(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise BadConfig(f"learner 'tinker:{self.url}': expected an address, for example tinker:http://127.0.0.1:8000")
        if not self.healthy():
            raise BadConfig(f"no server answers at {self.url}/api/v1/healthz: start it, or correct the address")

    def healthy(self) -> bool:
        """Return True if the server answers a health check; every status below 500 counts."""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/healthz", timeout=max(self.patience / 3, 1.0)):
                return True
        except urllib.error.HTTPError as error:
            return error.code < 500
        except OSError:
            return False

    def check_health(self, what: str) -> None:
        """Check the server's health, unless it was checked or answered in the last second.

        Raises:
            EngineDead: no health check was answered for `patience` seconds.
        """
        with self._health:
            began = time.monotonic()
            if began - self._looked < LOOK:
                return
            if self.healthy():
                self._answers()
                return
            self._looked = time.monotonic()
            self._unanswered = began if self._unanswered is None else self._unanswered
            if self._looked - self._unanswered > self.patience:
                raise EngineDead(f"{self.url} was asked to {what} and answers no health check for {self.patience:g} seconds")

    def _answers(self) -> None:
        self._looked, self._unanswered = time.monotonic(), None

    def call(self, what: str, function: Callable[..., Any], *arguments: object, **options: object) -> Any:
        """Call a client function and return its result, or the result of the future that it returns.

        `what` completes "was asked to …" in error messages.

        Raises:
            EngineDead: the server died, refused or exceeded the deadline; its state is then unknown.
            BadConfig: raised by the function.
        """
        started, self._looked = time.monotonic(), time.monotonic()
        future = _started(lambda: _settled(function(*arguments, **options), self.seconds))
        while True:
            try:
                value = future.result(LOOK)
                self._answers()
                return value
            except NotYet as error:
                if future.done():  # the client's own deadline, which equals ours, has passed
                    raise self._late(what) from error
                if time.monotonic() - started > self.seconds:
                    raise self._late(what) from error
                self.check_health(what)
            except (EngineDead, BadConfig):
                raise
            except Exception as error:  # the client has many types
                raise EngineDead(f"{self.url} was asked to {what}: {_described(error)}") from error

    async def acall(self, what: str, function: Callable[..., Any], *arguments: object, **options: object) -> Any:
        """Like `call`, without blocking the event loop.

        Raises:
            Fault: only this answer failed.
            EngineDead: the server is gone or exceeded the deadline.
            BadConfig: raised by the function.
        """
        started = time.monotonic()
        try:
            value = function(*arguments, **options)
            future = asyncio.wrap_future(value.future() if hasattr(value, "future") else value)
            while not (await asyncio.wait((future,), timeout=LOOK))[0]:
                if time.monotonic() - started > self.seconds:
                    raise self._late(what)
                await asyncio.to_thread(self.check_health, what)
            self._answers()
            return future.result()
        except (EngineDead, BadConfig):
            raise
        except Exception as error:
            raise Fault(f"{self.url} was asked to {what}: {_described(error)}", "engine") from error

    def _late(self, what: str) -> EngineDead:
        return EngineDead(f"{self.url} was asked to {what} and did not within {self.seconds:g} seconds")

    def request(self, path: str, method: str = "GET", body: dict[str, object] | None = None) -> HTTPResponse:
        """Send a request that the client package lacks and return the response; redirects do not get the API key."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", content, method=method)
        request.add_header("Content-Type", "application/json")
        request.add_unredirected_header("X-API-Key", self.key)
        return urllib.request.urlopen(request, timeout=self.patience)

    def unique(self, name: str) -> str:
        """Return a name that no checkpoint has; the client would retry the 409 for an existing name for minutes."""
        return f"{name}-{uuid.uuid4().hex[:12]}"

    def base_model(self, name: str) -> str:
        """Return the model that the server trains: the requested one, or its only one.

        Raises:
            BadConfig: the server's list of models lacks `name`, or `name` is empty and the list does not have exactly one.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # deprecated in later releases, but the only way in earlier ones
            capabilities = self.call("name its models", self.client.get_server_capabilities)
        names = [str(getattr(model, "model_name", model)) for model in capabilities.supported_models]
        if name and names and name not in names:
            raise BadConfig(f"{self.url} has no model {name!r}; it has {', '.join(names)}: give --learner.base")
        if not name and len(names) != 1:
            raise BadConfig(f"{self.url} has {len(names)} models, {', '.join(names)}: say which with --learner.base NAME")
        return name or names[0]

    def trainer(self, base: str, rank: int, seed: int) -> "ServedAdapter":
        """Return a new adapter of the model `base`, with the given rank and seed."""
        create = self.client.create_lora_training_client
        return ServedAdapter(self, self.call("make an adapter", create, base_model=base, rank=rank, seed=seed % 2**31))

    def loaded(self, path: str, *, optimizer: bool) -> "ServedAdapter":
        """Load a saved adapter, with its saved optimizer state or a fresh optimizer."""
        client = self.client
        load = (
            client.create_training_client_from_state_with_optimizer
            if optimizer
            else client.create_training_client_from_state
        )
        return ServedAdapter(self, self.call(f"load {path}", load, path))

    def sampler(self, base: str) -> Any:
        """Return a sampler of a model without an adapter."""
        return self.call("sample from the model", self.client.create_sampling_client, base_model=base)

    def close(self) -> None:
        """End the session."""
        closing = getattr(self.client, "close", None) or self.client.holder.close  # earlier releases only have the latter
        future = _started(lambda: _settled(closing(), 5.0))
        try:
            future.result(6.0)
        except Exception:  # a server that is gone has no session left
            return


class ServedAdapter:
    """An adapter that a server trains."""

    def __init__(self, service: Service, client: Any) -> None:
        self.service, self.client = service, client

    def forward(self, datums: Sequence[object]) -> list[Array]:
        """Return the log-probabilities of the targets of each datum, [targets]."""
        output = self.service.call("score rows", self.client.forward, list(datums), "cross_entropy")
        return [_array(row["logprobs"]) for row in output.loss_fn_outputs]

    def backward(
        self, datums: Sequence[object], loss: str, config: dict[str, float] | None = None
    ) -> tuple[list[Array], Mapping[str, float]]:
        """Add the gradient of a loss to the server's gradient.

        Returns the log-probabilities of each datum's targets, [targets], and the server's metrics.
        """
        output = self.service.call("compute a gradient", self.client.forward_backward, list(datums), loss, config)
        return [_array(row["logprobs"]) for row in output.loss_fn_outputs], output.metrics

    def step(self, lr: float, *, weight_decay: float = 0.0, clip: float = 0.0, plain: float = 0.0) -> dict[str, float]:
        """Take a step of AdamW with torch's defaults or, with `plain` above 0, a step of `plain` times the gradient.

        Returns the server's metrics. Adam without averages and with an eps far above any gradient is plain gradient descent.
        """
        adam = dict(learning_rate=lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=weight_decay)
        if plain:
            adam |= dict(learning_rate=plain * _HUGE, beta1=0.0, beta2=0.0, eps=_HUGE)
        params = self.service.tinker.AdamParams(**adam, grad_clip_norm=clip)
        answer = self.service.call("take a step", self.client.optim_step, params)
        return dict(getattr(answer, "metrics", None) or {})

    def save(self, name: str) -> str:
        """Save weights and optimizer on the server under a unique name, and return the path."""
        return str(self.service.call("save its state", self.client.save_state, self.service.unique(name)).path)

    def sampler(self) -> Any:
        """Return a sampler of the current weights."""
        return self.service.call("serve new weights", self.client.save_weights_and_get_sampling_client)

    def adapter(self, base: str, folder: Path) -> None:
        """Write the current adapter, as a peft adapter of the model `base`, into a folder; see `adapter.download`."""
        name = self.service.unique("agentgym")
        path = str(self.service.call("save its adapter", self.client.save_weights_for_sampler, name).path)
        try:
            adapter.download(self.service, path, base, folder)
        finally:  # else every version stays on the server
            with contextlib.suppress(OSError):
                self.service.request(adapter.saved_at(path), "DELETE").close()

    def forget(self) -> None:
        """Free the adapter on the server, if the server supports that; the client package no longer does."""
        with contextlib.suppress(OSError):
            self.service.request("unload_model", "POST", {"model_id": self.client.model_id, "type": "unload_model"}).close()


_HUGE = 1e4


def _session(client: Any) -> Any:
    _ = client.holder  # later releases open their session at the first access
    return client


def _started(work: Callable[[], T]) -> "Future[T]":
    """Run a function in a daemon thread, because some client calls never return."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _settled(value: Any, seconds: float) -> Any:
    return value.result(seconds) if hasattr(value, "result") else value


def _array(tensor: Any) -> Array:
    return tensor.to_numpy() if hasattr(tensor, "to_numpy") else tensor._numpy


def _described(error: BaseException) -> str:
    text = " ".join(str(error).split())[:400]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
