"""The agent with one continued reply: one user message, then a completion that contains the observations verbatim."""

import dataclasses
from bisect import bisect_left
from collections.abc import Mapping

from agentgym.agents.prompt import Prompt
from agentgym.agents.token_agent import TokenAgent, TokenConversation
from agentgym.core.actions import Tool
from agentgym.core.env import Task
from agentgym.engines import Completion
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig


class CompletionAgent(TokenAgent):
    """The episode is one completion: observations are appended to the model's text without a template.

    A reply ends with a closing tag of a name in the prompt's `[reply] until NAME…`. Stop tokens, and tokens after the
    end of the tag, are neither stored nor trained. Observations are cut to their first `observation_tokens`
    tokens. Source: Jin et al. 2025, Search-R1 (arXiv 2503.09516).
    """

    default_prompt = tools_prompt = "search-r1"
    text_only = "writes no messages"

    def become(self, prompt: Prompt, tools: str) -> None:
        """Switch to a prompt and a tool format.

        Raises:
            BadConfig: the prompt's [reply] is not of the form `until NAME…`.
        """
        if prompt.reply.kind != "until":
            raise BadConfig(
                f"prompt {prompt.name!r} has [reply] {prompt.reply.kind}: CompletionAgent needs until NAME…, for "
                "example prompt='search-r1'"
            )
        super().become(prompt, tools)

    def talk(self, task: Task, tools: Mapping[str, Tool]) -> "CompletionConversation":
        """Start a conversation without first adapting the agent to the environment."""
        return CompletionConversation(self, task, tools)

    def cut(self, text: str) -> str:
        """Return the first `observation_tokens` tokens of a text."""
        offsets = self.template.encoder.offsets(text) if len(text) > self.observation_tokens else []
        return text if len(offsets) <= self.observation_tokens else text[: offsets[self.observation_tokens - 1][1]]


class CompletionConversation(TokenConversation):
    """A completion that continues over turns; stored tokens are extended, never encoded again."""

    def __init__(self, agent: TokenAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, tools)
        self.history_ids: list[int] = []
        """All tokens so far: prompt, replies and observations."""

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return all stored tokens plus the new observation; at the first turn, the opening in the chat template."""
        if self.turns:
            ids_shown = self.agent.template.encoder.plain(observation)[: self.agent.observation_tokens]
            self.messages, self.prompt_ids = [], [*self.history_ids, *ids_shown]
            return self.prompt_ids
        self.first_observation = observation
        return self.opened(self.agent.template, self.agent.prompt.opening(self.values(observation, info)))

    def turn(self, observation: str, completion: Completion) -> Turn:
        """Record a completion, cut after its closing tag, and return its turn."""
        return super().turn(observation, self._ended(completion))

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        completion = self._ended(completion)
        action = super().reply(completion)
        self.history_ids = self.prompt_ids + completion.ids
        return action

    def _ended(self, completion: Completion) -> Completion:
        """Return the completion without stop tokens and tokens after its closing tag; idempotent."""
        decode, ids = self.agent.template.encoder.decode, self.without_stop(completion.ids)
        closer = self.agent.prompt.reply.closer(decode(ids))
        if closer is None:
            length, finish = len(ids), completion.finish
        else:
            length = bisect_left(range(len(ids) + 1), True, key=lambda count: closer in decode(ids[:count]))
            finish = "stop"
        return dataclasses.replace(completion, ids=ids[:length], logprobs=completion.logprobs[:length], finish=finish)
