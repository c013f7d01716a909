"""Client of a retriever server with Search-R1's API: POST /retrieve {queries, topk, return_scores}."""

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import cast

from agentgym.errors import BadConfig, Fault, MissingExtra, Reason, how_to_install
from agentgym.retrieval.documents import Document, from_contents, plain_text, title_key
from agentgym.retrieval.protocol import LONGEST, Hit, QueryFailed

try:
    import httpx2
except ImportError as error:
    raise MissingExtra(f"a retriever at an address needs httpx2: {how_to_install('api')}") from error

BESIDE, LARGEST = 64 << 10, 256 << 10  # maximum bytes read of an answer: for its frame, and per document
_PATH = "/retrieve"
_TITLED = 10  # results searched for a title
_TRANSIENT = (408, 425, 429)
_CHECKED = "What is the capital of France?"  # works with any corpus, even if nothing is found


class _Wrong(ValueError):
    """A malformed or failed answer; a retry may help."""


class _Refused(ValueError):
    """The server refused the request; a retry cannot help."""


class Client:
    """Queries a retriever server: `agentgym serve retriever`, Search-R1's, or a compatible one.

    A request is retried after a failed connection, a timeout, status 5xx, 408, 425 or 429, or a malformed answer. Retry n,
    from 0, waits `backoff * 2**n` seconds first; there are at most `retries`, within `seconds` in total. Then the request
    raises a Fault with reason `timeout` if all attempts timed out, else `engine`. A refusal (any other status but
    200, or an answer that is too large) raises at once. The Fault is a `QueryFailed` if the server refused, or answered
    every attempt with an error or a malformed answer. Results are as repeatable as the server's.

    Documents without an id, which Search-R1's BM25 server sends, are identified by the hash of their contents.
    """

    blocking = True
    size = None

    def __init__(
        self, url: str, *, timeout: float = 20.0, retries: int = 5, backoff: float = 0.25, seconds: float = 45.0
    ) -> None:
        if not url.startswith(("http://", "https://")) or timeout <= 0 or retries < 0 or backoff < 0 or seconds <= 0:
            raise BadConfig(
                f"retriever {url!r} with timeout {timeout}, retries {retries}, backoff {backoff}, seconds {seconds}; "
                "expected http://HOST:PORT, and numbers above 0"
            )
        self.url = url.rstrip("/") if url.rstrip("/").endswith(_PATH) else url.rstrip("/") + _PATH
        self._timeout, self._retries, self._backoff, self._seconds = timeout, retries, backoff, seconds
        self._client: httpx2.Client | None = None
        self._process = 0

    def check(self) -> None:
        """Send one query to check the server.

        Raises:
            BadConfig: no retriever answers at the address.
        """
        expected = "expected Search-R1's POST /retrieve, for example of `agentgym serve retriever`"
        try:
            self._ask([_CHECKED], 1, time.monotonic() + self._timeout)
        except httpx2.ConnectError as error:
            raise BadConfig(f"nothing answers at {self.url} ({error}): start the retriever first; {expected}") from error
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, _Wrong, _Refused) as error:
            raise BadConfig(f"{self.url} is not a retriever ({_described(error)}); {expected}") from error

    def search(self, queries: Sequence[str], count: int) -> list[list[Hit]]:
        """Return the best `count` documents of each query, as the server ranks them.

        Raises:
            QueryFailed: the server refused, or answered each attempt with an error or a malformed answer.
            Fault: the server did not answer within the retries.
        """
        until, met = time.monotonic() + self._seconds, list[str]()
        late = answered = 0
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(max(0.0, min(self._backoff * 2 ** (attempt - 1), until - time.monotonic())))
            if time.monotonic() >= until:
                break
            try:
                return self._ask(queries, count, min(time.monotonic() + self._timeout, until))
            except _Refused as error:
                raise QueryFailed(f"the retriever at {self.url} refused: {error}", reason=Reason.ENGINE) from None
            except (httpx2.TimeoutException, TimeoutError):
                late += 1
                met.append("no answer in time")
            except _Wrong as error:
                answered += 1
                met.append(str(error))
            except httpx2.HTTPError as error:
                met.append(_described(error))
        reason = "timeout" if late == len(met) else "engine"
        kind = QueryFailed if answered == len(met) else Fault
        raise kind(f"no answer from {self.url} in {len(met)} attempts: {', '.join(met)}", reason=reason)

    def titled(self, name: str) -> list[Document]:
        """Return the documents with this title among the ten best results for the title as a query."""
        [hits] = self.search([name], _TITLED)
        return [hit.document for hit in hits if title_key(hit.document.title) == title_key(name)]

    def find(self, id: str) -> Document | None:
        """Return None: the server has no lookup by id."""
        return None

    def unique(self, document: Document) -> bool:
        """Return False: the server's other documents are unknown."""
        return False

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None and self._process == os.getpid():
            self._client.close()
        self._client = None

    def _ask(self, queries: Sequence[str], count: int, until: float) -> list[list[Hit]]:
        body = {"queries": [plain_text(query[:LONGEST]) for query in queries], "topk": count, "return_scores": True}
        most, content = BESIDE + LARGEST * count * len(queries), bytearray()
        with self._open().stream("POST", self.url, json=body) as answer:
            for part in answer.iter_bytes():  # a server that trickles bytes meets the timeout of every read
                content += part
                if len(content) > most:
                    raise _Refused(f"it sent more than {most >> 10} KiB for {count} documents of {len(queries)} queries")
                if time.monotonic() > until:
                    raise TimeoutError("no whole answer in time")
        if answer.status_code != 200:
            words = f"status {answer.status_code} ({bytes(content[:200]).decode('utf-8', 'replace')})"
            raise _Wrong(words) if answer.status_code >= 500 or answer.status_code in _TRANSIENT else _Refused(words)
        return _results(bytes(content), len(queries), count)

    def _open(self) -> httpx2.Client:
        """Return this process's HTTP client; a forked child does not reuse its parent's connections."""
        if self._client is None or self._process != os.getpid():
            self._client, self._process = httpx2.Client(timeout=self._timeout, trust_env=False), os.getpid()
        return self._client


def _results(content: bytes, queries: int, count: int) -> list[list[Hit]]:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _Wrong(f"no JSON: {content[:60]!r}") from error
    result: object = cast("dict[str, object]", answer).get("result") if isinstance(answer, dict) else None
    excerpt = content[:80].decode("utf-8", "replace")
    if not isinstance(result, list) or len(cast("list[object]", result)) != queries:
        raise _Wrong(f'{excerpt!r}, not {{"result": [[…]]}} with {queries} list(s)')
    return [_hits(entry, count) for entry in cast("list[object]", result)]


def _hits(result: object, count: int) -> list[Hit]:
    if not isinstance(result, list):
        raise _Wrong(f"{str(result)[:80]!r}, not a list of documents")
    return [_hit(entry) for entry in cast("list[object]", result)[:count]]


def _hit(entry: object) -> Hit:
    if not isinstance(entry, Mapping):
        raise _Wrong(f"{str(entry)[:80]!r}, not a document")
    plain = cast("Mapping[str, object]", entry)
    document, score = plain.get("document", plain), plain.get("score", 0.0)
    if not isinstance(document, Mapping) or isinstance(score, bool) or not isinstance(score, int | float):
        raise _Wrong(f'{str(plain)[:80]!r}, not {{"document": {{…}}, "score": number}}')
    if not math.isfinite(score):
        raise _Wrong(f"the score {score}")
    raw = cast("Mapping[str, object]", document)
    contents, id = raw.get("contents"), raw.get("id")
    if contents is None and isinstance(raw.get("title"), str) and isinstance(raw.get("text"), str):
        contents = f'"{raw["title"]}"\n{raw["text"]}'
    if not isinstance(contents, str) or isinstance(id, bool) or not isinstance(id, str | int | None):
        raise _Wrong(f"{str(raw)[:80]!r}, not a document of id and contents")
    contents = plain_text(contents)
    id = hashlib.blake2b(contents.encode(), digest_size=8).hexdigest() if id is None else plain_text(str(id))
    return Hit(from_contents(id, contents), float(score))


def _described(error: Exception) -> str:
    return str(error) or type(error).__name__
