"""The proxy that lets requests to some hosts through."""

import asyncio

import pytest

from agentgym.sandbox.inside.proxy import allowed, forwarded_headers, serve, target

HOSTS = ["index.test", "*.example.com", "10.1.0.0/16", "192.0.2.7", "2001:db8::/32"]


@pytest.mark.parametrize(
    ("host", "may"),
    [
        ("index.test", True), ("Index.Test.", True), ("files.index.test", False),
        ("xindex.test", False), ("index.test.evil.test", False),
        ("a.example.com", True), ("a.b.example.com", True), ("example.com", False), ("badexample.com", False),
        ("10.1.2.3", True), ("10.2.0.1", False), ("192.0.2.7", True), ("192.0.2.8", False), ("[2001:db8::1]", True),
        ("2001:db9::1", False), ("", False), ("*", False), ("*.example.com", True), ("127.0.0.1", False),
        ("localhost", False),
    ],
)  # fmt: skip
def test_hosts(host, may):
    assert allowed(host, HOSTS) is may


def test_first_lines():
    assert target(b"CONNECT index.test:443 HTTP/1.1") == ("index.test", 443, b"")
    lines = b"GET /x?y=1 HTTP/1.1\r\nHost: a.test:81\r\n"
    assert target(b"GET http://u:p@a.test:81/x?y=1 HTTP/1.1") == ("a.test", 81, lines)
    for wrong in (b"GET /x HTTP/1.1", b"GET https://a.test/ HTTP/1.1", b"CONNECT a.test HTTP/1.1", b"", b"\xff a b"):
        with pytest.raises(ValueError):
            target(wrong)


def test_the_client_names_no_other_host_than_the_url():
    """A server of several hosts would serve a refused one."""
    sent = b"Host: refused.test\r\nhost : refused.test\r\nHOST:refused.test\r\nProxy-Connection: x\r\nA: b\r\n\r\n"
    assert forwarded_headers(sent) == [b"A: b"]
    for doubtful in (b"A: b\nHost: refused.test\r\n\r\n", b"A: b\rHost: refused.test\r\n\r\n"):
        with pytest.raises(ValueError):
            forwarded_headers(doubtful)


def test_requests_go_through_or_are_refused():
    async def upstream(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + head)
        writer.close()

    async def exchange(port, text):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    async def run():
        there = await asyncio.start_server(upstream, "127.0.0.1", 0)
        proxy = await asyncio.start_server(lambda r, w: serve(r, w, ["127.0.0.1"]), "127.0.0.1", 0)
        port, outside = (server.sockets[0].getsockname()[1] for server in (proxy, there))
        get = f"GET http://127.0.0.1:{outside}/x HTTP/1.1\r\nProxy-Authorization: secret\r\nConnection: keep-alive\r\n\r\n"
        plain = await exchange(port, get.encode())
        tunnel = await exchange(port, f"CONNECT 127.0.0.1:{outside} HTTP/1.1\r\n\r\nGET /y HTTP/1.1\r\n\r\n".encode())
        refused = await exchange(port, f"CONNECT localhost:{outside} HTTP/1.1\r\n\r\n".encode())
        broken = await exchange(port, b"nonsense\r\n\r\n")
        there.close(), proxy.close()
        return plain, tunnel, refused, broken

    plain, tunnel, refused, broken = asyncio.run(run())
    assert b"200 OK" in plain and b"GET /x HTTP/1.1" in plain and b"secret" not in plain and b"Connection: close" in plain
    assert tunnel.startswith(b"HTTP/1.1 200 Connection established") and b"GET /y" in tunnel
    assert refused.startswith(b"HTTP/1.1 403") and broken.startswith(b"HTTP/1.1 502")
