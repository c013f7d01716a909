"""Base of agents with a language model and exact tokens: configuration, and one turn from prompt tokens to action."""

import copy
import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack, cast

from agentgym.agents.cut import noticed, tells
from agentgym.agents.decide import AUTO, NATIVE, TEXT, check_way, decide
from agentgym.agents.encode import UntrustedText
from agentgym.agents.fields import field_values
from agentgym.agents.parse import PROJECTIONS
from agentgym.agents.phrases import ACT
from agentgym.agents.prompt import Opening, Prompt, load_prompt
from agentgym.agents.template import ChatTemplate
from agentgym.core.actions import Call, Tool, key, parse_call
from agentgym.core.env import Task, TextEnv
from agentgym.core.hints import Hint
from agentgym.core.outcome import Finish
from agentgym.engines import Completion, Sampling, TokenEngine
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig, no_such

LEAST_OBSERVATION = 64  # tokens: below this the line that says how much was cut would not fit


class AgentOptions(TypedDict, total=False):
    """Keyword arguments of every agent with a language model; docs/guides/agents.md describes them."""

    prompt: str | Path | Prompt | None
    sampling: Sampling | None
    tools: str
    turn_tokens: int | None
    observation_tokens: int
    context_tokens: int | None
    template_options: Mapping[str, object] | None


def option_names(kind: "type[TokenAgent]") -> list[str]:
    """Return the keyword arguments of an agent's class, including those of its base classes."""
    own = inspect.signature(kind).parameters.values()
    return [
        *(parameter.name for parameter in own if parameter.kind is parameter.KEYWORD_ONLY),
        *AgentOptions.__annotations__,
    ]


class TokenAgent:
    """Configuration of an agent whose turns are exact tokens; subclasses define the memory."""

    default_prompt = "react"
    """Name of the default prompt in environments without tools."""
    tools_prompt = "react-tools"
    """Name of the default prompt in environments with tools that are called as text."""
    text_only = ""
    """Reason why this agent cannot use native tools; empty if it can."""
    demonstrable = True
    """True if an expert can demonstrate for this agent: the agent writes nothing but actions and thoughts."""

    def __init__(self, engine: TokenEngine, tokenizer: object = None, **options: Unpack[AgentOptions]) -> None:
        for name in options:
            if name not in option_names(type(self)):
                raise BadConfig(no_such(f"option of {type(self).__name__}", name, option_names(type(self))))
        way = options.get("tools", AUTO)
        observation_tokens = options.get("observation_tokens", 2048)
        tokenizer = getattr(engine, "tokenizer", None) if tokenizer is None else tokenizer
        if tokenizer is None:
            raise BadConfig(
                f"{type(engine).__name__} brings no tokenizer: pass the model's own as the second argument; "
                "chat:URL has none, and goes with MessageAgent"
            )
        check_way(way)
        if way not in (AUTO, TEXT) and self.text_only:
            raise self._refuses_native(way)
        if observation_tokens < LEAST_OBSERVATION:
            raise BadConfig(f"observation_tokens is {observation_tokens}; at least {LEAST_OBSERVATION} are needed")
        sampling = options.get("sampling") or Sampling()
        turn_tokens = options.get("turn_tokens")
        limit = sampling.max_tokens if turn_tokens is None else turn_tokens
        limits = [n for n in (options.get("context_tokens"), getattr(engine, "context", None)) if n is not None]
        context: int | None = min(limits, default=None)
        for name, value in (("turn_tokens", limit), ("context_tokens", context)):
            if value is not None and value < 1:
                raise BadConfig(f"{name} is {value}; expected at least 1")
        self.engine = engine
        self.tokenizer = tokenizer
        self.observation_tokens = observation_tokens
        self.context_tokens = context
        prompt = options.get("prompt")
        self.custom_prompt = None if prompt is None else load_prompt(prompt)
        """The prompt that the user named; None to choose one by environment."""
        self.way = way
        """Value of the option `tools`."""
        self._fitted: dict[str, TokenAgent] = {}
        self._template_options = options.get("template_options")
        self._sampling = dataclasses.replace(sampling, max_tokens=limit)
        self.become(*self._decide({}))

    def become(self, prompt: Prompt, tools: str) -> None:
        """Switch to a prompt and a tool format (`text`, `native` or a family), and rebuild the template."""
        self.prompt, self.tools = prompt, tools
        self.template = self.make_template(self._template_options)
        stop_ids = tuple(self._sampling.stop_ids) or self.template.stop_ids
        self.sampling = dataclasses.replace(self._sampling, stop_ids=stop_ids)

    def resample(self, changes: Mapping[str, object]) -> None:
        """Change the sampling settings for every environment; cached variants of the agent are rebuilt."""
        self._sampling = dataclasses.replace(self._sampling, **changes)
        self.sampling = dataclasses.replace(self.sampling, **changes)
        self._fitted = {}

    def fitted(self, tools: Mapping[str, Tool]) -> Self:
        """Return a variant of this agent with the prompt and the tool format for these tools; `begin` uses it."""
        if not tools:
            return self
        name = key(tools)
        if name not in self._fitted:
            self._fitted[name] = self._variant(*self._decide(tools))
        return cast("Self", self._fitted[name])

    def _decide(self, tools: Mapping[str, Tool]) -> tuple[Prompt, str]:
        own = self.tools_prompt if tools else self.default_prompt
        return decide(type(self).__name__, own, self.custom_prompt, self.way, tools, lambda: self._native_refusal(tools))

    def _variant(self, prompt: Prompt, tools: str) -> Self:
        """Return a variant of this agent with another prompt and tool format; each combination is made once."""
        name = f"{prompt.name} {tools}"
        if (prompt.name, tools) == (self.prompt.name, self.tools):
            return self
        if name not in self._fitted:
            other = copy.copy(self)
            other.become(prompt, tools)
            self._fitted[name] = other
        return cast("Self", self._fitted[name])

    def _native_refusal(self, tools: Mapping[str, Tool]) -> BadConfig | None:
        """Return the reason why tools cannot be native, or None."""
        return self._refuses_native(NATIVE)

    def _refuses_native(self, way: str) -> BadConfig:
        who = type(self).__name__
        return BadConfig(f"tools is {way!r}: {who} {self.text_only}; use ChatAgent, or tools='text'")

    def make_template(self, options: Mapping[str, object] | None) -> ChatTemplate:
        """Make the chat template for prompts."""
        return ChatTemplate(self.tokenizer, options)

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> "TokenConversation":
        """Start the conversation of one episode."""
        return self.fitted(tools).talk(task, tools)

    def talk(self, task: Task, tools: Mapping[str, Tool]) -> "TokenConversation":
        """Start a conversation without first adapting the agent to the environment."""
        raise NotImplementedError

    def cut(self, text: str) -> str:
        """Cut a text to `observation_tokens`; a line with the number of tokens cut replaces its middle."""
        limit = self.observation_tokens
        if len(text) * 4 <= limit:
            return text
        encoder = self.template.encoder
        total = len(encoder.plain(text))
        if total <= limit:
            return text
        offsets = encoder.offsets(text)
        keep = limit
        while True:
            keep -= max(len(encoder.plain(self._shorten(text, offsets, keep, total))) - limit, 1)
            shorter = self._shorten(text, offsets, keep, total)
            if len(encoder.plain(shorter)) <= limit or keep <= 0:
                return shorter

    def _shorten(self, text: str, offsets: Sequence[tuple[int, int]], keep: int, total: int) -> str:
        keep = max(keep, 0)
        head, tail = (keep + 1) // 2, keep // 2
        start = text[: offsets[head - 1][1]] if head else ""
        end = text[offsets[len(offsets) - tail][0] :] if tail else ""
        return f"{start}\n[{total - keep} of {total} tokens cut]\n{end}"


class TokenConversation:
    """One episode's conversation with a model; subclasses define the next prompt."""

    def __init__(self, agent: TokenAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        self.agent, self.task, self.tools = agent, task, tools
        self.turns = 0
        self.text, self.action, self.parsed = "", "", False
        """The last reply: text without the stop token; action sent to the environment; True if the reply contained the
        action.
        """
        self.prompt_ids: list[int] = []
        """Token ids of the last prompt."""
        self.said_ids: list[int] = []
        """Token ids of the last reply, without its stop token."""
        self.messages: list[dict[str, object]] = []
        """Chat messages that the last prompt added."""
        self.first_observation = ""
        self.cut_at = 0
        """Number of tokens of the last reply if a limit cut it off; 0 if not, or if the model gets no notice of that."""
        self.hint: Hint | None = None
        """Hint for a training episode, shown in every opening; set before the first prompt."""
        self._opened: tuple[int, list[int]] = (0, [])  # tokens that the prompt begins with, and the same without the hint

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation; see `Conversation.take`. `env` is not used."""
        ids = self.prompt(observation, info)
        completion = await self.complete(ids, dataclasses.replace(self.agent.sampling, seed=seed), session)
        if completion is None:
            return Turn(observation, prompt_ids=ids, messages=self.messages, parsed=False, finish=Finish.CONTEXT)
        return self.turn(observation, completion)

    async def complete(self, ids: list[int], sampling: Sampling, session: str) -> Completion | None:
        """Sample a reply within the remaining context; None if no context remains."""
        if self.agent.context_tokens is not None:
            room = self.agent.context_tokens - len(ids)
            if room < 1:
                return None
            sampling = dataclasses.replace(sampling, max_tokens=min(room, sampling.max_tokens))
        return await self.agent.engine.generate(ids, sampling, session)

    def turn(self, observation: str, completion: Completion) -> Turn:
        """Record a completion of the last prompt and return its turn."""
        self.reply(completion)
        return Turn(
            observation,
            prompt_ids=self.prompt_ids,
            output_ids=completion.ids,
            logprobs=completion.logprobs,
            messages=self.messages,
            text=self.text,
            action=self.action,
            parsed=self.parsed,
            finish=completion.finish,
            policy_version=completion.policy_version,
            plain_ids=self.plain(self.prompt_ids),
        )

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return the tokens to complete. Repeated calls before a reply give the same result."""
        raise NotImplementedError

    def opened(self, template: ChatTemplate, opening: Opening) -> list[int]:
        """Begin with an opening, and the hint if there is one; return the prompt's tokens."""
        text = self.with_hint(opening)
        self.messages = [*text.messages]
        self.prompt_ids = template.start(text.system, text.user)
        if self.hint is not None:
            self._opened = len(self.prompt_ids), template.start(opening.system, opening.user)
        return self.prompt_ids

    def with_hint(self, opening: Opening) -> Opening:
        """Return the opening with the hint, if there is one."""
        return opening if self.hint is None else self.agent.prompt.hinted(opening, self.hint.text)

    def plain(self, prompt_ids: Sequence[int]) -> list[int]:
        """Return the prompt's tokens without the hint; empty if there is no hint."""
        length, opening = self._opened
        return [] if self.hint is None else [*opening, *prompt_ids[length:]]

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        agent = self.agent
        self.said_ids = self.without_stop(completion.ids)
        self.text = agent.template.encoder.decode(self.said_ids)
        self.action, self.parsed = agent.prompt.reply.parse(
            agent.template.final(self.text),
            self.tools,
            opened=bool(agent.template.opened),
            complete=completion.finish != Finish.LENGTH,
        )
        self.note_cut(completion)
        self.turns += 1
        return self.action

    def note_cut(self, completion: Completion) -> None:
        """Record if the next observation must begin with the notice of a cut-off reply (`agentgym.agents.cut`).

        A policy trained from scratch gets no notice, since it only knows the words of its environment; nor does one with
        a published prompt (`tells`).
        """
        notified = completion.finish == Finish.LENGTH and tells(self.agent.prompt)
        self.cut_at = len(completion.ids) if notified and ACT not in self.agent.template.encoder.control else 0

    def without_stop(self, ids: list[int]) -> list[int]:
        """Return sampled tokens without the stop token at the end, if any."""
        return ids[:-1] if ids and ids[-1] in self.agent.sampling.stop_ids else ids

    def written(self, action: str) -> list[str]:
        """Return the pieces of a reply, after its thought, whose action is `action`: the inverse of `reply`."""
        form = self.agent.prompt.reply
        if form.kind == "block":
            call = parse_call(action, self.tools) if self.tools else action
            body = str(next(iter(call.arguments.values()), "")) if isinstance(call, Call) else action
            return [f"```{form.tag}\n", UntrustedText(body), "\n```"]
        tagged = form.kind == "tag" or form.kind in PROJECTIONS
        return [f"<{form.tag}>", UntrustedText(action), f"</{form.tag}>"] if tagged else [UntrustedText(action)]

    def fork(self) -> Self:
        """Return an independent copy. Lists are never changed in place, so the copies share them."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def values(self, observation: str, info: Mapping[str, Any]) -> dict[str, Any]:
        """Return functions that make the fields of a prompt, to be called only for fields that the prompt contains."""

        def task() -> str:
            return self.task.instruction or self.first_observation

        seen = noticed(observation, self.cut_at)
        return field_values(self.agent.cut, seen, info, task=task, tools=self.tools, turns=self.turns)
