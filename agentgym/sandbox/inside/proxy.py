"""An HTTP proxy restricted to allowed hosts: `proxy.py PORT HOST…`. Standard library only, from Python 3.8 on.

A host is a name, `*.name` for all its subdomains, an address, a range of addresses (CIDR), or `*` for all. `CONNECT`
opens a tunnel; other methods need an absolute URL. A request to an address needs that address in the list, even if the list
has a name that resolves to it.
"""

import asyncio
import ipaddress
import sys
from typing import List, Tuple  # noqa: UP035  read by Python 3.8
from urllib.parse import urlsplit

MOST = 65536
SECONDS = 30.0
OURS = (b"connection", b"host")
"""Names of headers that the proxy sets itself and does not forward."""


def allowed(host: str, hosts: List[str]) -> bool:  # noqa: UP006
    """Return True if a host is allowed by the list."""
    host = host.strip("[]").rstrip(".").lower()
    if "*" in hosts:
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return any(host == entry or (entry.startswith("*.") and host.endswith(entry[1:])) for entry in hosts)
    for entry in hosts:
        try:
            if address in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:  # a name
            continue
    return False


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until either side closes."""
    try:
        while True:
            piece = await reader.read(MOST)
            if not piece:
                break
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        try:
            writer.write_eof()
        except (OSError, RuntimeError, AttributeError):
            writer.close()


def target(line: bytes) -> Tuple[str, int, bytes]:  # noqa: UP006
    """Parse a request's first line; return the host, the port and the first lines to send to the server.

    These lines set the `Host` header from the URL, which is checked, since the client's header may name another host.
    They are empty for `CONNECT`.

    Raises:
        ValueError: the URL is not plain HTTP.
    """
    method, where, version = line.decode("ascii").split()
    if method == "CONNECT":
        host, _, port = where.rpartition(":")
        return host, int(port), b""
    parts = urlsplit(where)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(where)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = f"{method} {path} {version}\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
    return parts.hostname, parts.port or 80, lines.encode("ascii")


def forwarded_headers(head: bytes) -> List[bytes]:  # noqa: UP006
    """Return the lines of the headers to forward: all except those in `OURS` and `Proxy-…`.

    Raises:
        ValueError: a header contains a bare CR or LF.
    """
    lines = [line for line in head.split(b"\r\n") if line]
    if any(b"\n" in line or b"\r" in line for line in lines):
        raise ValueError("half a line end")
    names = [(line.partition(b":")[0].strip().lower(), line) for line in lines]
    return [line for name, line in names if name not in OURS and not name.startswith(b"proxy-")]


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hosts: List[str]) -> None:  # noqa: UP006
    """Serve one client connection."""
    try:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS)
        first, _, rest = head.partition(b"\r\n")
        host, port, line = target(first)
        if not allowed(host, hosts):
            writer.write(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\nthis task may not reach that host\n")
            return
        if line:  # one request per connection, since the next may be for another host
            line += b"\r\n".join([*forwarded_headers(rest), b"Connection: close", b"", b""])
        there, out = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), port), SECONDS)
        if line:
            out.write(line)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copied(reader, out), copied(there, writer))
        out.close()
    except (TimeoutError, ValueError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n")
    finally:
        writer.close()


async def main() -> None:
    """Serve on the port that the command line names."""
    port, hosts = int(sys.argv[1]), [host.lower().rstrip(".") for host in sys.argv[2:]]
    server = await asyncio.start_server(lambda reader, writer: serve(reader, writer, hosts), port=port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
