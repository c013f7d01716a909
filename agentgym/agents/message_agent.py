"""The agent for models without token access: the same prompts and replies as chat messages. For evaluation only."""

import copy
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from agentgym.agents.chat import ChatAgent
from agentgym.agents.cut import noticed, tells
from agentgym.agents.decide import AUTO, NATIVE, TEXT, decide
from agentgym.agents.fields import field_values, window_values
from agentgym.agents.native import NOT_EXECUTED, ToolCallConversation, offered
from agentgym.agents.prompt import Prompt, load_prompt
from agentgym.agents.tool_calls import CALL_ID, parse_api_call
from agentgym.agents.window import WindowAgent
from agentgym.core.actions import Tool, samples
from agentgym.core.env import Task, TextEnv
from agentgym.core.outcome import Finish
from agentgym.engines import ChatEngine, Completion, Sampling, ToolCall
from agentgym.episodes.episode import Turn
from agentgym.episodes.usage import to_extra
from agentgym.errors import BadConfig, no_such

LEAST_OBSERVATION = 256  # characters
_SILENT = "(no reply)"  # replaces an empty reply in the history: several servers refuse empty messages
_HARMLESS = "ok"  # replaces every reply of the model and every answer to it
WAYS = (AUTO, NATIVE, TEXT)
TURN_TOKENS = 4096
"""Default maximum tokens of a reply, including hidden thoughts."""
Message = dict[str, object]
_ID = re.compile(r"[!-~]{1,200}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class MessageAgent:
    """Prompts, memory and parsing of `ChatAgent` (with `window`: of `WindowAgent`), over a `ChatEngine`.

    Turns have text but no token ids, so training refuses them. Later requests include replies as assistant messages,
    with the data in `Completion.echo`, and observations as user messages. If an observation is longer than
    `observation_characters` (default 8192), its middle is cut. After a reply that was cut off by length, the next
    observation begins with a notice (`agentgym.agents.cut`). `turn_tokens` is the maximum tokens of a reply (default:
    the limit of `sampling`, or else `TURN_TOKENS`). `tools` is `native` (the server receives the tools, see
    `CallConversation`), `text` (the prompt lists them) or `auto` (see `decide`; never native with a window).
    """

    def __init__(
        self,
        engine: ChatEngine,
        *,
        prompt: str | Path | Prompt | None = None,
        tools: str = AUTO,
        window: int | None = None,
        sampling: Sampling | None = None,
        turn_tokens: int | None = None,
        observation_characters: int = 8192,
    ) -> None:
        sampling = sampling or Sampling(max_tokens=TURN_TOKENS)
        limit = sampling.max_tokens if turn_tokens is None else turn_tokens
        if limit < 1 or observation_characters < LEAST_OBSERVATION or (window is not None and window < 0):
            raise BadConfig(
                f"turn_tokens is {limit}, observation_characters {observation_characters}, window {window}; expected at "
                f"least 1, {LEAST_OBSERVATION}, and 0"
            )
        if tools not in WAYS:
            raise BadConfig(no_such("way to call tools over plain chat", tools, WAYS))
        self.engine, self.window = engine, window
        self.custom_prompt, self.way = None if prompt is None else load_prompt(prompt), tools
        self.prompt, self.tools = self._decide({})
        self.sampling = dataclasses.replace(sampling, max_tokens=limit)
        self.observation_characters = observation_characters

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> "MessageConversation":
        """Start the conversation of one episode."""
        fitted = self.fitted(tools)
        return MessageConversation(fitted, task, tools) if fitted.tools == TEXT else CallConversation(fitted, task, tools)

    def fitted(self, tools: Mapping[str, Tool]) -> "MessageAgent":
        """Return a copy of this agent with the prompt and the tool format for these tools."""
        other = copy.copy(self)
        other.prompt, other.tools = self._decide(tools)
        return other

    def _decide(self, tools: Mapping[str, Tool]) -> tuple[Prompt, str]:
        kind = WindowAgent if self.window is not None else ChatAgent
        own = kind.tools_prompt if tools else kind.default_prompt
        form, way = decide(type(self).__name__, own, self.custom_prompt, self.way, tools, self._native_refusal)
        if way != TEXT and (self.window is not None or form.reply.kind != "call"):
            raise BadConfig(
                f"tools is {way!r} with window {self.window} and prompt {form.name!r}, which asks for a reply of the form "
                f"{form.reply.kind!r}: native tool calls need the whole history and a prompt with [reply] call, such as "
                "'tools'; or use tools='text'"
            )
        return form, way

    def _native_refusal(self) -> BadConfig | None:
        """Return the reason why tools cannot be native, or None. A server without tools refuses the first request."""
        return None if self.window is None else BadConfig(f"window is {self.window}: the past is written as text")

    def cut(self, text: str) -> str:
        """Cut a text to `observation_characters`; a line with the number of characters cut replaces its middle."""
        limit = self.observation_characters
        if len(text) <= limit:
            return text
        keep = limit - 64  # room for the line
        return f"{text[: keep - keep // 2]}\n[{len(text) - keep} of {len(text)} characters cut]\n{text[-(keep // 2) :]}"


class MessageConversation:
    """One episode's conversation as chat messages."""

    def __init__(self, agent: MessageAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        self.agent, self.task, self.tools = agent, task, tools
        self.turns = 0
        self.messages: tuple[Message, ...] = ()
        """All messages so far; with a window, only the last prompt and its reply."""
        self.pairs: tuple[tuple[str, str], ...] = ()
        """The last (observation, action) pairs, oldest first; empty without a window."""
        self.first_observation = ""
        self.cut_at = 0
        """Token limit that cut off the last reply; 0 if the reply was not cut or the model gets no notice of it."""
        self.offer: tuple[dict[str, object], ...] = ()
        """JSON Schemas of the tools, for requests to the server."""

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation; see `Conversation.take`. `env` is not used."""
        agent = self.agent
        added = self.prompt(observation, info)
        conversation = (*self.messages, *added) if agent.window is None else added
        completion = await agent.engine.chat(
            conversation, self.offer, dataclasses.replace(agent.sampling, seed=seed), session
        )
        if completion.finish in (Finish.CONTEXT, Finish.ABORT):
            return Turn(observation, messages=list(added), parsed=False, finish=completion.finish)
        self.cut_at = agent.sampling.max_tokens if completion.finish == Finish.LENGTH and tells(agent.prompt) else 0
        action, parsed = self._read(completion)
        self.messages = (*conversation, self._reply_message(completion))
        if agent.window:
            self.pairs = (*self.pairs, (agent.cut(observation), action))[-agent.window :]
        self.turns += 1
        return Turn(
            observation,
            messages=list(added),
            text=completion.text or "",
            action=action,
            parsed=parsed,
            finish=completion.finish,
            reasoning=completion.reasoning,
            extra={**to_extra(completion.usage, completion.seconds)},
        )

    def _read(self, completion: Completion) -> tuple[str, bool]:
        """Return the action in a reply, and True if the reply contains one."""
        text = completion.text or ""
        return self.agent.prompt.reply.parse(text, self.tools, complete=completion.finish != Finish.LENGTH)

    def _reply_message(self, completion: Completion) -> Message:
        """Return a reply as a message for later requests."""
        text = completion.text or ""
        return {"role": "assistant", "content": text if text.strip() else _SILENT, **completion.echo}

    def prompt(self, observation: str, info: Mapping[str, object]) -> tuple[Message, ...]:
        """Return the messages that an observation adds, or with a window the whole prompt.

        Repeated calls before a reply give the same result.
        """
        form, agent = self.agent.prompt, self.agent
        if not self.turns:
            self.first_observation = observation
        observation = noticed(observation, self.cut_at)
        task = self.task.instruction or self.first_observation
        values = field_values(agent.cut, observation, info, task=lambda: task, tools=self.tools, turns=self.turns)
        values |= window_values(self.pairs, self.turns)
        if not self.turns or agent.window is not None:
            return tuple(form.opening(values, later=self.turns > 0).messages)
        return ({"role": "user", "content": "".join(form.later(values))},)

    def harmless(self, opening: Sequence[Message]) -> tuple[Message, ...]:
        """Return a conversation with as many turns as this one after `opening`, but without any text from the model.

        With a window, return only `opening`. If a server also refuses the result, the model's text was not the cause.
        """
        if self.agent.window is not None:  # every prompt has the form of the first
            return tuple(opening)
        replies = [message for message in self.messages if message["role"] == "assistant"]
        return (*opening, *(message for reply in replies for message in self._harmless(reply)))

    def _harmless(self, reply: Message) -> tuple[Message, Message]:
        """Return a harmless reply, and its answer, to replace a reply of the model."""
        return {"role": "assistant", "content": _HARMLESS}, {"role": "user", "content": _HARMLESS}

    def fork(self) -> Self:
        """Return an independent copy. Stored values are never changed in place, so the copies share them."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other


class CallConversation(ToolCallConversation, MessageConversation):
    """An episode with tool calls of a chat API.

    Each call of a reply is a separate turn, and calls are executed in order. After a call that the environment rejects,
    the remaining calls are answered `NOT_EXECUTED`. Results are sent as messages with the role `tool` and the call's
    id. If a reply has no call, its text is the action, and a user message has the observation.
    """

    def __init__(self, agent: MessageAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, offered(tools))
        self.offer = tuple(tool.schema() for tool in self.tools.values())
        self.commands = not tools
        self._calls: tuple[ToolCall, ...] = ()  # of the last reply
        self._place = 0  # of the call that went to the environment last

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation with the next call of the last reply, or a new reply. `env` is not used."""
        if self._place + 1 < len(self._calls) and info["valid"]:
            added = _result(self._calls[self._place], self._fitted(observation))
            self.messages, self._place = (*self.messages, added), self._place + 1
            action, parsed = self._act(self._calls[self._place])
            place: dict[str, object] = {"call": self._place}
            return Turn(observation, messages=[added], action=action, parsed=parsed, finish=Finish.STOP, extra=place)
        turn = await super().take(observation, info, env=env, seed=seed, session=session)
        if self._calls and turn.finish not in (Finish.CONTEXT, Finish.ABORT):
            turn.extra["call"] = 0
        return turn

    def prompt(self, observation: str, info: Mapping[str, object]) -> tuple[Message, ...]:
        """Return the results of unanswered calls, or a user message if the last reply made no call."""
        if not self._calls:
            return super().prompt(self.explained(observation), info)
        call, *others = self._calls[self._place :]
        return _result(call, self.agent.cut(noticed(self.explained(observation), self.cut_at))), *(
            _result(other, NOT_EXECUTED) for other in others
        )

    def _fitted(self, observation: str) -> str:
        return self.agent.cut(self.explained(observation))

    def _read(self, completion: Completion) -> tuple[str, bool]:
        self._calls, self._place = _sendable(completion.calls), 0
        if completion.calls:
            return self._act(completion.calls[0])
        action, parsed = super()._read(completion)
        self.acts(action)
        return self.command(action), parsed

    def _act(self, call: ToolCall) -> tuple[str, bool]:
        """Return the action of a call, and True if the call is valid."""
        action = parse_api_call(call.name, call.arguments).action
        good = self.acts(action)
        return self.command(action), good

    def _reply_message(self, completion: Completion) -> Message:
        if not self._calls:
            return super()._reply_message(completion)
        text = completion.text or ""
        return {**_calling(self._calls, text if text.strip() else None), **completion.echo}

    def _harmless(self, reply: Message) -> tuple[Message, Message]:
        if "tool_calls" not in reply:
            return super()._harmless(reply)
        tool = next(iter(self.tools.values()))
        call = ToolCall(CALL_ID.format(0), tool.name, json.dumps(samples(tool), ensure_ascii=False))
        return _calling((call,), None), _result(call, _HARMLESS)

    def example(self, tool: Tool) -> str:
        """Return an example call of a tool, as chat APIs write it."""
        return json.dumps({"name": tool.name, "arguments": samples(tool)}, ensure_ascii=False)


def _calling(calls: Sequence[ToolCall], content: str | None) -> Message:
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ],
    }


def _result(call: ToolCall, content: str) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": content}


def _sendable(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return calls in a form that servers accept in later requests: with valid names, unique ids and arguments in JSON."""
    ids = [call.id for call in calls]
    own = len(set(ids)) < len(ids) or not all(_ID.fullmatch(id) for id in ids)
    return tuple(
        ToolCall(
            CALL_ID.format(place) if own else call.id,
            call.name if _NAME.fullmatch(call.name) else re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "unnamed",
            call.arguments if _is_object(call.arguments) else json.dumps({"unreadable": call.arguments}),
        )
        for place, call in enumerate(calls)
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
