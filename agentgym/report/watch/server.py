"""Server of the live page for one user; the page polls for updates every few seconds.

Only this machine has access, or clients with the token. Addresses never contain file paths: runs and groups are numbers.
A request whose Host header does not name this machine is refused, so that no other page can reach the server under its
own name (DNS rebinding). Displayed content is escaped as in `agentgym.report.html`.
"""

import hmac
import http.cookies
import io
import json
import secrets
import socket
import threading
from collections.abc import Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from agentgym.errors import BadConfig, BadData
from agentgym.report.html import page
from agentgym.report.run_folder import finite
from agentgym.report.watch.patience import Places, TimedReader
from agentgym.report.watch.run import ClientState, FollowedRun
from agentgym.serving.server import loopback, named_here

SCRIPTS = ("nodes.js", "charts.js", "curves.js", "tables.js", "group.js", "episode.js", "watch.js")
PATIENCE = 60.0
"""Seconds without a request before a connection is closed; the page polls more often."""
REQUEST_SECONDS = 10.0
"""Seconds within which a whole request must arrive; the first one counts from the start of the connection."""
MOST_CONNECTIONS = 64
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Refused(Exception):
    """A request was refused with this HTTP status."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


class Watch:
    """The runs shown on one page; their files are read only when a client asks, by one thread at a time."""

    def __init__(self, runs: Sequence[FollowedRun]) -> None:
        self.runs = list(runs)
        names = [run.name for run in self.runs]
        for run in self.runs:
            if names.count(run.name) > 1:  # full paths are unique
                run.name = str(run.path)
        self._one = threading.Lock()

    def state(self, known: str = "") -> dict[str, Any]:
        """Read new data and return the states of all runs, without the parts that the client has.

        `known` is a comma-separated list with one entry per run, which describes these parts; empty for none. `behind` is
        True in the result if data are still unread.
        """
        with self._one:
            words = known.split(",") if known else []
            states: list[dict[str, Any]] = []
            for place, run in enumerate(self.runs):
                run.look()
                states.append(run.state(_known(words[place]) if place < len(words) else None))
            return {"runs": states, "behind": any(run.behind for run in self.runs)}

    def group(self, run: int, group: int) -> dict[str, Any]:
        """Return the episodes of a group.

        Raises:
            Refused: there is no such group, or it was removed.
        """
        with self._one:
            if run >= len(self.runs) or group >= len(self.runs[run].episodes.places):
                raise Refused(HTTPStatus.NOT_FOUND, "there is no such group")
            self.runs[run].look()  # the file may have been truncated just now
            try:
                return self.runs[run].group(group)
            except BadData as error:
                raise Refused(HTTPStatus.CONFLICT, str(error)) from error


class PageServer(ThreadingHTTPServer):
    """HTTP server of one page."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, watch: Watch, host: str, port: int, token: str | None) -> None:
        self.watch, self.token = watch, token
        self.local = loopback(host)
        if token is None and not self.local:
            raise BadConfig(f"host {host} lets other machines in: expected a token")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.places = Places(MOST_CONNECTIONS)
        title = " · ".join(run.name for run in watch.runs)
        self.page = page(
            title, {"titles": [run.name for run in watch.runs]}, body="watch.html", scripts=SCRIPTS, served=True
        )
        super().__init__((host, port), _Handler)
        bracketed = f"[{host}]" if ":" in host else host
        self.port = int(self.server_address[1])
        self.address = f"http://{bracketed}:{self.port}/" + (f"?token={token}" if token else "")

    def server_bind(self) -> None:
        """Bind without a reverse DNS lookup of this machine's name."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread if a slot is free; otherwise close it."""
        if self.places.take(REQUEST_SECONDS):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it ends, then release its slot."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.give()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: a browser may disconnect at any time."""


class _Handler(BaseHTTPRequestHandler):
    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    def setup(self) -> None:
        """Prepare a connection: its requests are read with a deadline."""
        super().setup()
        self._reader, self._first = TimedReader(self.connection, REQUEST_SECONDS), True
        self.rfile.close()
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Wait for a request and respond to it."""
        self._reader.expect(REQUEST_SECONDS if self._first else PATIENCE)
        self._first = False
        self.server.places.idle(self.connection)
        try:
            super().handle_one_request()
        finally:
            self.server.places.busy(self.connection)

    def do_GET(self) -> None:
        """Respond with the page, the state of the runs, or a group.

        Raises:
            Refused: the address is unknown.
        """
        self.server.places.busy(self.connection)
        self.connection.settimeout(PATIENCE)  # for the client to read the response
        address = urlsplit(self.path)
        try:
            query = {name: values[-1] for name, values in parse_qs(address.query, max_num_fields=16).items()}
            self._check_host()
            if address.path == "/" and self.server.token and "token" in query:
                self._let_in(query["token"])
                return
            self._check_token()
            if address.path == "/":
                self._send(HTTPStatus.OK, self.server.page.encode(), "text/html; charset=utf-8")
            elif address.path == "/state":
                self._json(self.server.watch.state(query.get("known", "")))
            elif address.path == "/group":
                self._json(self.server.watch.group(_number(query.get("run")), _number(query.get("group"))))
            else:
                raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here: the page is at /")
        except Refused as refused:
            self._send(refused.status, f"{refused}\n".encode(), "text/plain; charset=utf-8")
        except ValueError:
            self._send(HTTPStatus.BAD_REQUEST, b"the address cannot be read\n", "text/plain; charset=utf-8")

    def _check_host(self) -> None:
        if self.server.local and not named_here({"host": self.headers.get("Host", "")}):
            raise Refused(HTTPStatus.FORBIDDEN, "this server is reached as localhost or 127.0.0.1 only")

    def _check_token(self) -> None:
        if self.server.token is None:
            return
        kind, _, token = self.headers.get("Authorization", "").partition(" ")
        if kind.lower() != "bearer":
            token = self._from_cookie()
        self._compare(token)

    def _from_cookie(self) -> str:
        """Return the token from the cookie header, even if other cookies in it are malformed."""
        for part in self.headers.get("Cookie", "").split(";"):
            if part.strip().startswith(f"{self._cookie}="):
                morsel = http.cookies.SimpleCookie(part.strip()).get(self._cookie)
                return morsel.value if morsel else ""
        return ""

    def _compare(self, query: str) -> None:
        if not hmac.compare_digest(query.strip().encode(), (self.server.token or "").encode()):
            raise Refused(
                HTTPStatus.UNAUTHORIZED, "the token is missing or wrong: open the address that `agentgym watch` printed"
            )

    def _let_in(self, token: str) -> None:
        """Check the token, store it as a cookie, and redirect to the address without it."""
        self._compare(token)
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", "/")
        cookie: http.cookies.SimpleCookie = http.cookies.SimpleCookie(
            {self._cookie: token.strip()}
        )  # quotes special characters
        self.send_header("Set-Cookie", f"{cookie.output(header='').strip()}; HttpOnly; SameSite=Strict; Path=/")
        self._headers(0)

    @property
    def _cookie(self) -> str:
        return f"agentgym-watch-{self.server.port}"  # cookies are shared by all servers on a host

    def _json(self, content: dict[str, Any]) -> None:
        text = json.dumps(finite(content), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        self._send(HTTPStatus.OK, text.encode(), "application/json")

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self._headers(len(content))
        self.wfile.write(content)

    def _headers(self, length: int) -> None:
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")  # the page itself sets the rest
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Respond with an error without repeating any contents of the request."""
        self.close_connection = True
        self._send(HTTPStatus(code), b"only GET is understood here\n", "text/plain; charset=utf-8")

    def version_string(self) -> str:
        """Return an empty version, to reveal nothing about the server."""
        return "agentgym"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because polling is frequent and an address may contain the token."""


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(18)


def _number(text: str | None) -> int:
    if text is None or not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Refused(HTTPStatus.BAD_REQUEST, "expected a number for run and group")
    return int(text)


def _known(word: str) -> ClientState | None:
    parts = word.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        return None
    return ClientState(*map(int, parts))
