"""A conversation in tool calls: the model's family says how a call is written, the world answers as its result."""

import json
from collections.abc import Mapping
from typing import Any

from agentgym.actions import Call, Tool, parse_call, samples
from agentgym.agents.encode import Foreign
from agentgym.agents.parse import split_thought
from agentgym.agents.token_agent import TokenAgent, TokenTalk
from agentgym.agents.tool_calls import Attempt
from agentgym.agents.tool_template import ToolTemplate
from agentgym.core import Task
from agentgym.engines import Completion

ACT = Tool(
    "act",
    "Give one command to the world and read what it answers.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
"""The tool that stands for a world of plain commands."""
NOT_EXECUTED = "not executed: only the first call of a turn is. Call again if it is still needed."


def offered(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
    """Return the tools a model is shown: the world's own, or `act(command)` where it has none."""
    return tools or {ACT.name: ACT}


class NativeTalk(TokenTalk):
    """One episode in tool calls. What was sampled is held as it is.

    The first call of a reply goes to the world; each further one is answered `NOT_EXECUTED`. A reply without a call goes
    to the world as text and is answered by a user message. What the world says about a bad call is shown with the call
    written the family's way.
    """

    def __init__(self, agent: TokenAgent, task: Task, tools: Mapping[str, Tool], template: ToolTemplate) -> None:
        super().__init__(agent, task, offered(tools))
        self.template, self._commands = template, not tools
        self.held: list[int] = []
        """Every token so far, prompts and replies."""
        self.attempts: list[Attempt] = []
        """The calls of the last reply."""
        self._problem: tuple[str, str] | None = None  # what the world says about the last call, and how a model is told

    def prompt(self, observation: str, info: Mapping[str, Any]) -> list[int]:
        """Return all that is held, plus the bridge: a result for each call, or a user message where there was none."""
        form, template = self.agent.prompt, self.template
        if not self.turns:
            self.first_observation = observation
            values = self.values(observation, info)
            system, user = form.system.fill(values), form.first.fill(values)
            self.messages = [{"role": "system", "content": "".join(system)}] if system else []
            self.messages.append({"role": "user", "content": "".join(user)})
            self.prompt_ids = template.start(system, user)
            return self.prompt_ids
        pieces = form.turn.fill(self.values(self._told(observation), info))
        ended = template.ends(self.held, called=bool(self.attempts))
        if self.attempts:
            results = [pieces, *([NOT_EXECUTED] for _ in self.attempts[1:])]
            self.messages = [{"role": "tool", "content": "".join(result)} for result in results]
            bridge = template.results(results, self.attempts, ended)
        else:
            self.messages = [{"role": "user", "content": "".join(pieces)}]
            bridge = template.bridge(pieces, ended)
        self.prompt_ids = self.held + bridge
        return self.prompt_ids

    def _told(self, observation: str) -> str:
        """Return an observation in which a bad call is explained in the words of the model's family."""
        if self._problem is None:
            return observation
        said, shown = self._problem
        return observation.replace(said, shown) if said in observation else f"{shown}\n\n{observation}"

    def reply(self, completion: Completion) -> str:
        """Take in the model's tokens and return the action for the world."""
        agent, ids = self.agent, completion.ids
        self.held = self.prompt_ids + ids
        self.said_ids = self.without_stop(ids)
        self.text = self.template.encoder.decode(self.said_ids)
        opened = bool(self.template.opened)
        thought, unfinished, rest = split_thought(self.text, opened)
        if not thought and not unfinished:
            rest = self.text.strip()  # a call may spell the end of a thought
        self.attempts = [] if unfinished else self.template.family.read(rest, self.tools)
        action = self.attempts[0].action if self.attempts else rest
        call = parse_call(action, self.tools)
        self._problem = None if isinstance(call, Call) else (call, str(parse_call(action, self.tools, self.example)))
        self.parsed = bool(self.attempts) and isinstance(call, Call) and (thought or not agent.prompt.reply.think)
        self.action = str(call.arguments["command"]) if self._commands and isinstance(call, Call) else action
        self.turns += 1
        return self.action

    def example(self, tool: Tool) -> str:
        """Return a call of a tool as this family writes it."""
        return "".join(self.template.family.write(Call(tool.name, samples(tool))))

    def written(self, action: str) -> list[str]:
        """Return the pieces of a reply that takes an action of the world: the other way round from `reply`."""
        if self._commands:
            return self.template.family.write(Call(ACT.name, {"command": action}))
        call = parse_call(action, self.tools)
        return self.template.family.write(call) if isinstance(call, Call) else [Foreign(action)]


def key(tools: Mapping[str, Tool]) -> str:
    """Return what tells one set of tools from another."""
    return json.dumps([tool.schema() for tool in tools.values()])
