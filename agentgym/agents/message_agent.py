"""The agent for models that show no tokens: the same prompts and replies as text, in chat messages. Evaluation only."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from agentgym.actions import Tool
from agentgym.agents.fields import field_values, window_values
from agentgym.agents.prompt import load_prompt
from agentgym.core import Task, TextEnv
from agentgym.engines import ChatEngine, Sampling
from agentgym.episode import Turn
from agentgym.errors import BadConfig

LEAST_OBSERVATION = 256  # characters
_SILENT = "(no reply)"  # what stands for an empty reply in the history: several servers refuse empty messages
Message = dict[str, Any]


class MessageAgent:
    """Prompts, memory and parsing of `ChatAgent`, or with `window` of `WindowAgent`, over a `ChatEngine`.

    Its turns have text and no token ids, and training refuses them. Replies come back as assistant messages, thoughts
    included, and observations as user messages; of an observation longer than `observation_characters` the middle is cut.
    """

    def __init__(
        self,
        engine: ChatEngine,
        *,
        prompt: str | Path | None = None,
        window: int | None = None,
        sampling: Sampling | None = None,
        turn_tokens: int | None = None,
        observation_characters: int = 8192,
    ) -> None:
        sampling = sampling or Sampling()
        limit = sampling.max_tokens if turn_tokens is None else turn_tokens
        if limit < 1 or observation_characters < LEAST_OBSERVATION or (window is not None and window < 0):
            raise BadConfig(
                f"turn_tokens is {limit}, observation_characters {observation_characters}, window {window}; expected at "
                f"least 1, {LEAST_OBSERVATION}, and 0"
            )
        self.engine, self.window = engine, window
        self.prompt = load_prompt(("react" if window is None else "window") if prompt is None else prompt)
        self.sampling = dataclasses.replace(sampling, max_tokens=limit)
        self.observation_characters = observation_characters

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> "MessageTalk":
        """Start the conversation of one episode."""
        return MessageTalk(self, task, tools)

    def cut(self, text: str) -> str:
        """Return the text within `observation_characters`, the middle of a longer one replaced by how much it was."""
        limit = self.observation_characters
        if len(text) <= limit:
            return text
        keep = limit - 64  # room for the line
        return f"{text[: keep - keep // 2]}\n[{len(text) - keep} of {len(text)} characters cut]\n{text[-(keep // 2) :]}"


class MessageTalk:
    """One episode's conversation in messages."""

    def __init__(self, agent: MessageAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        self.agent, self.task, self.tools = agent, task, tools
        self.turns = 0
        self.messages: tuple[Message, ...] = ()
        """Everything said so far; with a window, the last prompt only."""
        self.pairs: tuple[tuple[str, str], ...] = ()
        """The last (observation, action) pairs, where there is a window."""
        self.first_observation = ""

    async def take(self, observation: str, info: Mapping[str, Any], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation; see `Conversation.take`. The world itself is never touched."""
        agent = self.agent
        added = self._added(observation, info)
        asked = (*self.messages, *added) if agent.window is None else added
        completion = await agent.engine.chat(asked, (), dataclasses.replace(agent.sampling, seed=seed), session)
        if completion.finish in ("context", "abort"):
            return Turn(observation, messages=list(added), parsed=False, finish=completion.finish)
        text = completion.text or ""
        action, parsed = agent.prompt.reply.parse(text, self.tools, complete=completion.finish != "length")
        self.messages = (*asked, {"role": "assistant", "content": text if text.strip() else _SILENT})
        if agent.window:
            self.pairs = (*self.pairs, (agent.cut(observation), action))[-agent.window :]
        self.turns += 1
        counted = completion.usage
        return Turn(
            observation,
            messages=list(added),
            text=text,
            action=action,
            parsed=parsed,
            finish=completion.finish,
            extra={} if counted is None else {"prompt_tokens": counted[0], "completion_tokens": counted[1]},
        )

    def _added(self, observation: str, info: Mapping[str, Any]) -> tuple[Message, ...]:
        """Return the messages that an observation adds: with a window, the whole prompt."""
        form, agent = self.agent.prompt, self.agent
        if not self.turns:
            self.first_observation = observation
        task = self.task.instruction or self.first_observation
        values = field_values(agent.cut, observation, info, task=lambda: task, tools=self.tools, turns=self.turns)
        values |= window_values(self.pairs, self.turns)

        said = form.later(values) if self.turns else form.first.fill(values)
        user = {"role": "user", "content": "".join(said)}
        opening = form.system.pieces != ("",) and (not self.turns or agent.window is not None)
        return ({"role": "system", "content": "".join(form.system.fill(values))}, user) if opening else (user,)

    def fork(self) -> Self:
        """Return an independent copy: nothing it holds is ever changed in place."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other
