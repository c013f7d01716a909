#!/bin/sh
# uvicorn: connections that never send a request are never ended, and at limit_concurrency they give everybody a 503.
set -eu
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
python3 -m venv "$FOLDER/venv"
"$FOLDER/venv/bin/pip" -q install uvicorn==0.54.0 h11==0.16.0
cat > "$FOLDER/show.py" <<'PYTHON'
import asyncio
import socket
import sys

import uvicorn

MOST, KEEP_ALIVE = 16, 1


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body"})


async def status(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def main():
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    options = {"lifespan": "off", "log_level": "critical", "http": "h11"}
    server = uvicorn.Server(uvicorn.Config(app, limit_concurrency=MOST, timeout_keep_alive=KEEP_ALIVE, **options))
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    while not server.started:
        await asyncio.sleep(0.01)
    before = await status(port)
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MOST)]
    await asyncio.sleep(5 * KEEP_ALIVE)
    open_ones = len(server.server_state.connections)
    after = await status(port)
    print(f"uvicorn {uvicorn.__version__}, limit_concurrency={MOST}, timeout_keep_alive={KEEP_ALIVE} s")
    print("expected: the connections that sent nothing end, and a request gets 200")
    print(f"seen: {open_ones} of {MOST} silent connections are open after {5 * KEEP_ALIVE} s; a request got {before} before, {after} after")
    for _, writer in silent:
        writer.close()
    server.should_exit = True
    await serving
    return (before, open_ones, after) == (200, MOST, 503)


sys.exit(0 if asyncio.run(main()) else 1)
PYTHON
"$FOLDER/venv/bin/python" "$FOLDER/show.py"
