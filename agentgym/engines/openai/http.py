"""HTTP requests to interchangeable servers: the least loaded server is used first; failures are retried with back-off."""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import groupby
from typing import Generic, TypeVar
from urllib.parse import parse_qsl, urlsplit

from agentgym.core.json_value import JSON, Object
from agentgym.core.provenance import is_secret
from agentgym.engines.in_flight import InFlight
from agentgym.engines.openai.client import LoopClient, received, received_now
from agentgym.engines.openai.traffic import Server, Traffic
from agentgym.errors import BadConfig, EngineDead, Fault, MissingExtra, Reason, how_to_install

try:
    import httpx2
except ImportError as error:
    raise MissingExtra(f"talking to a server needs httpx2: {how_to_install('api')}") from error

LARGEST = 4 << 20  # maximum bytes of a refusal, and of a server's description
TOO_LONG = "an answer too long"
LEAST_SECRET = 6  # characters: shorter header values may be common words
SLOW_TRIES = 3  # attempts after time-outs, each of which takes the full time
T = TypeVar("T")
_QUOTED = 300  # quoted characters of a server's message
_TRANSIENT = (408, 409, 425, 429)
_HOPELESS = {401: "check the key", 402: "is there credit left?"}
_WRONG = {403: "may this key use this model?", 404: "check the address and the model's name", 405: "check the address"}
_NO_CREDIT = b"insufficient_quota"  # the code of a permanent 429


class Garbage(ValueError):
    """An answer that does not have the expected form; `kind` describes the problem."""

    def __init__(self, message: str, kind: str = "JSON of another shape") -> None:
        super().__init__(message)
        self.kind = kind


class Refused(Fault):
    """A refusal of one request that a retry would not change."""

    def __init__(self, message: str, status: int, content: bytes) -> None:
        super().__init__(message, reason=Reason.ENGINE)
        self.status, self.content = status, content


class Servers:
    """Sends JSON objects by POST to the least loaded of several servers that serve the same model.

    A request is retried, on another server if possible, if the answer is 408, 409, 425, 429, 5xx, garbage, cut off or
    missing. Retry n waits `backoff * 2**(n - 1)` seconds, at most `longest`, except after 429. After 429, or 503 with
    `Retry-After`, all requests to that server wait (see `Traffic`). After `retries` retries, or the third time-out, the
    request raises a Fault that lists the failures. Defaults: 6 retries, `backoff` 0.5, `longest` 60. `timeout` is the
    maximum seconds for a whole answer (default 600). `requests_per_minute` limits the requests started; 0, the default,
    sets no limit. `met` counts all failures.

    Other failures are not retried. If every request would fail (401, 402, a 429 for lack of credit; 3xx, 403, 404 and
    405 from a server without a good answer so far), the request raises BadConfig; other refusals raise `Refused`. If no
    server ever answered, the request raises EngineDead, at once if none accepts connections.

    The key is sent as a bearer token, or unchanged in the header `key_header`. If an answer repeats the key or the
    value of another header, `[key]` replaces it. Addresses may have a query (`?api-version=1`).
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        key: str | None = None,
        key_header: str = "",
        headers: Mapping[str, str] | None = None,
        retries: int = 6,
        backoff: float = 0.5,
        longest: float = 60.0,
        timeout: float = 600.0,
        requests_per_minute: float = 0.0,
    ) -> None:
        if not urls or not all(url.startswith(("http://", "https://")) for url in urls):
            raise BadConfig(f"server {list(urls)}: expected addresses such as http://localhost:8000/v1, separated by commas")
        if retries < 0 or backoff < 0 or timeout <= 0 or requests_per_minute < 0:
            raise BadConfig(
                f"retries {retries}, backoff {backoff}, timeout {timeout}, requests_per_minute {requests_per_minute}: "
                "expected 0 or more, timeout above 0"
            )
        self.servers = [_server(url) for url in urls]
        self.met: Counter[str] = Counter()
        self._traffic = Traffic(self.servers, backoff=backoff, longest=longest, per_minute=requests_per_minute)
        own = dict(headers or {})
        self._secrets = [value.encode() for value in (key or "", *own.values()) if len(value) >= LEAST_SECRET]
        with_key = {key_header or "Authorization": key if key_header else f"Bearer {key}"} if key else {}
        self._headers: dict[str, str] = {**with_key, **own}
        self._key, self._own = key, own
        self._retries, self._backoff, self._longest, self._timeout = retries, backoff, longest, timeout
        self._client = LoopClient(timeout)

    def models(self) -> list[Object]:
        """Return the models that the first server lists under `/models`; blocks, with at most `SLOW_TRIES` retries.

        Raises:
            BadConfig: the server does not list its models.
        """
        url, problem = f"{self.servers[0].url}/models", ""
        full_url = url + self.servers[0].query
        for attempt in range(min(self._retries, SLOW_TRIES) + 1):
            if attempt:
                time.sleep(min(self._backoff * 2**attempt, self._longest))
            try:
                with httpx2.stream("GET", full_url, headers=self._headers, timeout=min(self._timeout, 30.0)) as answer:
                    content = received_now(answer, LARGEST)
                if answer.status_code < 500 and answer.status_code not in _TRANSIENT:
                    answer.raise_for_status()
                    rows = read_object(content)["data"]
                    if isinstance(rows, list):
                        return [model for model in rows if isinstance(model, dict)]
                problem = f"status {answer.status_code}"
            except (httpx2.HTTPStatusError, httpx2.InvalidURL, KeyError) as error:
                problem = repr(error)
                break
            except Garbage as error:
                self.met[error.kind] += 1
                problem = f"{error.kind} ({error})"
            except httpx2.RequestError as error:
                problem = _broken(error, min(self._timeout, 30.0))
                if problem == "no connection":
                    break
                self.met[problem.partition(" (")[0]] += 1
            else:
                self.met[problem] += 1
        raise BadConfig(f"{url} does not list its models ({problem}); expected an OpenAI-compatible server")

    async def post(
        self,
        path: str,
        body: dict[str, object],
        session: str,
        read: Callable[[Object], T],
        most: int,
        cut: Callable[[bytes], T] | None = None,
        took: Callable[[float], object] = bool,
    ) -> T:
        """Return `read(answer)`; `read` raises Garbage if the JSON object is unexpected.

        At most `most` bytes of an answer are read. `cut` is called with the beginning of a longer answer; without
        `cut`, a longer answer is garbage. `took` receives the seconds of each request, from its start to the end of its
        answer. Requests of one `session` go to the same server if servers are equally loaded.

        Raises:
            EngineDead: no server can be connected to, or none ever answered.
            BadConfig: every request would fail.
            Refused: the server refuses this request.
            Fault: the last retry failed.
        """
        reading = _Reading(read, most, cut, took)
        client, slow = await self._client.opened(), 0
        met: list[str] = []
        while len(met) <= self._retries and slow < SLOW_TRIES:
            server = await self._traffic.enter(session)
            try:
                problem, answer = await self._ask(client, server, path, body, session, reading)
            finally:
                self._traffic.leave(server)
            server.heard |= not problem.startswith(("no connection", "no answer"))
            if answer is not None:
                return answer
            kind = problem.partition(" (")[0]
            self.met[kind] += 1
            slow += kind.startswith("no answer")
            met.append(problem)
            server.unreachable = problem == "no connection" and not server.heard
            if all(other.unreachable for other in self.servers):
                raise EngineDead(f"no connection to {', '.join(s.url for s in self.servers)}: is the server running there?")
            if problem != "status 429" and len(met) <= self._retries:  # after a 429 all requests wait in `enter`
                pause = min(self._backoff * 2 ** (len(met) - 1), self._longest)
                server.ill = asyncio.get_running_loop().time() + pause
                await asyncio.sleep(pause)
        runs = [(problem, len(list(same))) for problem, same in groupby(met)]
        troubles = [f"{times} x {problem}" if times > 1 else problem for problem, times in runs]
        problem_text = f"no answer from {len(self.servers)} server(s) in {len(met)} attempts: {', '.join(troubles)}"
        if not any(server.heard for server in self.servers):
            raise EngineDead(f"{problem_text}. {', '.join(s.url for s in self.servers)} never answered anything")
        raise Fault(problem_text, reason=Reason.ENGINE)

    async def _ask(
        self,
        client: httpx2.AsyncClient,
        server: Server,
        path: str,
        body: dict[str, object],
        session: str,
        reading: "_Reading[T]",
    ) -> tuple[str, T | None]:
        """Send one request; return (problem, None), or ("", result) if there is no problem.

        Raises:
            BadConfig: every request would fail.
            Refused: a retry would not help.
        """
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout):  # for the whole answer, since a slow one may send bytes in time
                status, wait, content, whole = await self._send(client, server, path, body, session, reading.most)
            reading.took(time.perf_counter() - started)
            if status == 200:
                answer = reading.of(content, whole)
                self._traffic.well(server)
                return "", answer
        except (TimeoutError, httpx2.RequestError) as error:
            return _broken(error, self._timeout), None
        except Garbage as error:
            return f"{error.kind} ({error})", None
        if (status == 429 and _NO_CREDIT not in content) or (status == 503 and wait):
            self._traffic.too_many(server, wait)
        elif status < 500 and status not in _TRANSIENT[:-1] and status >= 300:
            self.met[f"status {status}"] += 1
            raise self._refusal(server, path, status, content)
        return f"status {status}", None

    def _refusal(self, server: Server, path: str, status: int, content: bytes) -> Exception:
        problem_text = f"{server.url}{path} refused with status {status}: {_quote(content)}"
        hint = _HOPELESS.get(status) or (_HOPELESS[402] if status == 429 else None)
        if not hint and not server.answered:
            hint = _WRONG.get(status) or ("check the address" if status < 400 else None)
        return BadConfig(f"{problem_text}; {hint}") if hint else Refused(problem_text, status, content)

    async def _send(
        self, client: httpx2.AsyncClient, server: Server, path: str, body: dict[str, object], session: str, most: int
    ) -> tuple[int, float, bytes, bool]:
        headers = {**self._headers, "X-Session-Id": session.encode("ascii", "replace").decode().replace("\n", "?")[:200]}
        url = f"{server.url}{path}{server.query}"
        async with client.stream("POST", url, json=body, headers=headers) as answer:
            content, whole = await received(answer.aiter_bytes(), most if answer.status_code == 200 else LARGEST)
            return answer.status_code, seconds_of(answer.headers.get("retry-after")), self.hidden(content), whole

    def hidden(self, content: bytes) -> bytes:
        """Return a server's message with each secret of the request replaced by `[key]`."""
        for secret in self._secrets:
            content = content.replace(secret, b"[key]")
        return content

    def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        self._client.close()


@dataclass(frozen=True)
class _Reading(Generic[T]):
    """Handling of the answer to a request; see the parameters of `Servers.post`."""

    read: Callable[[Object], T]
    most: int
    cut: Callable[[bytes], T] | None
    took: Callable[[float], object]

    def of(self, content: bytes, whole: bool) -> T:
        if whole:
            return self.read(read_object(content))
        if self.cut is None:
            raise Garbage(f"more than {self.most >> 10} KiB", TOO_LONG)
        return self.cut(content)


def only_choice(answer: Object) -> Object:
    """Return the single choice of an answer.

    Raises:
        Garbage: the answer has none, or several.
    """
    choices = answer.get("choices")
    if isinstance(choices, list) and len(choices) == 1 and isinstance(choices[0], dict):
        return choices[0]
    check_error(answer)
    raise Garbage(f"{len(choices) if isinstance(choices, list) else 'no'} choices; expected one")


def check_error(answer: Object) -> None:
    """Check that an answer with status 200 does not contain an error, as OpenRouter's answers may.

    Raises:
        Garbage: the answer contains an error.
    """
    if error := answer.get("error"):
        raise Garbage(_quote(json.dumps(error, ensure_ascii=False).encode("utf-8", "replace")), "an error with status 200")


def read_object(content: bytes) -> Object:
    """Return the JSON object in an answer.

    Raises:
        Garbage: the answer is not a JSON object.
    """
    try:
        answer: JSON = json.loads(content)
    except (ValueError, RecursionError):
        raise Garbage(_quote(content), "not JSON") from None
    if not isinstance(answer, dict):
        raise Garbage(_quote(content))
    return answer


def _quote(content: bytes) -> str:
    return repr(content[:_QUOTED].decode("utf-8", "replace"))


def _broken(error: Exception, timeout: float) -> str:
    if isinstance(error, httpx2.TimeoutException | TimeoutError):
        return f"no answer in {timeout:g} s"
    if isinstance(error, httpx2.ConnectError):
        return "no connection"
    problem_text = str(error)
    return (
        "a cut answer"
        if "incomplete" in problem_text or "peer closed" in problem_text
        else f"a broken connection ({problem_text[:_QUOTED]!r})"
    )


def seconds_of(text: str | None) -> float:
    """Convert a `Retry-After` header, in seconds or as a date, to seconds from now; 0 if it is unusable."""
    try:
        value = float(text or 0)
    except ValueError:
        try:
            date = parsedate_to_datetime(text or "")
            value = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - datetime.now(UTC).timestamp()
        except (ValueError, OverflowError):
            return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0


def _server(address: str) -> Server:
    """Return the server at an address; the query of the address is added to every request.

    Raises:
        BadConfig: `address` is not an address, or contains a secret.
    """
    try:
        parts = urlsplit(address)
    except ValueError as error:
        raise BadConfig(f"{address[:80]!r} is no address ({error})") from None
    if "@" in parts.netloc or any(is_secret(name) or name.lower() == "code" for name, _ in parse_qsl(parts.query, True)):
        raise BadConfig(
            "an address contains a key or a password: addresses are recorded. Put the key into an environment variable and "
            "name that with --engine.key_env"
        )
    path = parts._replace(query="", fragment="").geturl().rstrip("/")
    return Server(path, f"?{parts.query}" if parts.query else "")


class ServedEngine(InFlight):
    """Base class of engines that send all requests through one `Servers` object."""

    def __init__(self, servers: Servers) -> None:
        super().__init__()
        self.servers = servers

    @property
    def met(self) -> dict[str, int]:
        """Counts of failures by kind: `status 429`, `not JSON`, `a cut answer`, `no answer in 600 s`, …."""
        return dict(self.servers.met)

    def close(self) -> None:
        """Cancel every request and close all connections."""
        self.hang_up()
        self.servers.close()
