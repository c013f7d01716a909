"""A token engine over several servers of one model, with sticky sessions, failover and a single weight version."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym.engines.fleet.backend import Answer, Backend, Scores, ServerFailure, ServerUnreachable
from agentgym.engines.fleet.members import PAUSES, CurrentWeights, Members
from agentgym.engines.fleet.routes import Member
from agentgym.engines.in_flight import InFlight, check_scored, goes_on
from agentgym.engines.protocol import Completing, Completion, Request, watched
from agentgym.errors import BadConfig, Fault, Reason

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
TRIES = 3
"""Maximum attempts for a request. If all fail, the episode ends in a fault, since the request may be the cause."""
_BEAT = 2.0  # seconds without an answer before a server is asked for a sign of life


class Fleet(InFlight, Completing):
    """Routes requests to servers (`Backend`) and keeps all servers at one version of the weights.

    An episode stays at its first server. A server is removed if it breaks the connection, fails a health check, or
    answers from other weights than the current ones. The removed server's requests are sampled on other servers, from
    the same tokens with the same seed. The fleet keeps checking a removed server, and uses it again once it has the
    current weights. If no server is left, requests wait `wait` seconds for a server to return; then they raise
    EngineDead, which lists the problem of each server. `known` has the token ids of a text whose log-probabilities
    distinguish servers of different models. `folder` is the location of stored weights, see `StoredWeights`.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        tokenizer: object,
        *,
        context: int,
        known: list[int],
        wait: float = 60.0,
        folder: str | None = None,
    ) -> None:
        super().__init__()
        self.tokenizer: Any = tokenizer
        self.context = context
        self.members = Members(backends, known, wait=wait, folder=folder)
        self._prompted, self._cached = 0, 0
        self._reported: Counter[str] = Counter()
        self._numbers = itertools.count()

    @property
    def policy_version(self) -> int:
        """Version of the weights that requests are sampled from."""
        return self.members.version

    @property
    def met(self) -> dict[str, int]:
        """Counts so far, under the keys `servers lost`, `servers back` and `requests moved`."""
        return {name.replace("_", " "): count for name, count in self.members.counts.items()}

    @property
    def known(self) -> list[int]:
        """Token ids of the text that distinguishes servers of different models."""
        return self.members.known

    async def complete(self, request: Request) -> Completion:
        """Return one completion, sampled by a single server and version of the weights.

        It is empty if the request was aborted, or if the prompt fills the context.

        Raises:
            BadConfig: the prompt is empty or contains an invalid id.
            Fault: `TRIES` attempts failed.
            EngineDead: no server is left.
        """
        prompt, sampling = request.prompt_ids, request.sampling
        self.check(request.session, prompt)
        limit = request.room(self.context)
        if limit < 1:
            return Completion([], [], "length", self.policy_version)

        async def ask(member: Member) -> Answer:
            answer = await member.backend.generate(prompt, sampling, limit)
            self.members.check_label(answer.label)
            answer.completion.policy_version = self.policy_version  # the version of the label, even if it changes now
            return answer

        answer = await self.run_request(lambda: self._answered(ask, request.session), request.session)
        if answer is None:
            return Completion([], [], "abort", self.policy_version)
        if answer.cached is not None:
            self._prompted, self._cached = self._prompted + len(prompt), self._cached + answer.cached
        return watched(answer.completion, request.watch)

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1]; vLLM only supports temperature 1.

        Raises:
            BadConfig: the temperature is not 1, or the text is invalid or too long.
            Fault: the fleet was closed, or `TRIES` attempts failed.
            EngineDead: no server is left.
        """
        ids = list(ids)
        if temperature != 1.0:
            raise BadConfig(f"servers score at temperature 1 only; {temperature} was asked. Score with the hf engine")
        check_scored(ids, self.context)
        name = f"score/{next(self._numbers)}"  # no session: each goes to the least busy server

        async def ask(member: Member) -> Scores:
            scores = await member.backend.score(ids)
            self.members.check_label(scores.label)
            return scores

        scores = await self.run_request(lambda: self._answered(ask, name), name)
        self.members.routes.forget(name)
        if scores is None:
            raise Fault("the fleet was closed while a server scored", reason=Reason.ENGINE)
        return scores.values

    async def _answered(self, ask: Callable[[Member], Coroutine[object, object, T]], session: str) -> T:
        """Return the result of `ask` from the session's server, or from another server if that server fails.

        Raises:
            Fault: `TRIES` attempts failed.
            EngineDead: no server is left.
        """
        members, met, before = self.members, list[str](), None
        while len(met) < TRIES:
            member = members.routes.member(session, await members.present())
            if before not in (None, member):
                members.counts["requests_moved"] += 1
            losses, before = member.losses, member
            try:
                return await self._watched(ask(member), member)
            except (
                ServerUnreachable,
                BadConfig,
            ) as error:  # a server that is now refused was restarted with another configuration
                members.leave_out(member, losses, str(error))
                met.append(f"{member.backend.url}: {error}")
            except ServerFailure as error:
                members.routes.move(session, members.serving)
                met.append(f"{member.backend.url}: {error}")
                if len(met) < TRIES:
                    await asyncio.sleep(PAUSES[len(met) - 1])
        raise Fault(f"no server answered a request: {'; '.join(met)}", reason=Reason.ENGINE)

    async def _watched(self, request: Coroutine[object, object, T], member: Member) -> T:
        """Await a request while checking that its server is alive.

        Raises:
            ServerUnreachable: the server was removed meanwhile, for example after a failed health check.
        """
        loop, losses = asyncio.get_running_loop(), member.losses
        if not member.running:  # its last sign of life is from before it was idle
            member.heard = loop.time()
        task = loop.create_task(request)
        member.running.add(task)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=_BEAT)
                if not task.done() and loop.time() - member.heard > _BEAT and not goes_on(member.beat):
                    member.beat = loop.create_task(self.members.ask_for_a_sign(member, losses))
        finally:
            task.cancel()
            await asyncio.wait([task])  # so that it has ended before new weights arrive
            member.running.discard(task)
        if task.cancelled():
            raise ServerUnreachable(member.reason)
        member.heard = loop.time()
        return task.result()

    async def load_weights(
        self,
        weights: "str | Path | Iterable[tuple[str, Tensor]]",
        version: int,
        *,
        expected: list[float] | None = None,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Send new weights (a folder with a model or a LoRA adapter, or named tensors) to all active servers.

        The first weights go to all servers. Removed servers get the weights when they return, from files that exist
        until the next version: the model folder itself, a copy of the adapter's folder, or a copy of the tensors.
        Requests in flight finish first. `expected` has the new weights' log-probabilities for `known`, which each
        server has to reproduce; None takes those of the first server. `then` runs before requests continue.

        Raises:
            BadConfig: a server refuses the first weights, or an adapter follows whole weights. A server that fails a
                later update is removed.
            BadData: the folder is damaged.
            EngineDead: no server has the new weights.
        """
        async with self.updating():
            await self.members.bring(weights, version, expected)
            if then is not None:
                await then()

    def active(self) -> list[tuple[tuple[str, int], Backend]]:
        """Return the active servers, each with a key that stays valid until the server is removed."""
        return [((member.backend.url, member.losses), member.backend) for member in self.members.serving]

    def adopt(self, present: CurrentWeights) -> None:
        """Adopt the state of another process's fleet over the same servers.

        This fleet uses a returning server once the other process has sent the current weights to that server.
        """
        self.members.adopt(present)

    def state(self) -> CurrentWeights:
        """Return the state to pass to `adopt` in another process."""
        return self.members.present_weights()

    def measured(self) -> dict[str, float | tuple[float, int]]:
        """Return metrics for a training step: `servers` is the number of active servers now.

        `servers_lost`, `servers_back` and `requests_moved` count events since the last call. `prefix_hits` is a pair, summed
        over answers that report cached tokens: prompt tokens found in prefix caches, and all prompt tokens. It is absent
        if there are no such answers.
        """
        cached, prompted, self._cached, self._prompted = self._cached, self._prompted, 0, 0
        hits: dict[str, float | tuple[float, int]] = {"prefix_hits": (cached, prompted)} if prompted else {}
        counts = self.members.counts - self._reported
        self._reported = Counter(self.members.counts)
        names = ("servers_lost", "servers_back", "requests_moved")
        return {**hits, "servers": len(self.members.serving), **{name: counts[name] for name in names}}

    def close(self) -> None:
        """Cancel every request, delete the stored weights and close all connections; the servers keep running."""
        self.hang_up()
        self.members.close()
