"""From a client's messages to a completion in exact tokens, recorded in the client's session."""

import asyncio
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from agentgym.agents.encode import Foreign
from agentgym.agents.template import ChatTemplate
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.seeding import derive
from agentgym.engines import Completion, Sampling, TokenEngine
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig, Fault
from agentgym.gateway.requests import Asked, Refusal, refusal_of
from agentgym.gateway.sessions import Held, Session, Sessions
from agentgym.gateway.tools import Message, past, read_reply, refused, results, tools_key

COLDEST = 0.01
"""The lowest temperature but 0: below it log-probabilities overflow, and vLLM would sample at this one instead."""
_KEPT = 64  # sets of tools whose templates are kept
_LONG = 32 << 10  # bytes of a body; of what is longer the encoding would be felt by other clients


@dataclass(slots=True)
class Answer:
    """What a request brought."""

    prompt_ids: list[int]
    completion: Completion
    text: str
    prompt_logprobs: list[float] | None = None
    """Of every prompt token after the first."""
    calls: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """The tool calls of the reply: id, name and arguments."""


class Gateway:
    """Any token engine, asked in messages; `sessions` holds what was said, as turns to train on.

    `temperature` overrules what clients ask for, filters included, so that every reply can be trained on (but at 0);
    without it a reply drawn greedily or with filters is context only. `turn_tokens` is what a reply gets whose client
    names no limit.
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
        self._tokenizer = tokenizer
        self._templates: dict[str, ChatTemplate] = {}
        self._thread = ThreadPoolExecutor(1, "gateway")

    async def answer(self, asked: Asked, name: str) -> Answer:
        """Answer a request of a session and record it; raises Refusal. Cancelled, it ends its request in the engine."""
        if asked.model != self.name:
            raise Refusal(
                404, f"The model `{asked.model[:200]}` does not exist; this is `{self.name}`", "model_not_found", "model"
            )
        session = self.sessions.get(name)
        session.requests += 1
        session.running += 1
        try:
            return await self._answer(asked, session, session.requests)
        except BadConfig as error:
            raise refusal_of(refused(error)) from error
        except Fault as error:
            session.unanswered += 1
            raise Refusal(503, f"the engine failed: {str(error)[:300]}", "engine_failed") from error
        finally:
            session.running -= 1

    async def _answer(self, asked: Asked, session: Session, number: int) -> Answer:
        template, prompt, row_end, known = await self._encoded(asked, session)
        if len(prompt) >= self.engine.context:
            raise Refusal(
                400,
                f"This model's maximum context length is {self.engine.context} tokens. However, your messages "
                f"resulted in {len(prompt)} tokens. Please reduce the length of the messages.",
                "context_length_exceeded",
                "messages" if asked.chat else "prompt",
            )
        if asked.prompt_logprobs:
            return await self._score(asked, prompt)
        sampling = self._sampling(asked, session.name, number, template)
        cache = row_end.cache if row_end else f"{session.name}/{number}"
        completion = await self._generate(prompt, sampling, cache)
        if completion.finish == "abort" or not completion.ids:
            session.unanswered += 1
            raise Refusal(503, "the request was aborted in the engine; ask again", "aborted")
        answer = Answer(prompt, completion, "")
        turn = self._turn(asked, known, answer, sampling)
        after = Held(cache)
        if isinstance(template, ToolTemplate):
            answer.text, after.attempts, after.said = read_reply(template, asked.tools, answer.text, number)
            answer.calls = after.said.get("calls", [])
            after.ended = template.ends(completion.ids, called=bool(answer.calls))
        else:
            after.said = {"role": "assistant", "content": answer.text}
            after.ended = template.ended(completion.ids)
        self.sessions.record(session, turn, row_end, after, asked.messages, shown(asked))
        return answer

    async def _encoded(self, asked: Asked, session: Session) -> tuple[ChatTemplate, list[int], Held | None, int]:
        """Return template and prompt of a request; a long one is encoded in a thread, so that nobody waits for it."""

        def encode() -> tuple[ChatTemplate, list[int], Held | None, int]:
            template = self._template(asked)
            return template, *self._prompt(asked, session, template)

        if asked.size <= _LONG:
            return encode()
        return await asyncio.get_running_loop().run_in_executor(self._thread, encode)

    def _template(self, asked: Asked) -> ChatTemplate:
        """Return the chat template with the tools and options of a request in it."""
        name = shown(asked)
        if not name:
            return self.template
        template = self._templates.get(name)
        if template is None:
            if len(self._templates) >= _KEPT:
                self._templates.clear()
            source = str(getattr(self._tokenizer, "chat_template", ""))
            for option in asked.template_options:
                if not re.search(rf"\b{option}\b", source):
                    raise BadConfig(f"chat_template_kwargs.{option}: the chat template of this model does not know it")
            template = (
                ToolTemplate(self._tokenizer, asked.template_options, asked.tools, encoder=self.template.encoder)
                if asked.tools
                else ChatTemplate(self._tokenizer, asked.template_options, encoder=self.template.encoder)
            )
            self._templates[name] = template
        return template

    def _prompt(self, asked: Asked, session: Session, template: ChatTemplate) -> tuple[list[int], Held | None, int]:
        """Return the tokens of a request, the held conversation that they extend, and its number of messages."""
        if not asked.chat:
            prompt = list(self.template.encoder.plain(asked.prompt)) if isinstance(asked.prompt, str) else asked.prompt
            return prompt, session.find_ids(prompt), 0
        row_end, count = session.find(asked.messages, shown(asked))
        if row_end is not None:
            added = asked.messages[count:]
            try:
                if row_end.attempts and isinstance(template, ToolTemplate):
                    contents = results(added, row_end.said["calls"])
                    if contents is not None:
                        return (
                            session.ids(row_end) + template.results(contents, row_end.attempts, row_end.ended),
                            row_end,
                            count,
                        )
                else:
                    return session.ids(row_end) + template.extension(_pieces(added), row_end.ended), row_end, count
            except BadConfig:  # messages that this template cannot put after a reply: begin anew
                pass
        if isinstance(template, ToolTemplate):
            return template.whole(past(template, asked.messages)), None, 0
        return template.whole(_pieces(asked.messages)), None, 0

    def _sampling(self, asked: Asked, name: str, number: int, template: ChatTemplate) -> Sampling:
        sampling, stops = asked.sampling, () if asked.ignore_eos else template.stop_ids
        if self._temperature is not None:
            sampling = Sampling(self._temperature, sampling.max_tokens, sampling.stop_ids, sampling.seed)
        _check_temperature(sampling.temperature, "temperature")
        seed = sampling.seed if asked.seeded else derive(self._seed, name, number)
        return dataclasses.replace(sampling, seed=seed, stop_ids=tuple(dict.fromkeys((*sampling.stop_ids, *stops))))

    async def _generate(self, prompt: list[int], sampling: Sampling, cache: str) -> Completion:
        self._running[cache] += 1
        try:
            return await self.engine.generate(prompt, sampling, cache)
        except asyncio.CancelledError:  # the client has gone
            if self._running[cache] == 1:  # else it would end another request of the same row
                self.engine.abort(cache)
            raise
        finally:
            self._running[cache] -= 1
            if not self._running[cache]:
                del self._running[cache]

    async def _score(self, asked: Asked, prompt: list[int]) -> Answer:
        """Score a prompt, record nothing; one greedy token comes with it, as from vLLM."""
        _check_temperature(asked.prompt_temperature, "prompt_logprobs_temperature")
        scores = await self.engine.score(prompt, asked.prompt_temperature)
        completion = await self.engine.generate(prompt, Sampling(temperature=0, max_tokens=1), "gateway score")
        return Answer(prompt, completion, self.template.encoder.decode(completion.ids), scores)

    def _turn(self, asked: Asked, known: int, answer: Answer, sampling: Sampling) -> Turn:
        """Return the turn an answer makes, and put into the answer what its client is shown."""
        ids, decode = answer.completion.ids, self.template.encoder.decode
        text = decode(ids[:-1] if ids[-1] in sampling.stop_ids else ids)
        answer.text = self.template.final(text) if asked.chat else text
        turn = Turn(
            asked.messages[-1]["content"] if asked.chat else decode(answer.prompt_ids),
            prompt_ids=answer.prompt_ids,
            output_ids=ids,
            logprobs=answer.completion.logprobs,
            messages=[dict(message) for message in asked.messages[known:]],
            text=text,
            action=answer.text,
            finish=answer.completion.finish,
            policy_version=answer.completion.policy_version,
            extra={"temperature": sampling.temperature},
        )
        if not sampling.plain() or sampling.temperature == 0:
            turn.extra["train"] = False
        return turn

    def counts(self) -> dict[str, int]:
        """Return what the open sessions hold together."""
        total: Counter[str] = Counter()
        for session in self.sessions.open.values():
            total.update(session.counts())
        return {"sessions": len(self.sessions.open), "finished": self.sessions.finished, **total}


def shown(asked: Asked) -> str:
    """Return what tells the tools and template options of one request from another's; empty without any."""
    options = json.dumps(asked.template_options, sort_keys=True) if asked.template_options else ""
    return tools_key(asked.tools) + options


def _check_temperature(value: float, name: str) -> None:
    if 0 < value < COLDEST:
        raise Refusal(400, f"{name} is {value:g}; expected 0, which is greedy, or at least {COLDEST}", None, name)


def _pieces(messages: Sequence[Message]) -> list[tuple[str, list[str]]]:
    """Return messages whose contents can become no control token."""
    return [(message["role"], [Foreign(message["content"])]) for message in messages]
