"""Request bodies: how much and how slow they may be."""

import asyncio

import pytest

from agentgym.serving.asgi import Refusal, read_body


def test_the_refusal_of_a_slow_body_has_the_time_that_it_had():
    pieces = [{"type": "http.request", "body": bytes(1 << 18), "more_body": True}]

    async def receive():
        return pieces.pop() if pieces else await asyncio.Event().wait()

    with pytest.raises(Refusal, match=r"did not arrive within 0\.25 seconds") as refused:
        asyncio.run(read_body(receive, 1 << 20, 0.0, Refusal))
    assert refused.value.status == 408
