"""The HTTP side of a retriever: an ASGI application with Search-R1's API, run by uvicorn."""

import asyncio
import json
import logging
from typing import cast

from agentgym.retrieval.batching import Batches, QueueFull
from agentgym.retrieval.documents import plain_text
from agentgym.retrieval.protocol import LONGEST, Hit
from agentgym.serving.asgi import ClientDisconnected, Receive, Refusal, Send, headers_of, read_body, send_json
from agentgym.serving.connections import REQUEST_SECONDS
from agentgym.serving.server import named_here, other_name

_log = logging.getLogger(__name__)
_MOST_DOCUMENTS = 1000  # per query
_MOST_IN_ALL = 100_000  # per request, since all are in memory at once


class App:
    """ASGI application that serves a retriever with Search-R1's API.

    POST /retrieve {"queries": [...], "topk": 3, "return_scores": true} answers {"result": [[{"document": {"id", "contents"},
    "score"}]]}; without `return_scores` it answers {"result": [[document]]}.
    GET /health returns the number of documents. Errors are {"detail": …}: 422 for a malformed request, 413 for a body that
    is too large, 504 for a search that took longer than `seconds`, 503 when the queue is full, 500 if the retriever fails,
    404 for another path, 405 for another method. A `local` server answers 403 to searches that do not name this machine as
    their host, because a web page could reach the server under another name.
    """

    def __init__(
        self,
        batches: Batches,
        *,
        topk: int = 3,
        seconds: float = 30.0,
        body_bytes: int = 16 << 20,
        queries: int = 4096,
        local: bool = False,
    ) -> None:
        self.batches, self._local = batches, local
        self._topk, self._seconds, self._body_bytes, self._queries = topk, seconds, body_bytes, queries

    async def __call__(self, scope: dict[str, object], receive: Receive, send: Send) -> None:
        """Answer one ASGI request; no input from a client raises an exception.

        Raises:
            NotImplementedError: the scope is not HTTP; this is how ASGI applications decline a protocol.
        """
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])  # ASGI's way to decline a protocol
        try:
            await send_json(send, 200, await self._route(scope, receive))
        except ClientDisconnected:
            return
        except Refusal as refusal:
            await send_json(send, refusal.status, {"detail": refusal.detail})
        except Exception:
            _log.exception("a request failed")
            await send_json(send, 500, {"detail": "the retriever failed; its log says how"})

    async def _route(self, scope: dict[str, object], receive: Receive) -> dict[str, object]:
        path, method = str(scope["path"]).rstrip("/"), scope["method"]
        allowed = {"/retrieve": "POST", "/health": "GET"}.get(path)
        if allowed is None:
            raise Refusal(404, f"there is no {str(scope['path'])[:200]} here; POST /retrieve searches")
        if method != allowed:
            raise Refusal(405, f"{path} takes {allowed}")
        if path == "/health":
            return {"status": "ok", "documents": self.batches.retriever.size}
        if self._local and not named_here(headers := headers_of(scope)):
            raise Refusal(403, f"{other_name(headers)}: start it with --host to serve other machines")
        queries, topk, scores = self._parsed(await read_body(receive, self._body_bytes, REQUEST_SECONDS, Refusal))
        try:
            async with asyncio.timeout(self._seconds):
                result = await self.batches.search(queries, topk)
        except TimeoutError:
            raise Refusal(504, f"the search took longer than {self._seconds:g} seconds") from None
        except QueueFull as error:
            raise Refusal(503, str(error)) from None
        return {"result": [[_entry(hit, scores) for hit in hits] for hits in result]}

    def _parsed(self, content: bytes) -> tuple[list[str], int, bool]:
        try:
            raw = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Refusal(422, f"the body is not JSON ({str(error)[:100]})") from None
        body = cast("dict[str, object]", raw if isinstance(raw, dict) else {})
        queries, topk, scores = body.get("queries"), body.get("topk") or self._topk, body.get("return_scores", False)
        if not isinstance(queries, list) or not all(isinstance(query, str) for query in cast("list[object]", queries)):
            raise Refusal(422, 'the body has no "queries", a list of texts')
        texts = [plain_text(query[:LONGEST]) for query in cast("list[str]", queries)]
        if len(texts) > self._queries:
            raise Refusal(422, f"{len(texts)} queries; at most {self._queries} at once")
        if isinstance(topk, bool) or not isinstance(topk, int) or not 1 <= topk <= _MOST_DOCUMENTS:
            raise Refusal(422, f"topk is {str(topk)[:40]}; expected 1 to {_MOST_DOCUMENTS}")
        if len(texts) * topk > _MOST_IN_ALL:
            raise Refusal(422, f"{len(texts)} queries with topk {topk}; at most {_MOST_IN_ALL} documents at once")
        if not isinstance(scores, bool):
            raise Refusal(422, f"return_scores is {str(scores)[:40]}; expected true or false")
        return texts, topk, scores


def _entry(hit: Hit, scores: bool) -> dict[str, object]:
    document: dict[str, object] = {"id": hit.document.id, "contents": hit.document.contents}
    return {"document": document, "score": hit.score} if scores else document
