"""What every token engine must do; run over the engines of the base install here, over vLLM in tests/with_vllm."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.engines import Completion, Sampling, TokenEngine
from agentgym.errors import BadConfig

PROMPT = [256, 72, 101, 108, 108, 111, 44, 32, 119, 111, 114, 108, 100, 10]
STOP = 258


@dataclass
class EngineUnderTest:
    """An engine, and what is known about it."""

    engine: TokenEngine
    exact: bool = True
    """Whether it computes a model: scripted replies have neither seeds nor log-probabilities of their own."""
    reference: Any = None
    """The same model in the library."""
    other: Path | None = None
    """A folder with other weights of the same shape."""
    tolerance: float = 1e-4


def reference_logprobs(model: Any, prompt: Sequence[int], ids: Sequence[int], temperature: float) -> list[float]:
    """Return what the definition says, by the library's own forward pass over the whole text."""
    import torch

    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].double()
    table = (logits / temperature).log_softmax(-1)
    return [table[i, id].item() for i, id in enumerate(ids)]


async def check_shape(under_test: EngineUnderTest) -> None:
    """One log-probability a token, a known finish, no more than was asked."""
    got = await under_test.engine.generate(PROMPT, Sampling(max_tokens=6, seed=1, stop_ids=(STOP,)), "shape")
    assert isinstance(got, Completion) and len(got.ids) == len(got.logprobs) <= 6
    assert got.finish in ("stop", "length") and all(type(id) is int for id in got.ids)
    assert all(value <= 1e-6 and math.isfinite(value) for value in got.logprobs)
    assert (got.finish == "stop") == (got.ids[-1] == STOP)


async def check_length(under_test: EngineUnderTest) -> None:
    got = await under_test.engine.generate(PROMPT, Sampling(max_tokens=2, seed=1), "length")
    assert len(got.ids) == 2 and got.finish == "length"


async def check_stop(under_test: EngineUnderTest) -> None:
    """A stop token ends the completion and stays in it."""
    free = await under_test.engine.generate(PROMPT, Sampling(max_tokens=8, seed=3), "stop-free")
    stop = next(id for i, id in enumerate(free.ids) if id not in free.ids[:i] and i >= 2)
    got = await under_test.engine.generate(PROMPT, Sampling(max_tokens=8, seed=3, stop_ids=(stop,)), "stop")
    assert got.ids == free.ids[: free.ids.index(stop) + 1] and got.finish == "stop"


async def check_logprobs(under_test: EngineUnderTest) -> None:
    """At temperature 0.7 the definition holds, in spite of the folder's generation config."""
    if not under_test.exact:
        return
    for temperature in (0.7, 1.0, 0.0):
        got = await under_test.engine.generate(
            PROMPT, Sampling(temperature=temperature, max_tokens=12, seed=5), f"t{temperature}"
        )
        want = reference_logprobs(under_test.reference, PROMPT, got.ids, temperature or 1.0)
        assert max(abs(a - b) for a, b in zip(got.logprobs, want, strict=True)) < under_test.tolerance
        assert len(got.ids) == 12


async def check_score(under_test: EngineUnderTest) -> None:
    if not under_test.exact:
        return
    got = await under_test.engine.generate(PROMPT, Sampling(temperature=0.7, max_tokens=8, seed=6), "score")
    scored = await under_test.engine.score([*PROMPT, *got.ids], 0.7)
    assert len(scored) == len(PROMPT) + 7
    assert max(abs(a - b) for a, b in zip(scored[-8:], got.logprobs, strict=True)) < under_test.tolerance


async def check_seeds(under_test: EngineUnderTest) -> None:
    """A request's tokens depend on its seed, not on what else runs."""
    if not under_test.exact:
        return

    async def ask(seed: int, session: str) -> list[int]:
        return (await under_test.engine.generate(PROMPT, Sampling(max_tokens=10, seed=seed), session)).ids

    alone = [await ask(seed, f"alone{seed}") for seed in range(4)]
    crowd = await asyncio.gather(*(ask(seed, f"crowd{seed}") for seed in range(12)))
    assert crowd[:4] == alone
    assert len({tuple(ids) for ids in crowd}) > 6


async def check_turns(under_test: EngineUnderTest) -> None:
    """What is kept between turns changes nothing: the last turn asked in a new session is the same."""
    if not under_test.exact:
        return
    prompt = list(PROMPT)
    for turn in range(4):
        got = await under_test.engine.generate(prompt, Sampling(max_tokens=5, seed=turn), "turns")
        fresh = await under_test.engine.generate(prompt, Sampling(max_tokens=5, seed=turn), f"fresh{turn}")
        assert got.ids == fresh.ids
        assert max(abs(a - b) for a, b in zip(got.logprobs, fresh.logprobs, strict=True)) < under_test.tolerance
        prompt += [*got.ids, 10, 60 + turn, 61, 62, 10]
    changed = [*prompt[:20], 99, *prompt[21:30]]  # a session may also rewrite its past
    got = await under_test.engine.generate(changed, Sampling(max_tokens=5, seed=9), "turns")
    fresh = await under_test.engine.generate(changed, Sampling(max_tokens=5, seed=9), "fresh-changed")
    assert got.ids == fresh.ids


async def check_watch(under_test: EngineUnderTest) -> None:
    """A watch sees every token and its log-probability, changes nothing, and ends the completion where it says so."""
    free = await under_test.engine.generate(PROMPT, Sampling(max_tokens=8, seed=3), "watch-free")
    seen: list[tuple[int, float]] = []

    def watch(id: int, logprob: float) -> bool:
        seen.append((id, logprob))
        return len(seen) == 3

    got = await under_test.engine.generate(PROMPT, Sampling(max_tokens=8, seed=3), "watch", watch=watch)
    assert got.ids == free.ids[:3] and got.finish == "stop" and len(got.logprobs) == 3
    assert seen == list(zip(got.ids, got.logprobs, strict=True))
    again = await under_test.engine.generate(PROMPT, Sampling(max_tokens=8, seed=3), "watch", watch=lambda *_: False)
    assert again.ids == free.ids and again.finish == free.finish


async def check_abort(under_test: EngineUnderTest) -> None:
    task = asyncio.create_task(under_test.engine.generate(PROMPT, Sampling(max_tokens=400, seed=1), "abort"))
    for _ in range(8):
        await asyncio.sleep(0)
    under_test.engine.abort("abort")
    got = await asyncio.wait_for(task, 60)
    assert got.finish == "abort" and len(got.ids) == len(got.logprobs) < 400
    again = await under_test.engine.generate(PROMPT, Sampling(max_tokens=2, seed=1), "abort")
    assert again.finish == "length"
    under_test.engine.abort("never seen")


async def check_pause(under_test: EngineUnderTest) -> None:
    """While paused nothing starts, but can be aborted; afterwards it starts."""
    await under_test.engine.pause()
    task = asyncio.create_task(under_test.engine.generate(PROMPT, Sampling(max_tokens=2, seed=1), "pause"))
    other = asyncio.create_task(under_test.engine.generate(PROMPT, Sampling(max_tokens=2, seed=1), "aborted"))
    done, _ = await asyncio.wait([task, other], timeout=0.2)
    assert not done
    under_test.engine.abort("aborted")
    assert (await asyncio.wait_for(other, 60)).finish == "abort"
    await under_test.engine.resume()
    assert len((await asyncio.wait_for(task, 60)).ids) == 2


async def check_refusals(under_test: EngineUnderTest) -> None:
    for ids in ([], [-1]):
        try:
            await under_test.engine.generate(ids, Sampling(), "refused")
        except BadConfig:
            continue
        raise AssertionError(f"{ids} was accepted")


async def check_context(under_test: EngineUnderTest) -> None:
    """A prompt that fills the context gets an empty completion; one that nearly does, a short one."""
    full = [65] * under_test.engine.context
    got, other = await asyncio.gather(
        under_test.engine.generate(full, Sampling(max_tokens=5), "full"),
        under_test.engine.generate(PROMPT, Sampling(max_tokens=3), "beside"),
    )
    assert (got.ids, got.finish) == ([], "length") and len(other.ids) == 3
    nearly = await under_test.engine.generate(full[:-2], Sampling(max_tokens=5), "nearly")
    assert len(nearly.ids) == 2 and nearly.finish == "length"


async def check_weights(under_test: EngineUnderTest) -> None:
    """New weights take effect at once, cached text included, and completions say whose they are.

    Who asks while they come, for a completion or for scores, waits for them: none is refused, none is of both.
    """
    if under_test.other is None:
        return
    sampling = Sampling(temperature=0, max_tokens=12)
    before = await under_test.engine.generate(PROMPT, sampling, "weights")
    was, scored = under_test.engine.policy_version, [await under_test.engine.score(PROMPT)]
    assert before.policy_version == was
    long = asyncio.create_task(under_test.engine.generate([*PROMPT, 65], Sampling(max_tokens=24, seed=1), "before"))
    await asyncio.sleep(0)
    update = asyncio.create_task(under_test.engine.load_weights(under_test.other, 7))
    completions: list[asyncio.Task[Completion]] = []
    scores: list[asyncio.Task[list[float]]] = []
    while not update.done():
        if len(completions) < 50:
            completions.append(
                asyncio.create_task(under_test.engine.generate(PROMPT, sampling, f"during{len(completions)}"))
            )
            scores.append(asyncio.create_task(under_test.engine.score(PROMPT)))
        await asyncio.sleep(0.002)
    await asyncio.gather(update, long, *completions, *scores)
    assert long.result().policy_version in (was, 7)
    scored.append(await under_test.engine.score(PROMPT))
    now = await under_test.engine.generate(PROMPT, sampling, "now")
    for got in (task.result() for task in completions):
        like = {was: before, 7: now}[got.policy_version]
        assert max(abs(a - b) for a, b in zip(got.logprobs, like.logprobs, strict=True)) < under_test.tolerance
    for task in scores:
        differences = [max(abs(a - b) for a, b in zip(task.result(), like, strict=True)) for like in scored]
        assert min(differences) < under_test.tolerance
    same = [under_test.engine.load_weights(under_test.other, 7), under_test.engine.load_weights(under_test.other, 7)]
    await asyncio.gather(*same, *(under_test.engine.generate(PROMPT, sampling, f"two{n}") for n in range(4)))
    after = await under_test.engine.generate([*PROMPT, *before.ids], sampling, "weights")
    assert after.policy_version == under_test.engine.policy_version == 7
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(under_test.other)
    want = reference_logprobs(model, [*PROMPT, *before.ids], after.ids, 1.0)
    assert max(abs(a - b) for a, b in zip(after.logprobs, want, strict=True)) < under_test.tolerance


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_") and name != "check_weights"]
CHECKS.append(check_weights)  # last: it leaves other weights behind
