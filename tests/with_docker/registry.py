"""A registry of images on this machine's loopback: the part of the distribution protocol by which a daemon pulls."""

import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Registry:
    """`add` images, pull them as `HOST/NAME:TAG`; `asked` lists the paths that were asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._found: dict[str, tuple[str, bytes]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.paths.append(self.path)
                unknown = {"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}
                kind, content = registry._found.get(self.path, ("", json.dumps(unknown).encode()))
                self.send_response(200 if kind or self.path == "/v2/" else 404)
                self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
                self.send_header("Content-Type", kind or "application/json")
                self.send_header("Content-Length", str(len(content)))
                if kind == MANIFEST:
                    self.send_header("Docker-Content-Digest", digest(content))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, name: str, layers: list[bytes], config: dict[str, Any] | None = None) -> str:
        """Offer an image of some layers (tar archives), and return its whole name."""
        whole = {"architecture": "amd64", "os": "linux", "config": config or {}}
        body = json.dumps({**whole, "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]}}).encode()
        kinds = [("application/vnd.docker.container.image.v1+json", body)]
        kinds += [("application/vnd.docker.image.rootfs.diff.tar", layer) for layer in layers]
        listed = [{"mediaType": kind, "size": len(blob), "digest": digest(blob)} for kind, blob in kinds]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": listed[0], "layers": listed[1:]}
        stem, _, tag = name.partition(":")
        self._found |= {f"/v2/{stem}/blobs/{digest(blob)}": (kind, blob) for kind, blob in kinds}
        content = json.dumps(manifest).encode()
        for reference in (tag or "latest", digest(content)):
            self._found[f"/v2/{stem}/manifests/{reference}"] = (MANIFEST, content)
        return f"{self.host}/{name}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def layer(**files: bytes) -> bytes:
    """Return a layer that holds some files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def layers_of(saved: bytes) -> tuple[list[bytes], dict[str, Any]]:
    """Return the layers and the config of an image that a daemon saved."""
    with tarfile.open(fileobj=io.BytesIO(saved)) as archive:

        def content(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        (manifest,) = json.loads(content("manifest.json"))
        return [content(name) for name in manifest["Layers"]], json.loads(content(manifest["Config"]))["config"]
