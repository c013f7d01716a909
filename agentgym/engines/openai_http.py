"""Requests to several servers of one kind: the least loaded first, again with back-off when one fails."""

import asyncio
import json
import math
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentgym.engines import Completion
from agentgym.errors import BadConfig, Fault, MissingExtra

try:
    import httpx2
except ImportError as error:
    raise MissingExtra("talking to a server needs httpx2: pip install 'agentgym[serve]'") from error

LARGEST = 64 << 20  # bytes of an answer; a server that sends more is not believed
_QUOTED = 300  # characters of a server's own words in an error
_TRANSIENT = (408, 409, 425, 429)


class Garbage(ValueError):
    """An answer that is not what was asked for."""


class Refused(BadConfig):
    """A refusal that asking again would not change."""

    def __init__(self, message: str, status: int, content: bytes) -> None:
        super().__init__(message)
        self.status, self.content = status, content


@dataclass(slots=True, eq=False)
class Server:
    """One address, and how many requests are under way there."""

    url: str
    load: int = 0
    ill: float = 0.0
    """Until when (event loop's clock) others are preferred, since it failed."""


class Servers:
    """POSTs of JSON objects to the least loaded of several servers that serve the same model.

    A request that met 429, 5xx, garbage, a cut answer or none is sent again, elsewhere if there is an elsewhere, after
    `backoff * 2**n` seconds or what `Retry-After` says, at most `longest`; after `retries` of them it is a Fault that
    says what was met. `met` counts everything met. Any other refusal (401, 404, …) is a BadConfig at once. Where a
    server repeats `key` in an answer, `[key]` is read.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        key: str | None = None,
        retries: int = 6,
        backoff: float = 0.5,
        longest: float = 30.0,
        timeout: float = 600.0,
    ) -> None:
        if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
            raise BadConfig(f"server {list(urls)}: expected addresses such as http://localhost:8000/v1, separated by commas")
        if retries < 0 or backoff < 0 or timeout <= 0:
            raise BadConfig(f"retries {retries}, backoff {backoff}, timeout {timeout}: expected 0 or more, timeout above 0")
        self.servers = [Server(url.rstrip("/")) for url in urls]
        self.met: Counter[str] = Counter()
        self._key = (key or "").encode()
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._retries, self._backoff, self._longest, self._timeout = retries, backoff, longest, timeout
        self._client: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last: dict[str, Server] = {}

    def models(self) -> list[dict[str, Any]]:
        """Return what the first server lists under /models; blocks."""
        url = f"{self.servers[0].url}/models"
        try:
            answer = httpx2.get(url, headers=self._headers, timeout=min(self._timeout, 30.0))
            answer.raise_for_status()
            found = _object(answer.content)["data"]
            if isinstance(found, list):
                return [model for model in cast("list[Any]", found) if isinstance(model, dict)]
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            raise BadConfig(f"{url} does not list its models ({error!r}); expected an OpenAI-compatible server") from error
        raise BadConfig(f"{url} does not list its models; expected an OpenAI-compatible server")

    async def post(self, path: str, body: dict[str, Any], session: str, read: Any) -> Any:
        """Return `read(answer)`; `read` raises Garbage where the JSON object is not what it should be."""
        met: list[str] = []
        for attempt in range(self._retries + 1):
            server = self._choose(session)
            server.load += 1
            try:
                status, wait, content = await self._send(server, path, body, session)
                problem = f"status {status}"
                if status == 200:
                    return read(_object(content))
                if status < 500 and status not in _TRANSIENT:
                    raise Refused(f"{server.url}{path} refused with status {status}: {_quote(content)}", status, content)
            except (
                httpx2.TimeoutException,
                httpx2.ConnectError,
                httpx2.RemoteProtocolError,
                httpx2.TransportError,
            ) as error:
                problem, wait = _broken(error), 0.0
            except Garbage as error:
                problem, wait = f"garbage ({error})", 0.0
            finally:
                server.load -= 1
            self.met[problem.partition(" (")[0]] += 1
            met.append(problem)
            pause = min(max(self._backoff * 2**attempt, wait), self._longest)
            server.ill = asyncio.get_running_loop().time() + pause
            if attempt < self._retries:
                await asyncio.sleep(pause)
        raise Fault(
            f"no answer from {len(self.servers)} server(s) in {len(met)} attempts: {', '.join(met)}", reason="engine"
        )

    async def _send(self, server: Server, path: str, body: dict[str, Any], session: str) -> tuple[int, float, bytes]:
        headers = {**self._headers, "X-Session-Id": session.encode("ascii", "replace").decode().replace("\n", "?")[:200]}
        content = bytearray()
        async with self._open().stream("POST", f"{server.url}{path}", json=body, headers=headers) as answer:
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > LARGEST:
                    raise Garbage(f"more than {LARGEST >> 20} MiB")
            told = bytes(content).replace(self._key, b"[key]") if self._key else bytes(content)
            return answer.status_code, _seconds(answer.headers.get("retry-after")), told

    def _choose(self, session: str) -> Server:
        """Return the least loaded healthy server; where a session was last, its prefix is cached, which breaks ties."""
        now, last = asyncio.get_running_loop().time(), self._last.get(session)
        server = min(self.servers, key=lambda s: (s.ill > now, s.load, s is not last))
        if len(self._last) > 100_000:
            self._last.clear()
        self._last[session] = server
        return server

    def _open(self) -> httpx2.AsyncClient:
        """Return this event loop's client: connections do not outlive their loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
            timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, 30.0), pool=None)
            self._client, self._loop = httpx2.AsyncClient(limits=limits, timeout=timeout), loop
        return self._client


def only_choice(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the one choice of an answer; raises Garbage where there is none, or several."""
    choices = answer.get("choices")
    if isinstance(choices, list) and len(cast("list[Any]", choices)) == 1 and isinstance(choices[0], dict):
        return cast("dict[str, Any]", choices[0])
    raise Garbage("expected one choice")


def _object(content: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        raise Garbage(f"no JSON: {_quote(content)}") from None
    if not isinstance(answer, dict):
        raise Garbage(f"no JSON object: {_quote(content)}")
    return cast("dict[str, Any]", answer)


def _quote(content: bytes) -> str:
    return repr(content[:_QUOTED].decode("utf-8", "replace"))


def _broken(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx2.ConnectError):
        return "no connection"
    return "a cut answer" if "incomplete" in str(error) or "peer closed" in str(error) else f"a broken connection ({error})"


def _seconds(text: str | None) -> float:
    try:
        value = float(text or 0)
    except ValueError:  # a date: the back-off decides
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


class ServedEngine:
    """What engines over servers share: their requests by session, which hang up when they are aborted."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self._running: dict[asyncio.Task[Completion], str] = {}

    @property
    def met(self) -> dict[str, int]:
        """How often each kind of trouble was met and retried: `status 429`, `garbage`, `a cut answer`, ….."""
        return dict(self.servers.met)

    async def asked(self, request: Coroutine[Any, Any, Completion], session: str) -> Completion | None:
        """Run a session's request and return its completion; None where it was aborted."""
        task = asyncio.get_running_loop().create_task(request)
        self._running[task] = session
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()  # nothing where it is done; else the caller was cancelled, and the server sees us hang up
            del self._running[task]
        return None if task.cancelled() else task.result()

    def abort(self, session: str) -> None:
        """Hang up on the session's requests; a server that notices frees what they hold."""
        for task, owner in self._running.items():
            if owner == session:
                task.cancel()

    def close(self) -> None:
        """Hang up on every request."""
        for task in self._running:
            task.cancel()
