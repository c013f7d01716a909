"""The agent with a memory that the model writes: when the history is full, a summary replaces it."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Unpack

from agentgym.agents.chat import ChatConversation
from agentgym.agents.parse import split_thought
from agentgym.agents.prompt import Prompt, load_prompt
from agentgym.agents.token_agent import AgentOptions, TokenAgent
from agentgym.core.actions import Tool
from agentgym.core.env import Task, TextEnv
from agentgym.core.outcome import Finish
from agentgym.core.seeding import derive
from agentgym.engines import Completion, TokenEngine
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig

MEMORY = 4096  # tokens, where the context has no limit


class SummaryAgent(TokenAgent):
    """Full history up to `memory_tokens`; then the model writes a summary and continues from task, summary and observation.

    The agent requests a summary when a prompt would be longer than `memory_tokens` (default: half of the context, or
    4096 if the context has no limit), or after `turns` turns (default None: no such limit), whichever comes first; at
    least one turn separates two summaries. A summary is a separate call of the model, with its own exact tokens, at
    most `summary_tokens` (default 512). It is stored in `turn.notes` of the next turn and trained with that turn's
    advantage; the environment does not see it.
    """

    default_prompt = "summary"
    text_only = "asks for text"
    demonstrable = False

    def __init__(
        self,
        engine: TokenEngine,
        tokenizer: object = None,
        *,
        memory_tokens: int | None = None,
        summary_tokens: int = 512,
        turns: int | None = None,
        **options: Unpack[AgentOptions],
    ) -> None:
        super().__init__(engine, tokenizer, **options)
        if memory_tokens is None:
            memory_tokens = MEMORY if self.context_tokens is None else max(self.context_tokens // 2, 1)
        for name, value in (("memory_tokens", memory_tokens), ("summary_tokens", summary_tokens), ("turns", turns)):
            if value is not None and value < 1:
                raise BadConfig(f"{name} is {value}; expected at least 1")
        self.memory_tokens, self.summary_tokens, self.turns = memory_tokens, summary_tokens, turns

    def become(self, prompt: Prompt, tools: str) -> None:
        """Switch to a prompt, completed with the sections for summaries, and a tool format."""
        own = load_prompt("summary")
        request, resume = prompt.summary or own.summary, prompt.resume or own.resume
        assert request and resume
        self.request, self.resume = request, resume
        super().become(dataclasses.replace(prompt, summary=request, resume=resume), tools)

    def talk(self, task: Task, tools: Mapping[str, Tool]) -> "SummaryConversation":
        """Start a conversation without first adapting the agent to the environment."""
        return SummaryConversation(self, task, tools)


class SummaryConversation(ChatConversation):
    """A conversation that restarts from the model's own summary whenever its memory is full."""

    def __init__(self, agent: SummaryAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, tools)
        self.settings = agent
        self.summary = ""
        """The last summary, without the thought before it; empty before the first, or if its thought was not finished."""
        self.since = 0
        """Number of turns since the last summary, or since the beginning."""
        self._fresh = False  # True if the next prompt begins with the summary

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation, after writing a summary if one is due; see `Conversation.take`."""
        notes: list[Turn] = []
        if self.due(observation, info):
            note = await self.summarize(observation, info, seed=seed, session=session)
            if note.finish in (Finish.CONTEXT, Finish.ABORT):
                return note
            notes.append(note)
        turn = await super().take(observation, info, env=env, seed=seed, session=session)
        turn.notes = notes
        return turn

    def due(self, observation: str, info: Mapping[str, object]) -> bool:
        """Return True if the model has to write a summary before the next action."""
        limit = self.settings.turns
        if not self.since or self._fresh:
            return False
        return (limit is not None and self.since >= limit) or (
            len(self.prompt(observation, info)) > self.settings.memory_tokens
        )

    async def summarize(self, observation: str, info: Mapping[str, Any], *, seed: int, session: str) -> Turn:
        """Replace the history by the model's summary, and return the request and its reply as a separate turn.

        The new observation is not summarized: it follows the summary unchanged. If the request fills the context, the
        history stays, and the turn's finish is `context`.
        """
        agent, template = self.settings, self.agent.template
        pieces = agent.request.fill(self.values(observation, info))
        prompt = self.history_ids + template.extension([("user", pieces)], self.ended)
        messages: list[dict[str, object]] = [{"role": "user", "content": "".join(pieces)}]
        sampling = dataclasses.replace(agent.sampling, seed=derive("summary", seed), max_tokens=agent.summary_tokens)
        completion = await self.complete(prompt, sampling, session)
        if completion is None:
            return Turn(observation, prompt_ids=prompt, messages=messages, parsed=False, finish=Finish.CONTEXT)
        text = template.encoder.decode(self.without_stop(completion.ids))
        _, unfinished, rest = split_thought(template.final(text), bool(template.opened))
        self.summary = "" if unfinished else rest
        self._fresh = True
        return Turn(
            observation,
            prompt_ids=prompt,
            output_ids=completion.ids,
            logprobs=completion.logprobs,
            messages=messages,
            text=text,
            parsed=bool(self.summary),
            finish=completion.finish,
            policy_version=completion.policy_version,
            plain_ids=self.plain(prompt),
        )

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return all stored tokens plus the bridge; right after a summary, an opening with task, summary and observation."""
        if not self._fresh:
            return super().prompt(observation, info)
        form, values = self.agent.prompt, self.values(observation, info)
        resumed = "".join(self.settings.resume.fill(values))
        return self.opened(self.agent.template, form.opening({**values, "observation": lambda: resumed}))

    def values(self, observation: str, info: Mapping[str, object]) -> dict[str, Any]:
        """Return functions that make the fields of a prompt, including the summary."""
        return {**super().values(observation, info), "summary": lambda: self.summary}

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        action = super().reply(completion)
        self.since = 1 if self._fresh else self.since + 1
        self._fresh = False
        return action
