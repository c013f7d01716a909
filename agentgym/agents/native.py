"""Conversations with tool calls in the syntax of the model's family; observations are the results of calls."""

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.agents.encode import UntrustedText
from agentgym.agents.token_agent import TokenAgent, TokenConversation
from agentgym.agents.tool_calls import Attempt, read_reply
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core.actions import Call, Tool, parse_call, samples
from agentgym.core.env import Task, TextEnv
from agentgym.engines import Completion
from agentgym.episodes.episode import Turn

ACT = Tool(
    "act",
    "Give one command to the environment and read what it answers.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
"""The tool that stands for an environment of plain commands."""
NOT_EXECUTED = "not executed, since an earlier call failed. Call again if it is still needed."


def offered(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """Return the tools to show to the model: the environment's own, or `act(command)` if it has none."""
    return tools or {ACT.name: ACT}


class ToolCallConversation:
    """Base of conversations with tool calls: converts calls to actions, and explains malformed calls."""

    tools: Mapping[str, Tool]
    turns: int
    commands: bool
    """True if the environment accepts plain commands, which the model sends by `act(command)`."""
    _problem: tuple[str, str] | None = None  # (explanation by the environment, the same in the model's syntax)

    def example(self, tool: Tool) -> str:
        """Return an example call of a tool, as the model writes it."""
        raise NotImplementedError

    def acts(self, action: str) -> bool:
        """Count an action as a turn; return True if it is a valid call; otherwise store an explanation for `explained`."""
        call, self.turns = parse_call(action, self.tools), self.turns + 1
        self._problem = None if isinstance(call, Call) else (call, str(parse_call(action, self.tools, self.example)))
        return isinstance(call, Call)

    def explained(self, observation: str) -> str:
        """Return the observation, with its explanation of a malformed call rewritten in the model's call syntax."""
        if self._problem is None:
            return observation
        action, why = self._problem
        return observation.replace(action, why) if action in observation else f"{why}\n\n{observation}"

    def command(self, action: str) -> str:
        """Return the action of a call; for an environment of plain commands, the command in the call."""
        call = parse_call(action, self.tools) if self.commands else action
        return str(call.arguments["command"]) if isinstance(call, Call) else action


class NativeConversation(ToolCallConversation, TokenConversation):
    """One episode with native tool calls; sampled tokens are stored unchanged.

    Each call of a reply is a separate turn, with the tokens of that call, and calls are executed in order. After a call
    that the environment rejects, the remaining calls are answered `NOT_EXECUTED`. If a reply has no call, its text is
    the action, and a user message has the observation. Explanations of malformed calls use the syntax of the model's
    family.
    """

    def __init__(self, agent: TokenAgent, task: Task, tools: Mapping[str, Tool], template: ToolTemplate) -> None:
        super().__init__(agent, task, offered(tools))
        self.template, self.commands = template, not tools
        self.history_ids: list[int] = []
        """All tokens so far: prompts and replies."""
        self.attempts: list[Attempt] = []
        """Calls of the last reply."""
        self._waiting: tuple[Turn, ...] = ()  # calls of the last reply that have not gone to the environment
        self._answered: tuple[list[str], ...] = ()  # results of those that have, the last one left out

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation with the next call of the last reply, or a new reply. `env` is not used."""
        if self._waiting and info["valid"]:
            self._answered = (*self._answered, self._pieces(observation, info, waiting=True))
            turn, self._waiting = self._waiting[0], self._waiting[1:]
            self.acts(turn.action)
            return dataclasses.replace(turn, observation=observation, messages=_results(self._answered[-1:]))
        self.give_up_calls()
        return await super().take(observation, info, env=env, seed=seed, session=session)

    def give_up_calls(self) -> None:
        """Drop the remaining calls of the last reply."""
        self._waiting = ()

    def turn(self, observation: str, completion: Completion) -> Turn:
        """Record a completion and return the turn of its first call; later calls wait."""
        whole = super().turn(observation, completion)
        turns = self._shared(whole)
        self._waiting = tuple(turns[1:])
        return turns[0]

    def _shared(self, whole: Turn) -> list[Turn]:
        """Split the turn of a reply into one turn per call, which together have all tokens of the reply."""
        ids, decode = whole.output_ids, self.template.encoder.decode

        def begun(length: int) -> int:
            return len(self._read(decode(ids[:length]))[2])

        places = range(len(ids) + 1)
        starts = [0, *(bisect_left(places, count, key=begun) - 1 for count in range(2, len(self.attempts) + 1))]
        turns: list[Turn] = []
        for start, end, attempt in zip(starts, [*starts[1:], len(ids)], self.attempts, strict=False):
            turn = dataclasses.replace(
                whole,
                prompt_ids=[*whole.prompt_ids, *ids[:start]],
                output_ids=ids[start:end],
                logprobs=whole.logprobs[start:end],
                plain_ids=[*whole.plain_ids, *ids[:start]] if whole.plain_ids else [],
            )
            if len(self.attempts) > 1:
                turn.text, turn.action = decode(self.without_stop(turn.output_ids)), self.command(attempt.action)
                turn.parsed = isinstance(parse_call(attempt.action, self.tools), Call) if turns else whole.parsed
                turn.finish = whole.finish if end == len(ids) else "stop"
            turns.append(turn)
        return turns or [whole]

    def prompt(self, observation: str, info: Mapping[str, Any]) -> list[int]:
        """Return all stored tokens plus the bridge: a result for each call, or a user message if there was no call."""
        template = self.template
        if not self.turns:
            self.first_observation = observation
            return self.opened(template, self.agent.prompt.opening(self.values(observation, info)))
        pieces = self._pieces(observation, info)
        ended = template.ends(self.history_ids, called=bool(self.attempts))
        if self.attempts:
            left = len(self.attempts) - len(self._answered) - 1
            results = [*self._answered, pieces, *([NOT_EXECUTED] for _ in range(left))]
            self.messages = _results(results[len(self._answered) :])  # the others came with the turns of their calls
            bridge = template.results(results, self.attempts, ended)
        else:
            self.messages = [{"role": "user", "content": "".join(pieces)}]
            bridge = template.bridge(pieces, ended)
        self.prompt_ids = self.history_ids + bridge
        return self.prompt_ids

    def _pieces(self, observation: str, info: Mapping[str, Any], *, waiting: bool = False) -> list[str]:
        """Return a call's result as pieces.

        `waiting` is True if later calls of the reply follow; only the last result has the notice of a cut-off reply.
        """
        text = self.explained(observation)
        values = self.values(text, info)
        if waiting:
            values["observation"] = lambda: self.agent.cut(text)
        return self.agent.prompt.later(values)

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        self.history_ids, self._answered = self.prompt_ids + completion.ids, ()
        self.said_ids = self.without_stop(completion.ids)
        self.text = self.template.encoder.decode(self.said_ids)
        thought, rest, self.attempts = self._read(self.text)
        action = self.attempts[0].action if self.attempts else rest
        called = self.acts(action)
        self.parsed = bool(self.attempts) and called and (thought or not self.agent.prompt.reply.think)
        self.action = self.command(action)
        self.note_cut(completion)
        return self.action

    def _read(self, text: str) -> tuple[bool, str, list[Attempt]]:
        """Return (True if a reply has a complete thought, the text after the thought, the calls); see `read_reply`."""
        return read_reply(self.template.family, text, bool(self.template.opened), self.tools)

    def example(self, tool: Tool) -> str:
        """Return an example call of a tool, as this family writes it."""
        return "".join(self.template.family.write(Call(tool.name, samples(tool))))

    def written(self, action: str) -> list[str]:
        """Return the pieces of a reply whose action is `action`: the inverse of `reply`."""
        if self.commands:
            return self.template.family.write(Call(ACT.name, {"command": action}))
        call = parse_call(action, self.tools)
        return self.template.family.write(call) if isinstance(call, Call) else [UntrustedText(action)]


def _results(results: Sequence[Sequence[str]]) -> list[dict[str, object]]:
    return [{"role": "tool", "content": "".join(result)} for result in results]
