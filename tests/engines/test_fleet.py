"""A fleet over local servers that speak vLLM's protocol over HTTP and compute: routing, loss, return, weights."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import conformance
import pytest
import torch
from fleet_servers import PROMPT, ask, expected, generated, over, running, tokens, until

from agentgym.engines import Completion, shards
from agentgym.engines.fleet.routes import Member, Routes
from agentgym.engines.vllm_servers.fleet import VLLMFleet
from agentgym.errors import BadConfig

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")

pytestmark = pytest.mark.usefixtures("quick_fleet")


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2])
def test_conformance(number: int, folders: tuple[Path, Path]) -> None:
    with running(folders[0], number) as servers:

        async def play() -> None:
            made = over(servers)
            under_test = conformance.EngineUnderTest(made, reference=_library(folders[0]), other=folders[1])
            for check in conformance.CHECKS:
                if check is not conformance.check_score:  # at temperature 0.7, which vLLM does not offer
                    await check(under_test)
            with pytest.raises(BadConfig, match="temperature 1 only"):
                await made.score(PROMPT, 0.7)
            want = conformance.reference_logprobs(_library(folders[1]), PROMPT[:1], PROMPT[1:], 1.0)
            assert await made.score(PROMPT) == pytest.approx(want, abs=1e-4)
            made.close()

        asyncio.run(play())


def _library(folder: Path) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_an_episode_stays_where_it_began_and_both_servers_work(folders: tuple[Path, Path]) -> None:
    with running(folders[0]) as servers:

        async def play() -> dict[str, Any]:
            made = over(servers)
            got = await asyncio.gather(*(ask(made, number, 4) for number in range(8)))
            assert tokens(got) == expected_ids
            measured = made.measured()
            assert made.measured() == {"servers": 2, "servers_lost": 0, "servers_back": 0, "requests_moved": 0}
            made.close()
            return measured

        expected_ids = expected(folders[0], 8, 4)
        measured = asyncio.run(play())
    homes: dict[int, set[int]] = {}
    for place, server in enumerate(servers):
        for prompt in server.sessions:
            if prompt[: len(PROMPT)] == tuple(PROMPT):
                homes.setdefault(prompt[len(PROMPT)], set()).add(place)
    assert sorted(map(len, homes.values())) == [1] * 8
    assert [sum(place in home for home in homes.values()) for place in (0, 1)] == [4, 4]
    # by hand: prompts are 53, 61, 69 and 77 tokens; each turn but the first finds all before its three new ones (10, n, m)
    # again, and each episode but the two first of their servers finds the 52 that are everybody's
    cached, prompted = measured["prefix_hits"]
    assert prompted == 8 * (53 + 61 + 69 + 77) and cached >= 8 * (58 + 66 + 74)
    assert cached <= 8 * (52 + 58 + 66 + 74)


def test_routes_by_hand() -> None:
    a, b = (Member(None) for _ in range(2))  # type: ignore[arg-type]
    routes = Routes(sessions=3)
    assert [routes.member(name, [a, b]) for name in "wxw"] == [a, b, a]
    assert routes.member("w", [b]) is b and routes.member("w", [a, b]) is b, "it came back to where its prefix is not"
    routes.move("w", [a, b])
    assert routes.member("w", [a, b]) is a
    for name in "yz":
        routes.member(name, [a, b])
    assert list(routes._homes) == ["w", "y", "z"], "the oldest, x, is forgotten"
    routes.move("y", [a])
    assert routes.member("y", [a]) is a


@pytest.mark.parametrize("seeded", [True, False])
def test_requests_have_seeds_unless_none_are_wanted(seeded: bool, folders: tuple[Path, Path]) -> None:
    """With a seed for each row vLLM's sampler loops over them in Python."""
    with running(folders[0], 1) as servers:

        async def play() -> None:
            made = over(servers, seeded=seeded)
            await ask(made, 0, turns=2)
            made.close()

        asyncio.run(play())
        sampled = [
            seed for prompt, seed in zip(servers[0].sessions, servers[0].seeds, strict=True) if prompt[:2] == (256, 40)
        ]
    assert sampled == ([0, 1] if seeded else [None, None])


@pytest.mark.long
@pytest.mark.parametrize("loss", ["killed", "hangs", "restarted", "another version"])
def test_a_lost_server_loses_no_episode(loss: str, folders: tuple[Path, Path]) -> None:
    """In the middle of the turns of twelve episodes; all go on from their exact tokens, as if nothing had been."""
    with running(folders[0]) as servers:
        first, second = servers

        async def play() -> tuple[list[list[Completion]], VLLMFleet]:
            made = over(servers, patience=0.5 if loss == "hangs" else 20.0)
            await made.load_weights(folders[1], 3)
            first.slow = second.slow = 0.05
            playing = asyncio.gather(*(ask(made, number, 6) for number in range(12)))
            await until(lambda: generated(first) > 12)
            if loss == "another version":
                first.lies = "somebody/9"
            elif loss == "hangs":
                first.hangs = True
            else:
                await asyncio.to_thread(first.kill)
                if loss == "restarted":
                    await asyncio.to_thread(first.start)
            got = await playing
            if loss == "restarted":
                await until(lambda: len(made.members.serving) == 2)
                assert first.label == second.label == made.members.label
                again = tokens([await ask(made, number, session=f"new {number}") for number in range(4)])
                assert again == [episode[:1] for episode in want[:4]]
            return got, made

        want = expected(folders[1], 12, 6)

        async def whole() -> None:
            got, made = await play()
            assert tokens(got) == want
            assert {done.policy_version for episode in got for done in episode} == {3}
            assert made.met["servers lost"] >= 1 and made.met["requests moved"] >= 1
            made.close()

        asyncio.run(whole())
        first.hangs = False
        if loss in ("killed", "hangs"):
            assert generated(second) >= 12 * 6 - generated(first)


def test_a_slow_server_is_kept(folders: tuple[Path, Path]) -> None:
    """Thirty times slower than the sign of life that is asked of it."""
    with running(folders[0], 1) as servers:
        servers[0].slow = 1.5

        async def play() -> VLLMFleet:
            made = over(servers, patience=1.0)
            await ask(made, 0)
            made.close()
            return made

        assert asyncio.run(play()).met == {} and servers[0].requests["/weight_info"] > 5


@pytest.mark.long
@pytest.mark.parametrize("path", ["/pause", "/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"])
@pytest.mark.parametrize("how", ["dies", "breaks"])
def test_a_server_that_fails_in_an_update_gets_it_before_it_serves(path: str, how: str, folders: tuple[Path, Path]) -> None:
    """It dies, or says 500, at each step of an update; the others go on with the new weights, and it follows."""
    with running(folders[0]) as servers:
        first, second = servers

        async def play() -> None:
            made = over(servers)
            await made.load_weights(folders[0], 1)
            setattr(first, f"{how}_at", path)
            await made.load_weights(folders[1], 2)
            assert [member.backend.url for member in made.members.serving] == [second.url]
            got = [await ask(made, number) for number in range(4)]
            assert tokens(got) == want and {done.policy_version for (done,) in got} == {2}
            request_count = generated(first)
            if how == "dies":
                await asyncio.to_thread(first.kill)
                await asyncio.to_thread(first.start)
            else:
                assert first.label != made.members.label, "half of an update under the whole one's label"
                first.breaks_at = ""
            await until(lambda: len(made.members.serving) == 2)
            assert generated(first) == request_count + (how == "breaks") or how == "dies"  # nothing but the known text
            made.members.leave_out(made.members.all[1], 0, "so that the first has to answer")
            assert tokens([await ask(made, number, session=f"new {number}") for number in range(4)]) == want
            made.close()

        want = expected(folders[1], 4)
        asyncio.run(play())


def test_one_that_returns_while_a_step_runs_serves_its_version_and_only_that(folders: tuple[Path, Path]) -> None:
    """It returns after two updates that it never saw; at no moment does it answer from other weights."""
    with running(folders[0]) as servers:
        first, second = servers

        async def play() -> None:
            made = over(servers)
            await made.load_weights(folders[0], 1)
            await asyncio.to_thread(first.kill)
            got = [await ask(made, number) for number in range(4)]
            assert {done.policy_version for (done,) in got} == {1}
            await made.load_weights(folders[0], 2)
            await made.load_weights(folders[1], 3)
            second.holds_after = generated(second) + 8
            playing = asyncio.gather(*(ask(made, number, 5) for number in range(4)))
            await until(lambda: generated(second) > second.holds_after)
            await asyncio.to_thread(first.start)
            await until(lambda: len(made.members.serving) == 2)
            second.holds_after = float("inf")
            assert not playing.done() and first.label == made.members.label
            before = generated(first)
            fresh = await asyncio.gather(*(ask(made, number, session=f"new {number}") for number in range(6)))
            assert generated(first) > before, "nothing new begins there"
            assert tokens(fresh) == [episode[:1] for episode in want] and tokens(await playing) == want[:4]
            assert {done.policy_version for episode in fresh for done in episode} == {3}
            made.close()

        want = expected(folders[1], 6, 5)
        asyncio.run(play())


def test_weights_are_kept_as_files_until_the_next_and_removed_at_the_end(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with running(folders[0], 1) as servers:

        async def play() -> None:
            made = over(servers, folder=str(tmp_path))
            tensors = list(_library(folders[1]).named_parameters())
            for version in (1, 2):
                await made.load_weights(tensors, version)
                (weights_folder,) = tmp_path.iterdir()
                assert [file.name for file in weights_folder.iterdir()] == ["0.safetensors"]
            assert tokens([await ask(made, 0)]) == want
            lying = shards.Named(tensors)
            lying._tensors = tensors[:-1]
            metas = shards.Named(tensors).metadata()
            lying.metadata = lambda: metas  # type: ignore[method-assign]
            with pytest.raises(ValueError, match="a source must yield what its metadata says"):
                await made.load_weights(lying, 3)
            assert made.policy_version == 2 and tokens([await ask(made, 0, session="x")]) == want, (
                "the servers have them yet"
            )
            made.close()
            assert not list(tmp_path.iterdir())

        want = expected(folders[1], 1)
        asyncio.run(play())


def test_an_engine_serves_in_one_event_loop_after_another(folders: tuple[Path, Path]) -> None:
    """As an evaluation over several environments does; a server that is lost in one loop is found again in the next."""
    with running(folders[0]) as servers:
        made = over(servers)
        asyncio.run(ask(made, 0))
        servers[0].kill()

        async def burst() -> None:
            await asyncio.gather(*(ask(made, number, session=f"{number}") for number in range(1, 5)))

        asyncio.run(burst())
        assert len(made.members.serving) == 1
        servers[0].start()

        async def later() -> None:
            await ask(made, 5)
            await until(lambda: len(made.members.serving) == 2)

        asyncio.run(later())
        made.close()
        assert Counter(made.met)["servers back"] == 1
