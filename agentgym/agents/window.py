"""The agent that remembers the last few turns: one fresh prompt each time, as in the GiGPO paper's ALFWorld setting."""

from collections.abc import Mapping
from typing import Unpack

from agentgym.agents.fields import window_values
from agentgym.agents.token_agent import AgentOptions, TokenAgent, TokenConversation
from agentgym.core.actions import Tool
from agentgym.core.env import Task
from agentgym.engines import Completion, TokenEngine
from agentgym.errors import BadConfig


class WindowAgent(TokenAgent):
    """The last `turns` (observation, action) pairs in one user message; thoughts are forgotten, prompts stay short.

    Source: Feng et al. 2025, Group-in-Group Policy Optimization (arXiv 2505.10978), where `turns` is 2.
    """

    default_prompt = "window"
    tools_prompt = "window-tools"
    text_only = "writes the past as text"

    def __init__(
        self, engine: TokenEngine, tokenizer: object = None, *, turns: int = 2, **options: Unpack[AgentOptions]
    ) -> None:
        super().__init__(engine, tokenizer, **options)
        if turns < 0:
            raise BadConfig(f"turns is {turns}; expected 0 or more")
        self.turns = turns

    def talk(self, task: Task, tools: Mapping[str, Tool]) -> "WindowConversation":
        """Return a new conversation of this agent without fitting it to an environment."""
        return WindowConversation(self, task, tools)


class WindowConversation(TokenConversation):
    """Conversation that is rewritten each turn from the last pairs."""

    def __init__(self, agent: WindowAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, tools)
        self.length = agent.turns
        self.pairs: tuple[tuple[str, str], ...] = ()
        """The last (observation, action) pairs, oldest first."""
        self._observation = ""

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return a fresh prompt: task, step, the last pairs, the observation, the admissible actions."""
        form, template = self.agent.prompt, self.agent.template
        if not self.turns:
            self.first_observation = observation
        self._observation = self.agent.cut(observation)
        values = {**self.values(observation, info), **window_values(self.pairs, self.turns)}
        if not self.cut_at:  # what was cut to its length is not cut again
            values["observation"] = lambda: self._observation
        return self.opened(template, form.opening(values, later=self.turns > 0))

    def reply(self, completion: Completion) -> str:
        """Take in the model's tokens and return the action for the environment."""
        action = super().reply(completion)
        self.pairs = (*self.pairs, (self._observation, action))[-self.length :] if self.length else ()
        return action
