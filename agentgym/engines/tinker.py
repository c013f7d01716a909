"""Sampling from a server that also trains: exact tokens, only from the newest weights."""

# tinker is an extra and typed in parts only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym.engines.in_flight import InFlight
from agentgym.engines.kinds import TINKER
from agentgym.engines.protocol import Completion, Request, Sampling, TokenEngine, watched
from agentgym.errors import BadConfig, Fault, Reason

_MOST_SEED = 2**31 - 1


class TinkerEngine(InFlight, TokenEngine):
    """A `TokenEngine` over the sampling clients of a Tinker session. The learner sets new weights by calling `serve`.

    A sampler with older weights is never used again: some servers store the sampler's and the trainer's weights in the
    same place, so sampling from old weights would overwrite the trained ones.
    """

    kind = TINKER

    def __init__(self, service: Any, tokenizer: Any, context: int) -> None:
        super().__init__()
        self.service, self.tokenizer, self.context = service, tokenizer, context
        self.policy_version = 0
        self.sampler: Any = None

    async def complete(self, request: Request) -> Completion:
        """Return one completion; it is empty if the request was aborted, or if the prompt fills the context.

        Raises:
            BadConfig: `sampling` has a setting that these servers do not support.
            Fault: the request failed.
            EngineDead: the server is gone.
        """
        if request.sampling.min_p or request.sampling.repetition_penalty != 1.0:
            raise BadConfig("a tinker server samples without min_p and repetition_penalty; leave them out")
        limit = request.room(self.context)
        if limit < 1:
            return Completion([], [], "length", self.policy_version)
        done = await self.run_request(lambda: self._sampled(request.prompt_ids, request.sampling, limit), request.session)
        return Completion([], [], "abort", self.policy_version) if done is None else watched(done, request.watch)

    async def _sampled(self, prompt: list[int], sampling: Sampling, limit: int) -> Completion:
        version, sampler = self.policy_version, self._present()
        types = self.service.tinker
        eos = getattr(self.tokenizer, "eos_token_id", None)
        stop = list(sampling.stop_ids) or (
            [eos] if eos is not None else []
        )  # no server stops at its model's end token by itself
        params = types.SamplingParams(
            max_tokens=limit,
            seed=sampling.seed % _MOST_SEED,
            stop=stop,
            temperature=sampling.temperature,
            top_k=sampling.top_k or -1,
            top_p=sampling.top_p,
        )
        request = self.service.acall("sample", sampler.sample, types.ModelInput.from_ints(prompt), 1, params)
        sequence = (await self.to_its_end(request)).sequences[0]
        ids, logprobs = [int(id) for id in sequence.tokens], [float(value) for value in sequence.logprobs or ()]
        return _completion(ids, logprobs, sampling, limit, version)

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1]; these servers only support temperature 1.

        Raises:
            BadConfig: the temperature is not 1.
            Fault: the request failed, or the engine was closed.
            EngineDead: the server is gone.
        """
        if temperature != 1.0:
            raise BadConfig(f"a tinker server scores at temperature 1 only; {temperature} was asked")
        scores = await self.run_request(lambda: self.to_its_end(scored(self.service, self._present(), ids)), "")
        if scores is None:
            raise Fault("the tinker engine was closed while a server scored", Reason.ENGINE)
        return scores

    def _present(self) -> Any:
        """Return the current sampler.

        Raises:
            Fault: there are no weights to sample from.
        """
        if self.sampler is None:
            raise Fault(f"{self.service.url} serves no weights: the last ones could not be brought", "engine")
        return self.sampler

    async def serve(self, sampler: Any, version: int) -> None:
        """Wait until no request is running, then call `sampler` to create the client for weights of this version."""
        async with self.updating():
            self.sampler = None
            self.sampler = await asyncio.to_thread(sampler)
            self.policy_version = version

    async def load_weights(self, weights: str | Path | Iterable[tuple[str, object]], version: int) -> None:
        """Refuse: the server trains its weights itself.

        Raises:
            BadConfig: always.
        """
        raise BadConfig("weights cannot be sent to a tinker server; it trains them itself")

    def close(self) -> None:
        """Cancel every request; the session stays open, since it belongs to the learner."""
        self.hang_up()


async def scored(service: Any, sampler: Any, ids: Sequence[int]) -> list[float]:
    """Return the log-probability of each token after the first, [tokens - 1].

    Raises:
        Fault: values are missing.
    """
    prompt = service.tinker.ModelInput.from_ints(list(ids))
    values = await service.acall("score a prompt", sampler.compute_logprobs, prompt)
    known = list(values)[-(len(ids) - 1) :]
    if len(known) != len(ids) - 1 or any(value is None for value in known):
        raise Fault(f"{service.url} scored {len(known)} of {len(ids) - 1} tokens", "engine")
    return [float(value) for value in known]


def _completion(ids: list[int], logprobs: list[float], sampling: Sampling, limit: int, version: int) -> Completion:
    if len(logprobs) != len(ids) or not ids or len(ids) > limit or any(not -1e4 < value <= 1e-3 for value in logprobs):
        raise Fault(f"a tinker server returned {len(ids)} tokens (at most {limit}) with {len(logprobs)} logprobs", "engine")
    if any(id in sampling.stop_ids for id in ids[:-1]):
        raise Fault("a tinker server kept sampling after a stop token", "engine")
    return Completion(ids, logprobs, "stop" if ids[-1] in sampling.stop_ids else "length", version)
