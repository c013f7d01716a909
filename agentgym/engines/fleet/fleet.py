"""A token engine over several servers of one model: sticky episodes, none lost with a server, one version for all."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentgym.engines import Completion, Sampling
from agentgym.engines.fleet.backend import Answer, Backend, Lost, Scores, Trouble
from agentgym.engines.fleet.routes import Member, Routes
from agentgym.engines.fleet.weights import Kept, apart
from agentgym.errors import BadConfig, EngineDead, Fault

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
TRIES = 3
"""Servers, or times of one, that a request may fail at before its episode is a fault: it may be what fails them."""
TOLERANCE = 0.1
"""Mean difference of the log-probabilities of a known text between servers with the same weights, at most."""
_BEAT = 2.0  # seconds without an answer of a server until it is asked for a sign of life
_LONGEST = 30.0  # seconds between two looks at a server that was left out
_log = logging.getLogger(__name__)


class Aborted(Exception):
    """A request that its own session ended."""


class Fleet:
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
        self.tokenizer: Any = tokenizer
        self.context = context
        self.policy_version = 0
        self.label = ""
        """What servers with the present weights answer; empty until they were first asked."""
        self.met: Counter[str] = Counter()
        """How often servers were left out, and came back."""
        self.members = [Member(backend) for backend in backends]
        self.known = known
        self._routes, self._wait, self._folder = Routes(), wait, folder
        self._kept: Kept | None = None
        self._expected: list[float] | None = None
        """How the present weights score the known text."""
        self._open, self._idle, self._changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._open.set()
        self._idle.set()
        self._busy = 0
        self._updating = asyncio.Lock()
        self._gathering: asyncio.Task[None] | None = None
        self._prompted, self._cached = 0, 0
        self._counted = Counter[str]()

    @property
    def serving(self) -> list[Member]:
        """The servers that requests go to."""
        return [member for member in self.members if member.serving]

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, session: str, *, images: Sequence[object] = ()
    ) -> Completion:
        """Return one completion, all of it from one server and one version; an aborted one is empty."""
        prompt = list(prompt_ids)
        if images:
            raise BadConfig("servers are sent no images yet; use a text prompt")
        self._check(prompt)
        while not self._open.is_set():
            await self._open.wait()
        limit = min(sampling.max_tokens, self.context - len(prompt))
        if limit < 1:
            return Completion([], [], "length", self.policy_version)

        async def ask(member: Member) -> Answer:
            answer = await member.backend.generate(prompt, sampling, limit)
            self._check_label(answer.label)
            return answer

        try:
            answer = await self._counting(self._asked(ask, session))
        except Aborted:
            return Completion([], [], "abort", self.policy_version)
        if answer.cached is not None:
            self._prompted, self._cached = self._prompted + len(prompt), self._cached + answer.cached
        answer.completion.policy_version = self.policy_version
        return answer.completion

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first; temperature 1 only, as vLLM offers no other."""
        ids = list(ids)
        if temperature != 1.0:
            raise BadConfig(f"servers score at temperature 1 only; {temperature} was asked. Score with the hf engine")
        self._check(ids)
        if len(ids) >= self.context:
            raise BadConfig(f"{len(ids)} tokens to score; expected fewer than the context of {self.context}")

        async def ask(member: Member) -> Scores:
            scores = await member.backend.score(ids)
            self._check_label(scores.label)
            return scores

        return (await self._counting(self._asked(ask, "score"))).values

    async def _counting(self, request: Coroutine[object, object, T]) -> T:
        self._busy += 1
        self._idle.clear()
        try:
            return await request
        finally:
            self._busy -= 1
            if not self._busy:
                self._idle.set()

    async def _asked(self, ask: Any, session: str) -> Any:
        """Return what `ask` brings back from the session's server, or from another where that one fails."""
        met: list[str] = []
        while len(met) < TRIES:
            serving = await self._present()
            member = self._routes.member(session, serving)
            joined = member.joined
            try:
                return await self._watched(ask(member), member, session)
            except Lost as error:
                self._leave_out(member, joined, str(error))
                met.append(f"{member.backend.url}: {error}")
            except Trouble as error:
                met.append(f"{member.backend.url}: {error}")
                self._routes.move(session, self.serving)
            self._counted["requests_moved"] += 1
        raise Fault(f"no server answered a request: {'; '.join(met)}", reason="engine")

    async def _watched(self, request: Coroutine[object, object, T], member: Member, session: str) -> T:
        """Wait for a request, and see to it meanwhile that its server is there; Lost where it is not, or Aborted."""
        loop = asyncio.get_running_loop()
        task: asyncio.Task[Any] = loop.create_task(request)
        member.running[task] = session
        member.heard = max(member.heard, loop.time()) if len(member.running) == 1 else member.heard
        try:
            while not task.done():
                await asyncio.wait([task], timeout=_BEAT)
                if not task.done() and loop.time() - member.heard > _BEAT and not _runs(member.beat):
                    member.beat = loop.create_task(self._ask_for_a_sign(member, member.joined))
        finally:
            task.cancel()  # nothing where it is done; else the caller was cancelled, and the server sees us hang up
            del member.running[task]
        if task.cancelled():
            raise Aborted if member.serving else Lost(member.reason)
        member.heard = loop.time()
        return task.result()

    async def _ask_for_a_sign(self, member: Member, joined: int) -> None:
        try:
            label = await member.backend.alive()
            if label is not None:
                self._check_label(label)
            member.heard = asyncio.get_running_loop().time()
        except (Lost, Trouble, BadConfig, Fault) as error:
            self._leave_out(member, joined, str(error))

    def _check_label(self, label: str) -> None:
        """Raise Lost for weights that are not the present ones: such a server was restarted, or is somebody else's too."""
        if label != self.label:
            raise Lost(f"it answers from weights {label[:100]!r}, where {self.label!r} are the present ones")

    def _leave_out(self, member: Member, joined: int, reason: str) -> None:
        """Send a server nothing more, and what runs there elsewhere; nothing where it has been taken in again since."""
        if not member.serving or member.joined != joined:
            return
        member.serving, member.reason = False, reason
        self.met["a server left out"] += 1
        self._counted["servers_lost"] += 1
        _log.warning("%s is left out: %s; %d of %d servers go on", member.backend.url, reason, *self._numbers())
        for task in list(member.running):
            task.cancel()
        self._routes.even(self.members)
        self._look_for(member)

    def _numbers(self) -> tuple[int, int]:
        return len(self.serving), len(self.members)

    def _look_for(self, member: Member) -> None:
        if not member.serving and not _runs(member.search):
            member.search = asyncio.get_running_loop().create_task(self._found_again(member))

    async def _found_again(self, member: Member) -> None:
        """Look for a server until it serves again."""
        pause = 0.5
        while not member.serving:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)
            try:
                await member.backend.alive()  # or whoever updates would wait for it, too
                async with self._updating:
                    await self._take_in(member)
            except (Lost, Trouble, BadConfig, Fault) as error:
                member.reason = str(error)
        self.met["a server taken in again"] += 1
        self._counted["servers_back"] += 1
        self._routes.even(self.members)
        _log.warning("%s is back with weights %s; %d of %d servers go on", member.backend.url, self.label, *self._numbers())

    async def _take_in(self, member: Member) -> None:
        """Bring a server to the present weights, look whether it has them, and let it serve."""
        if self._kept is not None and await member.backend.alive() != self.label:
            await member.backend.update(self._kept.files, self.label)
        scores = await member.backend.score(self.known)
        self._check_label(scores.label)
        if self._expected is None:
            self._expected = scores.values
        off = apart(scores.values, self._expected)
        if off > TOLERANCE:
            raise BadConfig(
                f"{member.backend.url} scores a known text {off:.2f} a token apart from the others under the same weights; "
                f"at most {TOLERANCE} is taken for rounding: it serves another model, or with other settings"
            )
        self._serve(member)

    def _serve(self, member: Member) -> None:
        member.serving, member.reason, member.joined = True, "", member.joined + 1
        self._changed.set()

    async def _present(self) -> list[Member]:
        """Return the servers that serve; where there are none, wait for one. EngineDead when none came in time."""
        if not self.label:
            await self._gather()
        for member in self.members:
            self._look_for(member)  # what looked for it may have ended with an earlier event loop
        try:
            async with asyncio.timeout(self._wait):
                while not self.serving:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise self._none_left() from None
        return self.serving

    def _none_left(self) -> EngineDead:
        why = "; ".join(f"{member.backend.url}: {member.reason}" for member in self.members)
        return EngineDead(f"no server is left, and none came back in {self._wait:g} seconds. {why}")

    async def _gather(self) -> None:
        """Ask all servers what they serve, once; BadConfig where that is not the same."""
        if self._gathering is None or (self._gathering.done() and not self.label):
            self._gathering = asyncio.get_running_loop().create_task(self._gathered())
        await asyncio.shield(self._gathering)

    async def _gathered(self) -> None:
        scored = await asyncio.gather(*(m.backend.score(self.known) for m in self.members), return_exceptions=True)
        first: tuple[str, Scores] | None = None
        for member, got in zip(self.members, scored, strict=True):
            if isinstance(got, (Lost, Trouble)):
                member.reason = str(got)
                continue
            if isinstance(got, BaseException):
                raise got
            first = first or (member.backend.url, got)
            off = apart(got.values, first[1].values)
            if got.label != first[1].label or off > TOLERANCE:
                raise BadConfig(
                    f"{first[0]} and {member.backend.url} serve different weights: labels {first[1].label!r} and "
                    f"{got.label!r}, {off:.2f} a token apart on a known text. Start all with the same model"
                )
            self._serve(member)
        if first is None:
            raise self._none_left()
        self.label, self._expected = first[1].label, first[1].values

    def abort(self, session: str) -> None:
        """Hang up on the session's requests; a server that notices frees what they hold."""
        for member in self.members:
            for task, owner in member.running.items():
                if owner == session:
                    task.cancel()

    async def pause(self) -> None:
        """Let running requests finish and start no new ones."""
        self._open.clear()
        await self._idle.wait()

    async def resume(self) -> None:
        """Start requests again."""
        self._open.set()

    async def load_weights(
        self,
        weights: str | Path | Iterable[tuple[str, "Tensor"]],
        version: int,
        *,
        expected: list[float] | None = None,
    ) -> None:
        """Bring new weights (a model folder, or named tensors) to all servers that serve; the rest get them on return.

        They are kept as files until the next. Requests in flight end first. `expected`: how the model scores
        `known`, which each server has to agree with. The first time, a server that refuses them is a BadConfig;
        later one that fails is left out. EngineDead when none has them.
        """
        was_open = self._open.is_set()
        await self.pause()
        try:
            if self._kept is None:
                await self._begin(weights, version, expected)
            else:
                await self._present()
                await self._push(self.serving, weights, version, expected)
                if not self.serving:
                    await self._present()
            self.policy_version = version
        finally:
            if was_open:
                await self.resume()

    async def _begin(self, weights: Any, version: int, expected: list[float] | None) -> None:
        failed = await self._push(self.members, weights, version, expected)
        for member, error in failed:
            if not isinstance(error, Lost):
                raise BadConfig(f"weights cannot be sent to {member.backend.url}: {error}") from error
        if not self.serving:
            raise self._none_left()
        for member, _ in failed:
            self._look_for(member)

    async def _push(
        self, members: Sequence[Member], weights: Any, version: int, expected: list[float] | None
    ) -> list[tuple[Member, BaseException]]:
        """Bring weights to servers at once; return which failed and why."""
        async with self._updating:
            if self._kept is None:
                self._kept = Kept(self._folder)
            await asyncio.to_thread(self._kept.write, weights)
            self.label, self._expected = self._kept.label(version), expected
            for member in members:
                member.serving, member.reason = False, "it was being updated"
            outcomes = await asyncio.gather(*(self._take_in(member) for member in members), return_exceptions=True)
        failed: list[tuple[Member, BaseException]] = []
        for member, outcome in zip(members, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                if not isinstance(outcome, (Lost, Trouble, BadConfig, Fault)):
                    raise outcome
                member.reason = str(outcome)
                failed.append((member, outcome))
        return failed

    def adopt(self, version: int, label: str, expected: list[float] | None, serving: Sequence[str]) -> None:
        """Take over what another process's fleet of the same servers brought them to; `serving`: their addresses.

        A server that comes back serves here once that other process has brought it to the present weights.
        """
        self.policy_version, self.label, self._expected = version, label, expected
        for member in self.members:
            if member.backend.url in serving:
                self._serve(member)
            else:
                member.serving, member.reason = False, "it did not take the last update"

    def state(self) -> tuple[int, str, list[float] | None, list[str]]:
        """Return what `adopt` takes."""
        return self.policy_version, self.label, self._expected, [member.backend.url for member in self.serving]

    def measured(self) -> dict[str, float | tuple[float, int]]:
        """Return what was measured since the last time, for the metrics of a step; a pair is a sum and of how many.

        `prefix_hits`: the share of prompt tokens that came from prefix caches, where the servers tell it.
        """
        counts, self._counted = self._counted, Counter[str]()
        cached, prompted, self._cached, self._prompted = self._cached, self._prompted, 0, 0
        hits: dict[str, float | tuple[float, int]] = {"prefix_hits": (cached, prompted)} if prompted else {}
        names = ("servers_lost", "servers_back", "requests_moved")
        return {**hits, "servers": len(self.serving), **{name: counts[name] for name in names}}

    def close(self) -> None:
        """Hang up on every request, remove the kept weights and close all connections; the servers go on."""
        for member in self.members:
            for task in (*member.running, member.beat, member.search):
                if task is not None and _runs(task):
                    task.cancel()
            member.backend.close()
        if self._kept is not None:
            self._kept.close()

    def _check(self, ids: list[int]) -> None:
        if not ids or min(ids) < 0:
            raise BadConfig(f"the prompt is {ids[:20]}; expected at least one token id, each 0 or more")


def _runs(task: "asyncio.Task[Any] | None") -> bool:
    """Whether a task goes on; one of an event loop that has ended does not."""
    return task is not None and not task.done() and not task.get_loop().is_closed()
