"""WSGI application that serves the pages of the package `miniwob`."""

import importlib.util
import mimetypes
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from agentgym.errors import MissingExtra, how_to_install

if TYPE_CHECKING:
    from wsgiref.types import WSGIEnvironment

HOST = "miniwob.test"


@cache
def folder() -> Path:
    """Return the folder with the pages of the installed package `miniwob`.

    Raises:
        MissingExtra: the package is not installed.
    """
    spec = importlib.util.find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise MissingExtra(f"rlvr/MiniWoB-v0 needs the pages of the `miniwob` package: {how_to_install('web')}")
    return (Path(spec.origin).parent / "html").resolve()


def url(name: str) -> str:
    """Return the URL of a task's page."""
    path = name.replace(".", "/") + "/wrapper.html" if name.startswith("flight.") else f"miniwob/{name}.html"
    return f"http://{HOST}/{path}"


@cache
def _read(path: str) -> tuple[bytes, str] | None:
    file = (folder() / path).resolve()
    if not file.is_relative_to(folder()) or not file.is_file():
        return None
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return file.read_bytes(), kind + ("; charset=utf-8" if kind.startswith("text/") else "")


def site(environ: "WSGIEnvironment", start_response: Callable[..., object]) -> Iterable[bytes]:
    """Serve a file of the package `miniwob`, or 404 for other paths and methods."""
    file = _read(unquote(environ.get("PATH_INFO", "")).lstrip("/")) if environ["REQUEST_METHOD"] == "GET" else None
    if file is None:
        start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "9")])
        return [b"not found"]
    content, kind = file
    start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(content)))])
    return [content]
