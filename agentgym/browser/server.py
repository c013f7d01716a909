"""A loopback server, the only network that pages have: it serves mounted hosts and refuses all others.

The server is the browser's proxy: a page requests `http://shop.test/…` and never sees a port. Each browser context sends
its episode's token in a header that no page can read, so one application serves all episodes, each with its own state.
Requests of one episode are answered one at a time.
"""

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any
from urllib.parse import urljoin, urlsplit

from agentgym.browser.process import PerProcess

WSGI = Callable[[dict[str, object], Callable[..., object]], Iterable[bytes]]
HEADER = "X-Agentgym-Episode"
_KEY = "HTTP_X_AGENTGYM_EPISODE"
THREADS = 16
REFUSAL = b"There is no such site."
READY = "ready.test"
"""Host of an empty page that keeps the renderer of an idle browser context warm; any `ready.HOST` serves the same page."""

SITES: dict[str, WSGI] = {}
"""WSGI application by host name."""


def mount(host: str, app: WSGI) -> None:
    """Serve a host such as `shop.test` with a WSGI application, in every episode.

    `environ["agentgym.episode"]` is the state that the environment's `start` returned for the episode.
    """
    SITES[host] = app


class _Episode:
    def __init__(self, state: object) -> None:
        self.state, self.lock = state, threading.Lock()


class Server:
    """An HTTP server on a loopback port, one per process."""

    def __init__(self) -> None:
        from waitress.server import create_server

        self.episodes: dict[str, _Episode] = {}
        self.http: Any = create_server(
            self.answer,
            host="127.0.0.1",
            port=0,
            threads=THREADS,
            connection_limit=4000,
            asyncore_use_poll=True,  # select fails on file descriptors above 1023, which would stop the server
            channel_timeout=10,  # seconds without a request; the browser then reconnects
            cleanup_interval=5,
            max_request_body_size=16 * 2**20,
            ident="",
        )
        self.port = int(self.http.effective_port)
        threading.Thread(target=self.http.run, name="agentgym-sites", daemon=True).start()

    def open(self, token: str, state: object) -> None:
        """Register an episode's state; requests with this token belong to the episode from now on."""
        self.episodes[token] = _Episode(state)

    def close(self, token: str) -> None:
        """Forget an episode and refuse its further requests; wait for a request in progress."""
        episode = self.episodes.pop(token, None)
        if episode:
            with episode.lock:
                episode.state = None

    def locked(self, token: str) -> threading.Lock:
        """Return the lock that serializes an episode's requests."""
        return self.episodes[token].lock

    def answer(self, environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
        """Answer one request with the site's response or a refusal."""
        episode = self.episodes.get(environ.pop(_KEY, ""))
        host = environ.get("HTTP_HOST", "").lower().removesuffix(":80")
        app = SITES.get(host)
        if host.startswith("ready.") and environ["REQUEST_METHOD"] == "GET":
            start_response("200 OK", [("Content-Type", "text/html"), ("Content-Length", "15")])
            return [b"<!doctype html>"]
        if environ.get("PATH_INFO") == "/favicon.ico":  # the browser asks at arbitrary times, so no site sees it
            start_response("404 Not Found", [("Content-Length", "0")])
            return [b""]
        if episode is None or app is None or environ["REQUEST_METHOD"] == "CONNECT":
            start_response("403 Forbidden", [("Content-Type", "text/plain"), ("Content-Length", str(len(REFUSAL)))])
            return [REFUSAL]
        environ |= {"SERVER_NAME": host, "SERVER_PORT": "80", "REMOTE_ADDR": "127.0.0.1", "REMOTE_PORT": "1"}
        with episode.lock:
            if episode.state is None:
                start_response("410 Gone", [("Content-Length", "0")])
                return [b""]
            environ["agentgym.episode"] = episode.state
            body = app(environ, start_response)
            try:
                return [b"".join(body)]
            finally:
                if (close := getattr(body, "close", None)) is not None:
                    close()


def address(path: str, page: str, hosts: Collection[str]) -> str | None:
    """Return the URL that a path or an address refers to on `page`; None if it is no http URL of a host in `hosts`."""
    try:
        url = urljoin(page, path.strip())
        parts = urlsplit(url)
    except ValueError:  # brackets or characters invalid in a host name
        return None
    return url if parts.scheme == "http" and parts.netloc.lower() in hosts else None


server = PerProcess(Server)
"""Returns this process's site server."""
