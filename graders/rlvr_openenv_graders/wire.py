"""One session with a served environment, message by message, so that two can be interleaved."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from openenv.validation.graders import Subject
from openenv.validation.runtime.contracts import RuntimePlan, load_runtime_plan
from websockets.sync.client import connect

from agentgym.core.harmless import harmless

LARGEST = 1 << 20
"""Bytes of one message."""
PATIENCE = 5.0
"""Seconds in which a server frees a session that has ended."""

Object = dict[str, Any]


class Refused(Exception):
    """The server answered with an error, or with what is no answer."""

    def __init__(self, operation: str, code: str) -> None:
        self.code = code
        super().__init__(f"{operation} was answered with the error {code}")


class Wire:
    """A WebSocket session: `reset`, `step` and `state` return the server's own objects, uncoerced."""

    def __init__(self, url: str, seconds: float) -> None:
        parts = urlsplit(url)
        scheme = "wss" if parts.scheme == "https" else "ws"
        self.end = time.monotonic() + seconds
        address = urlunsplit((scheme, parts.netloc, f"{parts.path.rstrip('/')}/ws", "", ""))
        self._socket = connect(
            address, proxy=None, max_size=LARGEST, open_timeout=seconds, close_timeout=1, compression=None
        )

    def reset(self, **arguments: Any) -> Object:
        """Start an episode."""
        return self._ask("reset", arguments)

    def step(self, action: Mapping[str, Any]) -> Object:
        """Take an action."""
        return self._ask("step", dict(action))

    def state(self) -> Object:
        """Return the state."""
        return self._ask("state", None)

    def _ask(self, operation: str, data: Object | None) -> Object:
        message = {"type": operation} if data is None else {"type": operation, "data": data}
        self._socket.send(json.dumps(message, allow_nan=False))
        try:
            answer = json.loads(self._socket.recv(timeout=max(0.0, self.end - time.monotonic())))
        except (ValueError, TimeoutError) as error:
            raise Refused(operation, type(error).__name__) from None
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, dict) or answer.get("type") == "error":
            raise Refused(operation, str((data or {}).get("code", "no answer"))[:40])
        return data

    def close(self) -> None:
        """End the session."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Served:
    """What graders ask of a running subject: its public plan, and episodes of it in sessions of their own."""

    def __init__(self, subject: Subject) -> None:
        assert subject.running is not None, "the subject does not run"
        self.url = subject.running.base_url
        self.seconds = subject.manifest.resources.episode_timeout_s
        self.plan: RuntimePlan = load_runtime_plan(subject.root, subject.manifest.execution)  # type: ignore[attr-defined]

    def session(self) -> Wire:
        """Open a session; one that ended a moment ago may still be there, so a full server is asked again."""
        deadline = time.monotonic() + PATIENCE
        while True:
            wire = Wire(self.url, self.seconds)
            try:
                wire.state()
                return wire
            except Refused as error:
                if error.code != "CAPACITY_REACHED":
                    return wire  # a state before the first reset may be refused
                wire.close()
                if time.monotonic() > deadline:
                    raise
            except Exception:
                wire.close()
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def arguments(self, **changed: Any) -> Object:
        """Return the plan's arguments of reset, some of them changed."""
        reset = self.plan.reset
        return {**reset.options, "seed": reset.seed, "episode_id": reset.episode_id, **changed}

    def episode(
        self,
        reset: Mapping[str, Any] | None = None,
        actions: Sequence[Mapping[str, Any]] | None = None,
        wire: Wire | None = None,
    ) -> list[Object]:
        """Play an episode and return the answers to reset and steps, each followed by the state."""
        if wire is None:
            with self.session() as own:
                return self.episode(reset, actions, own)
        answers = [wire.reset(**(self.arguments() if reset is None else reset)), wire.state()]
        for action in self.plan.actions if actions is None else actions:
            if answers[-2].get("done") is True:
                break
            answers += [wire.step(action), wire.state()]
        return answers

    def idle(self) -> Object:
        """Return an action that has the right form and means nothing."""
        import httpx

        schema = httpx.get(f"{self.url.rstrip('/')}/schema", timeout=30, trust_env=False).raise_for_status().json()
        value = harmless(schema["action"])
        return value if isinstance(value, dict) else {}


def rewards(answers: Sequence[Object]) -> list[float]:
    """Return the rewards of an episode that are numbers; the answers of `Served.episode`."""
    paid = [answer.get("reward") for answer in answers[::2]]
    return [float(value) for value in paid if isinstance(value, int | float) and not isinstance(value, bool)]


def difference(one: Sequence[Object], other: Sequence[Object]) -> str:
    """Return where two episodes differ first; empty if nowhere."""
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if _canonical(left) != _canonical(right):
            step = place // 2
            kind = "state" if place % 2 else "reset" if step == 0 else "step"
            names = sorted(name for name in {*left, *right} if _canonical(left.get(name)) != _canonical(right.get(name)))
            return (
                f"{kind}{f' after step {step}' if place % 2 else f' {step}' if step else ''} differs in {', '.join(names)}"
            )
    return "" if len(one) == len(other) else f"one episode has {len(one) // 2 - 1} steps, the other {len(other) // 2 - 1}"


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
