"""A server that takes what the Hugging Face client uploads, over git LFS, and writes the files into a folder.

Its answers are those that huggingface_hub 2.4 asks for (`_commit_api.py`, `lfs.py`). Xet, the hub's newer storage, is a
service of its own with a binary protocol: the client is told to leave it (HF_HUB_DISABLE_XET).
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Request = tuple[str, str, str]


class Hub:
    """What arrived: `requests` as (method, path, token), `made` the repositories, and the files under `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, ""
        self.requests: list[Request] = []
        self.made: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}

    def answer(self, path: str, body: bytes) -> object:
        """Return the answer to a request, None where there is no such path."""
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            name = f"{self.made[-1]['organization']}/{self.made[-1]['name']}"
            return {"url": f"{self.url}/datasets/{name}", "name": name}
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}
        if path.endswith("/preupload/main"):
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = {name: "lfs" if name.endswith(".parquet") else "regular" for name in paths}
            return {"files": [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in modes.items()]}
        if path.endswith(".git/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            actions = [{"upload": {"href": f"{self.url}/blobs/{one['oid']}"}} for one in objects]
            return {"transfer": "basic", "objects": [{**o, "actions": a} for o, a in zip(objects, actions, strict=True)]}
        if path.startswith("/blobs/"):
            self.blobs[path.removeprefix("/blobs/")] = body
            return {}
        if path.endswith("/commit/main"):
            for line in body.splitlines():
                self._commit(**json.loads(line))
            return {"success": True, "commitOid": "0" * 40, "commitUrl": f"{self.url}/datasets/me/x/commit/{'0' * 40}"}
        return None

    def _commit(self, key: str, value: dict[str, Any]) -> None:
        if key == "header":
            return
        content = base64.b64decode(value["content"]) if key == "file" else self.blobs[value["oid"]]
        file = self.folder / value["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """Serve on a free port of this machine."""
    recording = Hub(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            path = self.path.partition("?")[0]
            recording.requests.append((self.command, path, self.headers["Authorization"] or ""))
            answer = recording.answer(path, body)
            content = json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_PUT = do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recording.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield recording
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
