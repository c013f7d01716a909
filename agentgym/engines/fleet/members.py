"""Membership of a fleet: failing servers are removed, polled, and added again with the current weights."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.engines.fleet.backend import Backend, Scores, ServerFailure, ServerUnreachable
from agentgym.engines.fleet.routes import Member, Routes
from agentgym.engines.fleet.weights import StoredWeights, mean_difference
from agentgym.engines.in_flight import goes_on, retrieve_exception
from agentgym.errors import BadConfig, EngineDead, Fault

TOLERANCE = 0.1
"""Maximum mean absolute difference between two servers' log-probabilities of one text under the same weights."""
FAILURES = (ServerUnreachable, ServerFailure, BadConfig, Fault)
"""Exceptions that calls to a backend may raise."""
PAUSES = (1.0, 4.0)
"""Seconds to wait before the second and third attempt after a server's error: it may only be busy."""
_LONGEST = 30.0  # maximum seconds between two checks of a removed server
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CurrentWeights:
    """The current weights of a fleet, and the addresses of the servers that have them."""

    version: int
    label: str
    expected: list[float] | None
    """Log-probabilities that these weights assign to the text `Fleet.known`; None until a server has computed them."""
    adapter: str
    """Name of the LoRA adapter on the servers; empty for a whole model."""
    serving: list[str]


class Members:
    """The servers of a fleet. Active servers have the current weights, verified by label and by scoring a known text."""

    def __init__(self, backends: Sequence[Backend], known: list[int], *, wait: float, folder: str | None) -> None:
        self.all = [Member(backend) for backend in backends]
        self.known = known
        self.label = ""
        """Label of the current weights; empty until a server has reported it or weights were sent."""
        self.version = 0
        """Policy version of the current weights."""
        self.routes = Routes()
        self.counts: Counter[str] = Counter()
        self._wait, self._stored = wait, StoredWeights(folder)
        self._expected: list[float] | None = None
        """Log-probabilities that the current weights assign to the text `known`; None until a server has computed them."""
        self._adapter = ""
        """Name of the current LoRA adapter on the servers; empty for a whole model."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed, self._updating = asyncio.Event(), asyncio.Lock()
        self._gathering: asyncio.Task[None] | None = None

    @property
    def serving(self) -> list[Member]:
        """The active servers, which receive requests."""
        return [member for member in self.all if member.serving]

    def _in_this_loop(self) -> None:
        """Recreate asyncio primitives if the event loop changed: each is bound to the first loop that uses it."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._changed, self._updating = loop, asyncio.Event(), asyncio.Lock()

    def check_label(self, label: str) -> None:
        """Check that a label from a server is that of the current weights.

        Raises:
            ServerUnreachable: the label differs: the server was restarted, or another run uses it.
        """
        if label != self.label:
            raise ServerUnreachable(f"it answers from weights {label[:100]!r}, where {self.label!r} are the present ones")

    async def present(self) -> list[Member]:
        """Return the active servers; if there are none, wait for a server to return.

        Raises:
            EngineDead: no server returned in time.
            BadConfig: two servers have different weights.
        """
        self._in_this_loop()
        if not self.label:
            await self._gather()
        for member in self.all:
            self._look_for(member)  # the search may have ended with an earlier event loop
        try:
            async with asyncio.timeout(self._wait):
                while not self.serving:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise self._none_left(f"none came back in {self._wait:g} seconds") from None
        return self.serving

    async def ask_for_a_sign(self, member: Member, losses: int) -> None:
        """Check a server's health and label; remove the server if it fails the check.

        `losses` is the value of `member.losses` when the check was scheduled.
        """
        try:
            label = await member.backend.alive()
            if label is not None:
                self.check_label(label)
            member.heard = asyncio.get_running_loop().time()
        except FAILURES as error:
            self.leave_out(member, losses, str(error))

    def leave_out(self, member: Member, losses: int, reason: str) -> None:
        """Remove a server and move its requests elsewhere.

        Do nothing if the server was already removed: `losses` is the value of `member.losses` that the caller saw.
        """
        if not member.serving or member.losses != losses:
            return
        member.serving, member.reason, member.losses = False, reason, losses + 1
        self.counts["servers_lost"] += 1
        _log.warning("%s is left out: %s; %d of %d servers go on", member.backend.url, reason, *self._numbers())
        for task in list(member.running):
            task.cancel()
        self.routes.even(self.all)
        self._look_for(member)

    def _numbers(self) -> tuple[int, int]:
        return len(self.serving), len(self.all)

    def _look_for(self, member: Member) -> None:
        if not member.serving and not goes_on(member.search):
            member.search = asyncio.get_running_loop().create_task(self._found_again(member))

    async def _found_again(self, member: Member) -> None:
        """Poll a removed server until it is active again."""
        pause = min(0.5, _LONGEST)
        while not member.serving:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST)
            try:
                await member.backend.alive()  # outside the lock, so that updates do not wait for it
                async with self._updating:
                    await self._take_in(member)
            except FAILURES as error:
                member.reason = str(error)
        self.counts["servers_back"] += 1
        self.routes.even(self.all)
        _log.warning("%s serves with weights %s; %d of %d servers go on", member.backend.url, self.label, *self._numbers())

    async def _take_in(self, member: Member) -> None:
        """Send a server the current weights, verify them, and make the server active.

        If the expected scores of the known text are not set yet, the server's scores become the expected ones.

        Raises:
            BadConfig: the server scores the known text differently.
            ServerUnreachable: the server reports another label.
        """
        await self._stored.send(member.backend, self.label)
        scores = await member.backend.score(self.known)
        self.check_label(scores.label)
        if self._expected is None:
            self._expected = scores.values
        off = mean_difference(scores.values, self._expected)
        if off > TOLERANCE:
            raise BadConfig(
                f"{member.backend.url} scores a known text with a difference of {off:.2f} per token from the same weights "
                f"elsewhere; rounding explains at most {TOLERANCE}: it serves another model or uses other settings"
            )
        self._serve(member)

    def _serve(self, member: Member) -> None:
        member.serving, member.reason = True, ""
        self._changed.set()

    def _none_left(self, how: str) -> EngineDead:
        why = "; ".join(f"{member.backend.url}: {member.reason}" for member in self.all)
        return EngineDead(f"no server is left, and {how}. {why}")

    async def _gather(self) -> None:
        """Ask all servers which weights they have; concurrent callers share one inquiry."""
        if not goes_on(self._gathering):
            self._gathering = asyncio.get_running_loop().create_task(self._gathered())
            self._gathering.add_done_callback(retrieve_exception)
        assert self._gathering is not None
        await asyncio.shield(self._gathering)

    def _stop_gathering(self) -> None:
        if self._gathering is not None and goes_on(self._gathering):
            self._gathering.cancel()

    async def _gathered(self) -> None:
        """Poll the servers until at least one answers; stop early if weights were sent.

        Raises:
            EngineDead: the waiting time ended.
        """
        began = asyncio.get_running_loop().time()
        async with self._updating:
            while not self.label:
                await self._asked_all()
                if not self.label:
                    if asyncio.get_running_loop().time() - began >= self._wait:
                        raise self._none_left(f"none answered in {self._wait:g} seconds")
                    await asyncio.sleep(min(0.5, self._wait))

    async def _asked_all(self) -> None:
        """Ask all servers to score the known text, and make those that answer active.

        The first answer sets the current label and scores, which all other answers must match.

        Raises:
            BadConfig: two servers have different weights.
        """
        scored = await asyncio.gather(*(member.backend.score(self.known) for member in self.all), return_exceptions=True)
        first: tuple[str, Scores] | None = None
        for member, got in zip(self.all, scored, strict=True):
            if isinstance(got, (ServerUnreachable, ServerFailure)):
                member.reason = str(got)
                continue
            if isinstance(got, BaseException):
                raise got
            first = first or (member.backend.url, got)
            off = mean_difference(got.values, first[1].values)
            if got.label != first[1].label or off > TOLERANCE:
                raise BadConfig(
                    f"{first[0]} and {member.backend.url} serve different weights: labels {first[1].label!r} and "
                    f"{got.label!r}, a difference of {off:.2f} per token on a known text. Start all with the same model"
                )
            self._serve(member)
        if first is not None:
            self.label, self._expected = first[1].label, first[1].values

    async def bring(self, weights: Any, version: int, expected: list[float] | None) -> None:
        """Send weights to the active servers; removed servers get the weights when they return.

        If no weights are stored (the first update, or one after a failed `write`), send them to all servers. No request
        may be running.

        Raises:
            BadConfig: a server refuses the first weights; a server that refuses later weights is removed.
            EngineDead: no server is left, before or after the update.
        """
        self._in_this_loop()
        first, to_all = self._stored.fresh, self._stored.empty
        if not to_all:  # the first weights need no active server
            await self.present()
        self._stop_gathering()  # nobody waits for it, and the new weights replace its result
        async with self._updating:
            members = self.all if to_all else self.serving  # including servers that a search has added
            self._stored.keep(await asyncio.to_thread(self._stored.write, weights))
            label = self._stored.label(version)
            self._name(version, label, expected, self._stored.adapter(label))
            for member in members:
                if member.beat is not None and goes_on(member.beat):  # it compares with the previous label
                    member.beat.cancel()
            outcomes = await asyncio.gather(*(self._brought(member) for member in members), return_exceptions=True)
        for member, outcome in zip(members, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._failed(member, outcome, first=first)
        if not self.serving:
            await self.present()

    async def _brought(self, member: Member) -> None:
        """Send a server the current weights and make it active; after an error of the server, try twice more."""
        for pause in PAUSES:
            try:
                return await self._take_in(member)
            except ServerFailure:
                await asyncio.sleep(pause)
        return await self._take_in(member)

    def _name(self, version: int, label: str, expected: list[float] | None, adapter: str) -> None:
        """Set the version, label, scores and adapter of the current weights, which requests use from now on."""
        self.label, self.version, self._expected, self._adapter = label, version, expected, adapter
        for member in self.all:
            member.backend.adapter = adapter

    def _failed(self, member: Member, error: BaseException, *, first: bool) -> None:
        """Remove a server that did not accept weights, and poll it.

        Raises:
            BadConfig: the server refused the first weights.
            BaseException: `error` itself, if it is not one of `FAILURES`.
        """
        if not isinstance(error, FAILURES):
            raise error
        if first and not isinstance(error, ServerUnreachable):
            raise BadConfig(
                f"weights cannot be sent to {member.backend.url}: {error}. Its log says why: does it serve the run's own "
                f"model, and see the folder of the weights ({self._stored.where})?"
            ) from error
        if member.serving:
            self.leave_out(member, member.losses, str(error))
            return
        member.reason = str(error)
        _log.warning("%s does not serve yet: %s", member.backend.url, error)
        self._look_for(member)

    def adopt(self, present: CurrentWeights) -> None:
        """Adopt the state of another process's fleet; see `Fleet.adopt`."""
        self._in_this_loop()
        self._name(present.version, present.label, present.expected, present.adapter)
        for member in self.all:
            if member.backend.url in present.serving:
                self._serve(member)
            else:
                member.serving, member.reason = False, "it did not take the last update"

    def present_weights(self) -> CurrentWeights:
        """Return the state to pass to `adopt` in another process."""
        serving = [member.backend.url for member in self.serving]
        return CurrentWeights(self.version, self.label, self._expected, self._adapter, serving)

    def close(self) -> None:
        """Cancel every request and health check, delete the stored weights and close all connections."""
        for member in self.all:
            for task in (*member.running, member.beat, member.search):
                if task is not None and goes_on(task):
                    task.cancel()
            member.backend.close()
        self._stop_gathering()
        self._stored.close()
