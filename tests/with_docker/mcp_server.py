"""An MCP server of the standard library alone, for a container that has no packages: `mcp_server.py stdio`, or
`mcp_server.py http|sse PORT`.

Tools: `secret` returns what is in /srv/secret, `add` adds two numbers, `bash` has a name that the environment has itself,
`slow` sleeps, `fail` fails, `die` ends the server.
"""

import json
import os
import queue
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NUMBER = {"type": "integer"}
TOOLS = [
    {"name": "add", "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}},
    *(
        {"name": name, "inputSchema": {"type": "object", "properties": {}}}
        for name in ("secret", "bash", "slow", "fail", "die")
    ),
]


def call(name, arguments):
    if name == "die":
        os._exit(3)
    if name == "slow":
        time.sleep(60)
    if name == "add":
        return str(arguments["a"] + arguments["b"])
    return f"{name} {os.getuid()} {Path('/srv/secret').read_text()}"


def answer(message):
    """Return the answer to a message, or None."""
    method, result = message.get("method"), {}
    if "id" not in message:
        return None
    if method == "initialize":
        version = message["params"]["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        name = message["params"]["name"]
        text = call(name, message["params"].get("arguments") or {})
        result = {"content": [{"type": "text", "text": text}], "isError": name == "fail"}
    elif method != "ping":
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": f"no {method}"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Http(BaseHTTPRequestHandler):
    """Streamable HTTP, each answer a JSON document."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        reply = answer(json.loads(body))
        content = b"" if reply is None else json.dumps(reply).encode()
        self.send_response(202 if reply is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


STREAMS = {}


class Sse(Http):
    """HTTP with server-sent events: answers come as events of a stream that stays open, which names where to post."""

    def do_GET(self):
        if self.path != "/sse":
            return self.send_error(404)
        name = f"/messages/{len(STREAMS)}"
        events = STREAMS[name] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"event: endpoint\ndata: {name}\n\n".encode())
        while True:
            self.wfile.write(f"event: message\ndata: {events.get()}\n\n".encode())

    def do_POST(self):
        reply = answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if reply is not None:
            STREAMS[self.path].put(json.dumps(reply))


if sys.argv[1] in ("http", "sse"):
    ThreadingHTTPServer(("0.0.0.0", int(sys.argv[2])), Http if sys.argv[1] == "http" else Sse).serve_forever()
print("a line that is no message", flush=True)
for line in sys.stdin:
    reply = answer(json.loads(line))
    if reply is not None:
        print(json.dumps(reply), flush=True)
