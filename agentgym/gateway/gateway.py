"""Turn a client's messages into exact prompt tokens, sample a completion, and record it in the client's session."""

import asyncio
import dataclasses
import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentgym.agents.encode import UntrustedText
from agentgym.agents.template import ChatTemplate
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.outcome import Finish
from agentgym.core.seeding import derive
from agentgym.engines import Completion, Sampling, TokenEngine, Watch
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig, Fault
from agentgym.gateway.choices import Answer, Choice, follow
from agentgym.gateway.forms import answered, with_form
from agentgym.gateway.requests import GenerationRequest, Refusal, reason_of
from agentgym.gateway.sessions import ChatState, Session, Sessions
from agentgym.gateway.telling import Hear, ReplyStreamer
from agentgym.gateway.tools import Message, call_head, past, read_reply, refused, results, tools_key

COLDEST = 0.01
"""Lowest temperature above 0: below it, log-probabilities overflow, and vLLM would sample at 0.01 instead."""
_ABORTED = (503, "the request was aborted in the engine; ask again", "aborted")
_KEPT = 64  # maximum number of cached templates
_LONG = 32 << 10  # bytes of a body; encoding a longer one would delay other clients


class Gateway:
    """A token engine behind a messages API; `sessions` records conversations as turns to train on.

    `temperature` overrides the sampling options of clients, including filters such as top_p, so that every reply can be
    trained on (except at 0). If it is None, greedy or filtered replies are recorded but not trained on. `turn_tokens` limits
    a reply if its client sets no limit. `response_format` only adds an instruction; decoding is not constrained.
    """

    def __init__(
        self,
        engine: TokenEngine,
        name: str = "agentgym",
        *,
        out: str | Path | None = None,
        temperature: float | None = None,
        turn_tokens: int = 1024,
        seed: int = 0,
        tokenizer: object = None,
    ) -> None:
        tokenizer = engine.tokenizer if tokenizer is None else tokenizer
        if tokenizer is None:
            raise BadConfig(f"{type(engine).__name__} brings no tokenizer: pass the model's own as tokenizer=…")
        if turn_tokens < 1 or not (temperature is None or temperature == 0 or COLDEST <= temperature < 100):
            raise BadConfig(
                f"turn_tokens {turn_tokens}, temperature {temperature}: expected 1 or more; 0, or {COLDEST} or more"
            )
        self.engine, self.name, self.turn_tokens = engine, name, turn_tokens
        self.template = ChatTemplate(tokenizer)
        self.sessions = Sessions(out)
        self._temperature, self._seed = temperature, seed
        self._running: Counter[str] = Counter()
        self._scores = itertools.count()
        self._tokenizer = tokenizer
        self._templates: dict[str, ChatTemplate] = {}
        self._thread = ThreadPoolExecutor(1, "gateway")

    async def answer(self, request: GenerationRequest, name: str, hear: Hear | None = None) -> Answer:
        """Answer a request in the session `name` and record the turn; cancellation aborts the request in the engine.

        `hear` receives pieces of the replies during sampling. A request for prompt log-probabilities is not recorded.

        Raises:
            Refusal: the session is full, its budget is used up, or the engine fails, aborts or rejects the request.
        """
        self._check_model(request)
        session = self.sessions.get(name)
        if self.sessions.full(session):
            raise Refusal(400, f"this session holds {session.tokens} tokens, more than one may: finish it", "session_full")
        if over := session.refuse_over_budget():
            raise Refusal(403, f"the budget of this attempt is used up: {over}", "budget_used_up")
        session.requests += 1
        session.running += 1
        try:
            return await self._answer(request, session, session.requests, hear)
        except BadConfig as error:
            raise Refusal(400, reason_of(refused(error))) from error
        except Fault as error:
            session.unanswered += 1
            raise Refusal(503, f"the engine failed: {str(error)[:300]}", "engine_failed") from error
        finally:
            session.running -= 1

    def _check_model(self, request: GenerationRequest) -> None:
        if request.model != self.name:
            why = f"The model `{request.model[:200]}` does not exist; this is `{self.name}`"
            raise Refusal(404, why, "model_not_found", "model")

    async def count(self, request: GenerationRequest, name: str) -> int:
        """Return the number of tokens in a request's prompt; nothing is recorded.

        Raises:
            Refusal: the engine or the template rejects the request.
        """
        self._check_model(request)
        try:
            template, prompt, _, _ = await self._encoded(request, self.sessions.open.get(name) or Session(name))
            return len(prompt) + len(self._forced(request, template)[1])
        except BadConfig as error:
            raise Refusal(400, reason_of(refused(error))) from error

    async def _answer(self, request: GenerationRequest, session: Session, number: int, hear: Hear | None) -> Answer:
        template, prompt, row_end, known = await self._encoded(request, session)
        head, head_ids = self._forced(request, template)
        prompt = prompt + head_ids
        self._check_room(request, prompt)
        if request.prompt_logprobs:
            return await self._score(request, prompt)
        state = await session.state() if session.state else None
        cache = row_end.cache if row_end else f"{session.name}/{number}"
        samplings = [self._sampling(request, session, number, template, place) for place in range(request.n)]
        tellers = follow(request, template, head, samplings, prompt, hear)
        completions = await self._completions(prompt, samplings, cache, tellers)
        if any(completion.finish == Finish.ABORT or not completion.ids for completion in completions):
            session.unanswered += 1
            raise Refusal(*_ABORTED)
        answer, ends = Answer(prompt, []), list[ChatState]()
        where = session.place(prompt, row_end, request.messages, _context(request))
        asking = request.messages[-1]["content"] if request.chat else self.template.encoder.decode(prompt)
        for place, completion in enumerate(completions):
            teller = tellers[place][0] if tellers else None
            choice, turn = self._choice(request, asking, prompt, known, completion, samplings[place], teller)
            turn.state_key = state
            after = ChatState(
                _numbered(cache, place), before=row_end, new=request.messages[known:], instructed=request.instructed
            )
            self._store_reply(request, template, head, choice, after, number * request.n + place)
            choice.rest = teller.rest(choice.text) if teller else (choice.text, completion.ids, completion.logprobs)
            self.sessions.record(session, turn, where, after)
            answer.choices.append(choice)
            ends.append(after)
        session.keep(ends, request.id)
        return answer

    def _check_room(self, request: GenerationRequest, prompt: list[int]) -> None:
        if len(prompt) >= self.engine.context:
            raise Refusal(
                400,
                f"This model's maximum context length is {self.engine.context} tokens. However, your messages "
                f"resulted in {len(prompt)} tokens. Please reduce the length of the messages.",
                "context_length_exceeded",
                "messages" if request.chat else "prompt",
            )

    def _forced(self, request: GenerationRequest, template: ChatTemplate) -> tuple[str, list[int]]:
        """Return the beginning of a reply that must call a tool, as text and as tokens; empty if no call is required.

        The tokens end the prompt and begin with the template's text for a reply without a thought; the text does not.

        Raises:
            Refusal: the model's replies always begin with a thought or a header.
        """
        if request.forced is None or not isinstance(template, ToolTemplate):
            return "", []
        if template.opened or (template.prefix.strip() and "</think>" not in template.prefix):
            raise Refusal(
                400,
                "this model's replies begin with a thought or a header, so a call cannot be forced: "
                "tool_choice must be auto or none",
                "unsupported_parameter",
                "tool_choice",
            )
        head = call_head(template.family, request.forced)
        return head, template.encoder.encode([template.prefix + head])

    async def _completions(
        self, prompt: list[int], samplings: Sequence[Sampling], cache: str, tellers: Sequence[tuple[ReplyStreamer, Watch]]
    ) -> list[Completion]:
        work = [
            self._generate(prompt, sampling, _numbered(cache, place), tellers[place][1] if tellers else None)
            for place, sampling in enumerate(samplings)
        ]
        if len(work) == 1:
            return [await work[0]]
        tasks = [asyncio.ensure_future(completion) for completion in work]
        try:
            return list(await asyncio.gather(*tasks))
        finally:  # if one fails or the client disconnects, cancel the others
            for task in tasks:
                task.cancel()

    def _store_reply(
        self, request: GenerationRequest, template: ChatTemplate, head: str, choice: Choice, after: ChatState, number: int
    ) -> None:
        """Store a reply as the client sees it (text and calls) in `choice` and in the recorded conversation `after`."""
        ids = choice.completion.ids
        if request.form and not isinstance(template, ToolTemplate):
            choice.text = answered(choice.text, bool(template.opened))
        if not isinstance(template, ToolTemplate):
            after.reply, after.ended = {"role": "assistant", "content": choice.text}, template.ended(ids)
            return
        text = head + choice.text
        if request.no_calls:
            choice.text, after.reply = text, {"role": "assistant", "content": text}
        else:
            choice.text, after.attempts, after.reply = read_reply(
                template, request.tools, text, number, single=request.one_call
            )
        choice.calls = after.reply.get("calls", [])
        if request.form and not choice.calls:
            choice.text = after.reply["content"] = answered(choice.text, bool(template.opened))
        after.ended = template.ends(ids, called=bool(choice.calls))

    async def _encoded(
        self, request: GenerationRequest, session: Session
    ) -> tuple[ChatTemplate, list[int], ChatState | None, int]:
        """Return a request's template, followed by the results of `_prompt`; a long prompt is encoded in a thread.

        Raises:
            Refusal: there are more messages than the model's context has tokens.
        """

        def encode() -> tuple[ChatTemplate, list[int], ChatState | None, int]:
            template = self._template(request)
            return template, *self._prompt(request, session, template)

        if len(request.messages) > self.engine.context:  # before encoding: every message has at least one token
            raise Refusal(
                400,
                f"This model's maximum context length is {self.engine.context} tokens. However, there are "
                f"{len(request.messages)} messages. Please reduce their number.",
                "context_length_exceeded",
                "messages",
            )
        if request.size <= _LONG:
            return encode()
        return await asyncio.get_running_loop().run_in_executor(self._thread, encode)

    def _template(self, request: GenerationRequest) -> ChatTemplate:
        """Return the chat template for a request's tools and template options.

        Raises:
            BadConfig: the template does not use an option.
        """
        name = template_key(request)
        if not name:
            return self.template
        template = self._templates.get(name)
        if template is None:
            if len(self._templates) >= _KEPT:
                self._templates.clear()
            source = str(getattr(self._tokenizer, "chat_template", ""))
            for option in request.template_options:
                if not re.search(rf"\b{option}\b", source):
                    raise BadConfig(f"chat_template_kwargs.{option}: the chat template of this model does not know it")
            template = (
                ToolTemplate(self._tokenizer, request.template_options, request.tools, encoder=self.template.encoder)
                if request.tools
                else ChatTemplate(self._tokenizer, request.template_options, encoder=self.template.encoder)
            )
            self._templates[name] = template
        return template

    def _prompt(
        self, request: GenerationRequest, session: Session, template: ChatTemplate
    ) -> tuple[list[int], ChatState | None, int]:
        """Return the prompt's tokens, the conversation they extend (None: new), and its number of request messages."""
        if not request.chat:
            prompt = list(self.template.encoder.plain(request.prompt)) if isinstance(request.prompt, str) else request.prompt
            return prompt, session.find_ids(prompt), 0
        row_end, count = session.find(request.messages, _context(request))
        if row_end is not None:
            added = request.messages[count:]
            try:
                if row_end.attempts and isinstance(template, ToolTemplate):
                    heard = results(added, row_end.reply["calls"])
                    if heard is not None:
                        bridge = template.results(heard[0], row_end.attempts, row_end.ended, heard[1])
                        return session.ids(row_end) + bridge, row_end, count
                else:
                    return session.ids(row_end) + template.extension(_pieces(added), row_end.ended), row_end, count
            except BadConfig:  # the template cannot append these messages: encode from the start
                pass
        messages = with_form(request.messages, request.form, tools=bool(request.tools))
        if isinstance(template, ToolTemplate):
            return template.whole(past(template, messages)), None, 0
        return template.whole(_pieces(messages)), None, 0

    def _sampling(
        self, request: GenerationRequest, session: Session, number: int, template: ChatTemplate, place: int
    ) -> Sampling:
        """Return the sampling options of reply number `place` to request `number`; each reply has a different seed."""
        sampling, stops = request.sampling, () if request.ignore_eos else template.stop_ids
        if session.budget.turn_tokens:
            sampling = dataclasses.replace(sampling, max_tokens=min(sampling.max_tokens, session.budget.turn_tokens))
        if self._temperature is not None:
            sampling = Sampling(self._temperature, sampling.max_tokens, sampling.stop_ids, sampling.seed)
        _check_temperature(sampling.temperature, "temperature")
        name = session.name
        own = derive(self._seed, name, number, place) if place else derive(self._seed, name, number)
        seed = (sampling.seed + place) % 2**63 if request.seeded else own
        return dataclasses.replace(sampling, seed=seed, stop_ids=tuple(dict.fromkeys((*sampling.stop_ids, *stops))))

    async def _generate(self, prompt: list[int], sampling: Sampling, cache: str, watch: Watch | None) -> Completion:
        self._running[cache] += 1
        try:
            return await self.engine.generate(prompt, sampling, cache, watch=watch)
        except asyncio.CancelledError:  # the client has disconnected
            if self._running[cache] == 1:  # otherwise this would abort another request of the row
                self.engine.abort(cache)
            raise
        finally:
            self._running[cache] -= 1
            if not self._running[cache]:
                del self._running[cache]

    async def _score(self, request: GenerationRequest, prompt: list[int]) -> Answer:
        # Nothing is recorded; one greedy token comes with the scores, as from vLLM.
        _check_temperature(request.prompt_temperature, "prompt_logprobs_temperature")
        name = f"gateway score/{next(self._scores)}"  # unique, or a fleet would send all of them to one server
        while True:
            version = self.engine.policy_version
            scores = await self.engine.score(prompt, request.prompt_temperature)
            completion = await self._generate(prompt, Sampling(temperature=0, max_tokens=1), name, None)
            self.engine.abort(name)  # free its cache
            if version == self.engine.policy_version:  # otherwise the weights may have changed between the two
                break
        if completion.finish == Finish.ABORT:
            raise Refusal(*_ABORTED)
        text = self.template.encoder.decode(completion.ids)
        rest = (text, completion.ids, completion.logprobs)
        return Answer(prompt, [Choice(completion, text, rest=rest)], scores)

    def _choice(
        self,
        request: GenerationRequest,
        asking: str,
        prompt: list[int],
        known: int,
        completion: Completion,
        sampling: Sampling,
        teller: ReplyStreamer | None,
    ) -> tuple[Choice, Turn]:
        """Return a completion as a reply and as a turn; earlier turns recorded the first `known` messages."""
        ids, decode = completion.ids, self.template.encoder.decode
        text = decode(ids[:-1] if ids[-1] in sampling.stop_ids else ids)
        heard = teller.end() if teller else text
        choice = Choice(completion, self.template.final(heard) if request.chat else heard)
        choice.stopped = teller.stopped if teller else None
        turn = Turn(
            asking,
            prompt_ids=prompt,
            output_ids=ids,
            logprobs=completion.logprobs,
            messages=[dict(message) for message in request.messages[known:]],
            text=text,
            action=choice.text,
            finish=completion.finish,
            policy_version=completion.policy_version,
            extra={"temperature": sampling.temperature},
        )
        if not sampling.plain() or sampling.temperature == 0:
            turn.extra["train"] = False
        return choice, turn

    def counts(self) -> dict[str, int]:
        """Return the numbers of open and finished sessions, and the sums of `Session.counts` over the open ones."""
        total: Counter[str] = Counter()
        for session in self.sessions.open.values():
            total.update(session.counts())
        return {"sessions": len(self.sessions.open), "finished": self.sessions.finished, **total}


def _context(request: GenerationRequest) -> str:
    """Return a key for everything but messages that identifies a conversation: tools, template options, output format."""
    return template_key(request) + (f"{request.form.schema}\n{request.form.about}" if request.form else "")


def template_key(request: GenerationRequest) -> str:
    """Return a key that identifies a request's tools and template options; empty if it has neither."""
    options = json.dumps(request.template_options, sort_keys=True) if request.template_options else ""
    return tools_key(request.tools) + options


def _numbered(cache: str, place: int) -> str:
    """Return the engine's session id for reply number `place`; reply 0 continues the cached row."""
    return f"{cache}/{place}" if place else cache


def _check_temperature(value: float, name: str) -> None:
    if 0 < value < COLDEST:
        raise Refusal(400, f"{name} is {value:g}; expected 0, which is greedy, or at least {COLDEST}", None, name)


def _pieces(messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    """Return messages as (role, pieces) for the template, encoded so that no content becomes a control token."""
    return [(message["role"], [UntrustedText(message["content"])]) for message in messages]
