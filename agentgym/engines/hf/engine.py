"""An engine for any Hugging Face causal model: continuous batching over cache slots that persist across turns."""

# torch and transformers are typed in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import logging
import math
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from agentgym.engines.checked import CheckedIds
from agentgym.engines.hf.drafting import DraftResult, cut, drawn
from agentgym.engines.hf.library import LibraryModel
from agentgym.engines.hf.running import Running, Taker
from agentgym.engines.hf.sampling import uniforms
from agentgym.engines.hf.slots import PADDING, Row, SlotModel, unsupported
from agentgym.engines.hf.weights import load_model, update
from agentgym.engines.in_flight import AdmissionGate
from agentgym.engines.kinds import ENGINES
from agentgym.engines.protocol import Completion, Request, Sampling, TokenEngine
from agentgym.engines.slots import BLOCK, PREFILL, Slot, SlotTable, common_prefix
from agentgym.errors import BadConfig, Fault, Reason

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_log = logging.getLogger(__name__)


class HFEngine(AdmissionGate, TokenEngine):
    """A causal model of `transformers`, running in this process.

    `model` is a folder, a hub name, or a model object that a trainer updates: after every update call
    `load_weights(model.named_parameters(), version)`, which copies nothing, since the tensors are the model's own.
    Requests are batched over `slots` (default 64). A session's key-value cache stays in its slot between turns until the
    slot is needed; sessions share a slot, and its computation, while their tokens are equal. The same sequence of calls
    gives the same tokens, independent of timing. `context` is the maximum tokens of prompt and completion together
    (default: the model's own limit). A step admits no further request once its new prompt tokens reach `prefill_tokens`
    (default 8192). Prompts are padded together if the longest is at most `prefill_padding` percent (default 100) longer
    than the shortest: a lower value is faster on a CPU and changes the rounding.
    """

    kind = ENGINES["hf"]

    def __init__(
        self,
        model: "PreTrainedModel | str | Path",
        tokenizer: object = None,
        *,
        slots: int = 64,
        context: int | None = None,
        device: str = "cpu",
        dtype: str | None = None,
        prefill_tokens: int = PREFILL,
        prefill_padding: int = PADDING,
    ) -> None:
        super().__init__()
        if slots < 1 or prefill_tokens < 1:
            raise BadConfig(f"slots is {slots} and prefill_tokens is {prefill_tokens}; expected at least 1 each")
        if prefill_padding < 0:
            raise BadConfig(f"prefill_padding is {prefill_padding}; expected 0 or more, in percent")
        self.model, self.tokenizer = load_model(model, tokenizer, device, dtype)
        own = int(getattr(self.model.config, "max_position_embeddings", None) or 4096)
        self.context = own if context is None else context
        if not 1 < self.context <= own:
            raise BadConfig(f"context is {context}; expected 2 to {own}, the model's max_position_embeddings")
        self.policy_version = 0
        self.prefilled = self.decoded = self.reused = 0
        """Totals so far: prompt and draft tokens computed, tokens sampled, and draft tokens accepted."""
        self._prefill_tokens = prefill_tokens
        self._vocabulary = int(self.model.get_input_embeddings().weight.shape[0])
        self._checked = CheckedIds(self._vocabulary)
        reason = unsupported(self.model)
        if reason is not None:
            _log.warning("%s takes the generic path, one row at a time: %s", type(self.model).__name__, reason)
        if reason is None:
            self._backend: SlotModel | LibraryModel = SlotModel(self.model, slots, self.context, prefill_padding)
        else:
            self._backend = LibraryModel(self.model, slots, self.context)
        self._table = SlotTable(slots)
        self._waiting: list[Running] = []
        self._running: list[Running] = []
        self._task: asyncio.Task[None] | None = None
        self._arrivals = 0
        self._broken = ""

    async def complete(self, request: Request) -> Completion:
        """Return one completion, which is empty with finish `length` if the prompt fills the context.

        Raises:
            BadConfig: ids or options are invalid.
            Fault: the computation fails, the engine was closed, or the last weight update failed
                (`reason=Reason.ENGINE`).
        """
        self._check(request.prompt_ids, request.sampling, request.session)
        limit = request.room(self.context)
        if limit < 1:
            return Completion([], [], "length", self.policy_version)
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        running = Running(request, future, limit, uniforms(request.sampling.seed, limit))
        if request.draft is not None and request.sampling.plain() and request.sampling.temperature > 0:
            running.draft = cut(request.draft, limit)
        self._waiting.append(running)
        self._arrivals += 1
        self._notify()
        return await future

    async def score(self, ids: Sequence[int], temperature: float = 1.0) -> list[float]:
        """Return the log-probability of each token after the first, [tokens - 1]; temperature 0 counts as 1.

        Raises:
            BadConfig: ids or temperature are invalid, or the text exceeds the context.
            Fault: the computation fails, the engine was closed, or the last weight update failed.
        """
        self._check(list(ids), Sampling(temperature=temperature), "")
        if len(ids) > self.context:
            raise BadConfig(f"{len(ids)} tokens to score; the context is {self.context}")
        try:
            logits = self._backend.logits(ids)[:-1] / (temperature or 1.0)
        except Exception as error:
            raise Fault(f"scoring failed: {error}", reason=Reason.ENGINE) from error
        targets = torch.tensor(list(ids[1:]), device=logits.device)
        return logits.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1).tolist()

    def abort(self, session: str) -> None:
        """End the session's requests with finish `abort`, and clear its cache slot, unless other sessions share that."""
        for request in [r for r in (*self._waiting, *self._running) if r.request.session == session]:
            self._finish(request, "abort")
        self._waiting = [r for r in self._waiting if r.request.session != session]
        self._running = [r for r in self._running if r.request.session != session]
        self._checked.forget(session)
        self._leave(session)

    async def drained(self) -> None:
        """Wait until no request is running; waiting requests stay."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def load_weights(self, weights: str | Path | Iterable[tuple[str, "Tensor"]], version: int) -> None:
        """Load new weights after running requests have finished, and clear every cache.

        `weights` is a folder with safetensors or (name, tensor) pairs. The model's own tensors are not copied; an empty
        iterable means that the model was changed in place. After a failed update, waiting and new requests raise a Fault
        until an update succeeds.

        Raises:
            BadConfig: a name is unknown, a shape differs, or a folder lacks a parameter of the model.
            BadData: the folder is damaged.
        """
        with self._blocked():
            await self.drained()
            self._broken = "the last weight update failed half-way; load a complete set of weights"
            try:
                with torch.no_grad():
                    update(self.model, weights)
                self._broken, self.policy_version = "", version
            finally:
                self._table.forget_all()
                self._backend.refresh()
                if self._broken:  # submitted before the failure
                    waiting, self._waiting = self._waiting, []
                    self._fail(waiting, f"the hf engine cannot go on: {self._broken}")

    def close(self) -> None:
        """Abort all requests and free the caches; later requests raise a Fault."""
        for session in {r.request.session for r in (*self._waiting, *self._running)}:
            self.abort(session)
        self._table.forget_all()
        self._broken = "the engine was closed"

    def _check(self, ids: list[int], sampling: Sampling, session: str) -> None:
        if self._broken:
            raise Fault(f"the hf engine cannot go on: {self._broken}", reason=Reason.ENGINE)
        if not ids:
            raise BadConfig("the prompt is empty; expected at least one token id")
        wrong = self._checked.wrong(session, ids)
        if wrong is not None:
            raise BadConfig(f"token id {wrong} in the prompt; the model's vocabulary has {self._vocabulary}")
        if sampling.max_tokens < 1 or sampling.temperature < 0 or not math.isfinite(sampling.temperature):
            raise BadConfig(f"{sampling}: expected max_tokens of at least 1 and a temperature of at least 0")

    # The loop

    def _notify(self) -> None:
        if self._task is None and self._waiting and self.is_open:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        """Step until no request is left. The task ends with the last request, so it does not outlive its event loop.

        Raises:
            CancelledError: the event loop is shutting down.
        """
        try:
            while self._running or (self._waiting and self.is_open):
                await self._settle()
                self._step()
        except asyncio.CancelledError:  # the event loop is being shut down
            for request in (*self._waiting, *self._running):
                request.future.cancel()
            self._drop_cancelled()
            raise
        except Exception as error:
            self._fail([*self._waiting, *self._running], f"scheduling failed: {error}\n{traceback.format_exc()}")
            self._waiting = []
        finally:
            self._task = None

    async def _settle(self) -> None:
        """Let every episode that can continue submit its next request, so that their prefills share a step."""
        quiet = 0
        while quiet < 2:
            before = self._arrivals
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._arrivals == before else 0

    def _step(self) -> None:
        """Admit requests that fit, then append each running request's pending tokens and draw its next token."""
        self._drop_cancelled()
        if self.is_open:
            self._admit()
        if not self._running:
            return
        sharing: dict[Slot, list[Running]] = {}  # requests with equal tokens so far have one row
        for request in self._running:
            assert request.slot is not None
            sharing.setdefault(request.slot, []).append(request)
        running = [request for requests in sharing.values() for request in requests]
        try:
            rows = [Row(slot.number, len(slot.cached_ids), slot.pending, 1 + rs[0].drafted) for slot, rs in sharing.items()]
            draws = [(r.draw(), r.draft, r.random) for r in running]
            replies = iter(drawn(self._backend.forward(rows), draws, [len(rs) for rs in sharing.values()]))
        except Exception as error:
            self._fail(running, f"a step of {len(running)} requests failed: {error}\n{traceback.format_exc()}")
            return
        for slot, requests in sharing.items():
            takers = [(request, next(replies)) for request in requests]
            # A watching caller may have aborted a request whose tokens come later.
            for part, alike in self._parted(slot, [taker for taker in takers if not taker[0].future.done()]):
                self._take(part, alike)
        self._running = [r for r in running if not r.future.done()]

    def _parted(self, slot: Slot, takers: list[Taker]) -> list[tuple[Slot, list[Taker]]]:
        """Return the takers of a slot by their next token, and a slot for each; all but the first get a copy of `slot`."""
        by_token: dict[int, list[Taker]] = {}
        for request, reply in takers:
            by_token.setdefault(reply.ids[0] if len(takers) > 1 else 0, []).append((request, reply))
        parts = [(slot, alike) for alike in by_token.values()]
        for number, (_, alike) in enumerate(parts[1:], 1):
            other = self._table.split(slot, [request.request.session for request, _ in alike])
            self._backend.copy(slot.number, other.number, len(slot.cached_ids) + len(slot.pending))
            for request, _ in alike:
                request.slot = other
            parts[number] = (other, alike)
        return parts

    def _take(self, slot: Slot, takers: list[Taker]) -> None:
        """Store the tokens that requests of a slot got, the same for all; end those that are complete."""
        takers = [taker for taker in takers if not taker[0].future.done()]  # a watching caller may have aborted others
        if not takers:
            return
        first, reply = takers[0]
        if first.draft is not None:
            slot.pending = slot.pending[: len(slot.pending) - first.drafted]  # the cache holds its accepted part
            first.draft = None
        for place, token in enumerate(reply.ids):
            slot.cached_ids.extend(slot.pending)
            slot.pending = (token,)
            for request, own in takers:
                if not request.future.done():
                    self._store(request, own, place)
            if first.future.done():
                return

    def _store(self, request: Running, reply: DraftResult, place: int) -> None:
        """Add the token at a place of the reply to a request; end the request if it is complete."""
        token, logprob = reply.ids[place], reply.logprobs[place]
        if not math.isfinite(logprob):
            self._fail([request], "the model's logits are not finite: its weights have diverged or are damaged")
            return
        request.ids.append(token)
        request.logprobs.append(logprob)
        request.likeliest += reply.likeliest[place : place + 1]
        reused = place < len(reply.ids) - reply.fresh
        self.reused, self.decoded = self.reused + reused, self.decoded + (not reused)
        request.reused += reused
        if self._ends(request, token, logprob):
            self._finish(request, "stop")
        elif len(request.ids) == request.limit:
            self._finish(request, "length")

    def _ends(self, request: Running, token: int, logprob: float) -> bool:
        watched = request.request.watch is not None and not request.future.done() and request.request.watch(token, logprob)
        return watched or token in request.request.sampling.stop_ids

    def _admit(self) -> None:
        """Give slots to waiting requests: first those whose session has a cached prefix, then in order of arrival."""
        budget, full = self._prefill_tokens, False
        started: dict[tuple[int, ...], list[Running]] = {}  # in this step, by length and end of their prompts
        for request in sorted(self._waiting, key=lambda r: self._table.of(r.request.session) is None):
            if len(self._running) == len(self._table.slots):  # so that each can have a slot once tokens differ
                break
            prompt, session = request.request.prompt_ids, request.request.session
            known = self._table.of(session)
            if known is not None and session in known.running:
                continue
            alike = started.setdefault((len(prompt), *prompt[-BLOCK:]), [])
            leader = next((r for r in alike if r.request.prompt_ids == prompt), None)
            if leader is not None and leader.slot is not None and request.draft is None:
                self._table.join(session, leader.slot)
                request.slot = leader.slot
                self._running.append(request)
                continue
            if budget <= 0 or (full and known is None):
                continue
            donor = self._table.donor(prompt, session) if self._backend.shares else None
            if donor is not None and donor.later >= donor.now + BLOCK:
                continue  # the next step computes a prefix that this request can copy
            slot = self._table.claim(session, prompt)
            if slot is None:
                full = full or known is None
                continue
            request.slot = slot
            if donor is not None:
                if slot is not donor.slot:  # it may have been evicted
                    self._backend.copy(donor.slot.number, slot.number, donor.now)
                slot.cached_ids = prompt[: donor.now]
            self._start(request, slot)
            if self._backend.shares and request.draft is None:
                alike.append(request)
            budget -= len(slot.pending)
        self._waiting = [r for r in self._waiting if r.slot is None]

    def _start(self, request: Running, slot: Slot) -> None:
        # At least the last token is computed: its logits are needed.
        start = min(common_prefix(slot.cached_ids, request.request.prompt_ids), len(request.request.prompt_ids) - 1)
        if not slot.keys:
            self._table.announce(slot, request.request.prompt_ids)
        del slot.cached_ids[start:]
        slot.pending = [*request.request.prompt_ids[start:], *(request.draft.ids if request.draft else ())]
        self.prefilled += len(slot.pending)
        self._running.append(request)

    def _finish(self, request: Running, finish: str) -> None:
        if request.slot is not None:
            request.slot.stop(request.request.session)
        if not request.future.done():
            reply = Completion(request.ids, request.logprobs, finish, self.policy_version)
            reply.reused, reply.likeliest = request.reused, request.likeliest
            request.future.set_result(reply)

    def _leave(self, session: str) -> None:
        """Take a session out of its slot, whose cache is cleared with the last one."""
        cleared = self._table.leave(session)
        if cleared is not None:
            self._backend.forget(cleared.number)

    def _fail(self, requests: list[Running], message: str) -> None:
        """End requests with a fault and clear their caches."""
        for request in requests:
            if request.slot is not None:
                self._leave(request.request.session)
            if not request.future.done():
                request.future.set_exception(Fault(message, reason=Reason.ENGINE))
        self._running = [r for r in self._running if r not in requests]

    def _drop_cancelled(self) -> None:
        gone = [r for r in (*self._waiting, *self._running) if r.future.done()]
        for request in gone:
            if request.slot is not None:
                request.slot.stop(request.request.session)
        if gone:
            self._waiting = [r for r in self._waiting if not r.future.done()]
            self._running = [r for r in self._running if not r.future.done()]
