"""One attempt of a harness: when it is killed."""

from types import SimpleNamespace
from typing import Any

from agentgym.harness.description import Harness
from agentgym.harness.gateway_agent import Access
from agentgym.harness.lent import Run
from agentgym.sandbox.env import ExternalAccess


class Stream:
    """A program that runs until it is killed."""

    def __init__(self, *_: object, **__: object) -> None:
        self.running = True

    def write(self, content: bytes) -> None:
        pass

    def end_input(self) -> None:
        pass

    def close(self) -> None:
        self.running = False


def test_a_harness_is_killed_though_its_time_ends_before_it_starts() -> None:
    run: Any = Run(Harness("own", ("play",)), Access("http://127.0.0.1:1/v1", "key", "policy"), "", 60.0, 64, 4096)
    sandbox = SimpleNamespace(variables={}, stream=Stream)
    for kills in ((), (run._kill,), ()):  # the last two are killed: an environment may lend its sandbox again
        for kill in kills:
            kill()
        run._start(sandbox, ExternalAccess(sandbox, "", "/work"), "http://127.0.0.1:2")  # type: ignore[arg-type]
        assert run._stream.running == (not run._killed)
    run._stream.running = True
    run._kill()
    assert not run._stream.running
