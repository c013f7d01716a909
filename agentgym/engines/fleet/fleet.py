"""A token engine over several servers of one model: sticky episodes, none lost with a server, one version for all."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym.engines.fleet.backend import Answer, Backend, Lost, Scores, Trouble
from agentgym.engines.fleet.members import PAUSES, Members, Present
from agentgym.engines.fleet.routes import Member
from agentgym.engines.in_flight import InFlight, check_scored, goes_on
from agentgym.engines.protocol import Completing, Completion, Request, watched
from agentgym.errors import BadConfig, Fault, Reason

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
TRIES = 3
"""Times that a request may fail before its episode is a fault: it may be what fails the servers."""
_BEAT = 2.0  # seconds without an answer of a server until it is asked for a sign of life


class Fleet(InFlight, Completing):
    """Routes requests to servers (`Backend`), and keeps the servers at one version of the weights.

    An episode stays at the server where it began. A server that breaks off, gives no sign of life for as long as its
    backend allows, or answers from other weights than the present ones is left out; its requests are sampled elsewhere
    from the same tokens with the same seed. It is looked for, and serves again once it has the present weights. With none
    left, requests wait `wait` seconds for one to come back; then EngineDead says of each why it is out. `known` is a text
    whose log-probabilities tell servers of different models apart. `folder` is where weights lie, as `Kept` has it.
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
        self._told: Counter[str] = Counter()
        self._numbers = itertools.count()

    @property
    def policy_version(self) -> int:
        """The version that requests are sampled from; it changes with the label that answers are held to."""
        return self.members.version

    @property
    def met(self) -> dict[str, int]:
        """How often servers were left out and taken in again, and requests went elsewhere; the names are for a reader."""
        return {name.replace("_", " "): count for name, count in self.members.counts.items()}

    @property
    def known(self) -> list[int]:
        """The text that servers are told apart by."""
        return self.members.known

    async def complete(self, request: Request) -> Completion:
        """Return one completion, all of it from one server and one version; an aborted one is empty."""
        prompt, sampling = request.prompt_ids, request.sampling
        self.check(request.session, prompt)
        limit = request.room(self.context)
        if limit < 1:
            return Completion([], [], "length", self.policy_version)

        async def ask(member: Member) -> Answer:
            answer = await member.backend.generate(prompt, sampling, limit)
            self.members.check_label(answer.label)
            answer.completion.policy_version = self.policy_version  # which the label is of, whatever comes now
            return answer

        answer = await self.asked(lambda: self._answered(ask, request.session), request.session)
        if answer is None:
            return Completion([], [], "abort", self.policy_version)
        if answer.cached is not None:
            self._prompted, self._cached = self._prompted + len(prompt), self._cached + answer.cached
        return watched(answer.completion, request.watch)

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first; temperature 1 only, as vLLM offers no other."""
        ids = list(ids)
        if temperature != 1.0:
            raise BadConfig(f"servers score at temperature 1 only; {temperature} was asked. Score with the hf engine")
        check_scored(ids, self.context)
        name = f"score/{next(self._numbers)}"  # of no session: each goes where the fewest are under way

        async def ask(member: Member) -> Scores:
            scores = await member.backend.score(ids)
            self.members.check_label(scores.label)
            return scores

        scores = await self.asked(lambda: self._answered(ask, name), name)
        self.members.routes.forget(name)
        if scores is None:
            raise Fault("the fleet was closed while a server scored", reason=Reason.ENGINE)
        return scores.values

    async def _answered(self, ask: Callable[[Member], Coroutine[object, object, T]], session: str) -> T:
        """Return what `ask` brings back from the session's server, or from another where that one fails."""
        members, met, before = self.members, list[str](), None
        while len(met) < TRIES:
            member = members.routes.member(session, await members.present())
            if before not in (None, member):
                members.counts["requests_moved"] += 1
            losses, before = member.losses, member
            try:
                return await self._watched(ask(member), member)
            except (Lost, BadConfig) as error:  # one that served and is now refused was started again, as another
                members.leave_out(member, losses, str(error))
                met.append(f"{member.backend.url}: {error}")
            except Trouble as error:
                members.routes.move(session, members.serving)
                met.append(f"{member.backend.url}: {error}")
                if len(met) < TRIES:
                    await asyncio.sleep(PAUSES[len(met) - 1])
        raise Fault(f"no server answered a request: {'; '.join(met)}", reason=Reason.ENGINE)

    async def _watched(self, request: Coroutine[object, object, T], member: Member) -> T:
        """Wait for a request, and see to it meanwhile that its server is there; Lost where it is not."""
        loop, losses = asyncio.get_running_loop(), member.losses
        if not member.running:  # what it said before it had nothing to do was long ago
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
            await asyncio.wait([task])  # it has hung up before new weights come
            member.running.discard(task)
        if task.cancelled():
            raise Lost(member.reason)
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
        """Bring new weights (a folder of a model or a LoRA adapter, or named tensors) to all servers that serve.

        The others get them when they come back. They are kept as files until the next, an adapter as a copy. Requests in
        flight end first. `expected`: how the model scores `known`, with which each server has to agree. The first time, a
        server that refuses them is a BadConfig; later one that fails is left out. EngineDead when none has them. `then` is
        run before requests go on.
        """
        async with self.updating():
            await self.members.bring(weights, version, expected)
            if then is not None:
                await then()

    def taken_in(self) -> list[tuple[tuple[str, int], Backend]]:
        """Return the servers that serve, each under a name that it has until it is left out."""
        return [((member.backend.url, member.losses), member.backend) for member in self.members.serving]

    def adopt(self, present: Present) -> None:
        """Take over what another process's fleet of the same servers brought them to.

        A server that comes back serves here once that other process has brought it to the present weights.
        """
        self.members.adopt(present)

    def state(self) -> Present:
        """Return what `adopt` takes."""
        return self.members.present_weights()

    def measured(self) -> dict[str, float | tuple[float, int]]:
        """Return what was measured since the last time, for the metrics of a step; a pair is a sum and of how many.

        `prefix_hits`: the share of prompt tokens that came from prefix caches, where the servers tell it.
        """
        cached, prompted, self._cached, self._prompted = self._cached, self._prompted, 0, 0
        hits: dict[str, float | tuple[float, int]] = {"prefix_hits": (cached, prompted)} if prompted else {}
        counts = self.members.counts - self._told
        self._told = Counter(self.members.counts)
        names = ("servers_lost", "servers_back", "requests_moved")
        return {**hits, "servers": len(self.members.serving), **{name: counts[name] for name in names}}

    def close(self) -> None:
        """Hang up on every request, remove the kept weights and close all connections; the servers go on."""
        self.hang_up()
        self.members.close()
