"""What a fleet says and does when something is wrong: errors, other models, keys, requests that fail everywhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import tiny
from fleet_servers import ask, expected, over, running, tokens, until

from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm_servers.fleet import VLLMFleet
from agentgym.errors import BadConfig, EngineDead, Fault

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

pytestmark = pytest.mark.usefixtures("quick_fleet")


def test_with_none_left_requests_wait_and_then_one_error_says_why(folders: tuple[Path, Path]) -> None:
    with running(folders[0]) as servers:
        first, second = servers

        async def play() -> None:
            made = over(servers, wait=2.0)
            await made.load_weights(folders[1], 1)
            for server in servers:
                await asyncio.to_thread(server.kill)
            waiting = asyncio.gather(*(ask(made, number) for number in range(3)))
            await until(lambda: not made.members.serving)
            await asyncio.to_thread(second.start)
            assert tokens(await waiting) == expected_ids
            await asyncio.to_thread(second.kill)
            with pytest.raises(
                EngineDead, match=f"none came back in 2 seconds. {first.url}: no connection .*{second.url}: no"
            ):
                await ask(made, 9)
            with pytest.raises(EngineDead, match="no server is left"):
                await made.load_weights(folders[0], 2)
            made.close()

        expected_ids = expected(folders[1], 3)
        asyncio.run(play())
        with pytest.raises(EngineDead, match=f"no server answers: {first.url}: no connection"):
            over(servers)


def test_errors_that_teach(folders: tuple[Path, Path], tmp_path: Path) -> None:
    larger = tiny.folder(tmp_path / "larger", hidden_size=96)

    async def load(made: VLLMFleet) -> None:
        try:
            await made.load_weights(folders[1], 1)
        finally:
            made.close()

    with (
        running(folders[0], rl=False) as servers,
        pytest.raises(BadConfig, match=r"no endpoints for weights: start it with VLLM"),
    ):
        asyncio.run(load(over(servers)))
    with running(folders[0], exact=False) as servers, pytest.raises(BadConfig, match=r"exact tokens: .*--enable-scale-out"):
        asyncio.run(ask(over(servers), 0))
    with running(folders[0], 1) as one, running(larger, 1) as other:
        with pytest.raises(
            BadConfig, match=r"serve different weights: labels 'default' and 'default', a difference of \d\.\d\d per token"
        ):
            asyncio.run(ask(over([*one, *other]), 0))
        with pytest.raises(BadConfig, match=f"weights cannot be sent to {other[0].url}: .*500"):
            asyncio.run(load(over([*one, *other])))
    with running(folders[0], 1) as one, running(folders[0], 1) as other:
        other[0].label = "somebody/4"
        with pytest.raises(BadConfig, match=r"labels 'default' and 'somebody/4'"):
            asyncio.run(ask(over([*one, *other]), 0))
    with running(folders[0], 1) as servers:
        with pytest.raises(BadConfig, match=r"a context of 513 .* a server has 512: start it with --max-model-len 513"):
            over(servers, context=513)
        with pytest.raises(BadConfig, match=r"names each server|name each server once"):
            over([*servers, *servers])
        with pytest.raises(BadConfig, match=r"no option of the vllm engine 'patients'. Did you mean 'patience'"):
            over(servers, patients=3)
        with pytest.raises(BadConfig, match="no such environment variable"):
            over(servers, key_env="NOT_SET_ANYWHERE")


def test_a_server_of_another_model_is_told_by_a_known_text(folders: tuple[Path, Path], monkeypatch: Any) -> None:
    """Same shapes and weights, another reading of them, as after a start with other settings."""
    with running(folders[0]) as servers:

        async def play() -> None:
            made = over(servers)
            await made.load_weights(folders[0], 1)
            await asyncio.to_thread(servers[0].kill)
            await ask(made, 0, session="a")
            await ask(made, 1, session="b")
            load = HFEngine.load_weights

            async def other(self: Any, weights: Any, version: int) -> None:
                await load(self, [(name, value * 1.5 if "embed" in name else value) for name, value in weights], version)

            monkeypatch.setattr(HFEngine, "load_weights", other)
            await asyncio.to_thread(servers[0].start)
            await until(lambda: "it serves another model" in made.members.all[0].reason)
            assert len(made.members.serving) == 1
            made.close()

        asyncio.run(play())


def test_a_request_that_fails_everywhere_is_its_own_fault(folders: tuple[Path, Path]) -> None:
    with running(folders[0]) as servers:

        async def play() -> None:
            made = over(servers)
            await ask(made, 0)
            for server in servers:
                server.breaks_at = "/generate"
            with pytest.raises(Fault, match=r"no server answered a request: .*out of luck") as caught:
                await ask(made, 1)
            assert not isinstance(caught.value, EngineDead) and len(made.members.serving) == 2
            for server in servers:
                server.breaks_at = ""
            await ask(made, 2)
            made.close()

        asyncio.run(play())


def test_the_key_is_sent_and_no_error_tells_it(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sesame-7")
    with running(folders[0], 1, key="sesame-7") as servers:
        with pytest.raises(BadConfig, match=r"status 401: .*--engine.key_env NAME"):
            over(servers)
        made = over(servers, key_env="MY_KEY")
        asyncio.run(ask(made, 0))
        servers[0].breaks_at = "/generate"
        with pytest.raises(Fault, match=r"out of luck, \[key\]"):
            asyncio.run(ask(made, 1))
        made.close()
