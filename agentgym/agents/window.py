"""The agent with a window of recent turns: a new prompt each turn, as in the GiGPO paper's ALFWorld experiments."""

from collections.abc import Mapping
from typing import Unpack

from agentgym.agents.fields import window_values
from agentgym.agents.token_agent import AgentOptions, TokenAgent, TokenConversation
from agentgym.core.actions import Tool
from agentgym.core.env import Task
from agentgym.engines import Completion, TokenEngine
from agentgym.errors import BadConfig


class WindowAgent(TokenAgent):
    """Each prompt has one user message, with the last `turns` (observation, action) pairs, without thoughts.

    Source: Feng et al. 2025, Group-in-Group Policy Optimization (arXiv 2505.10978), with `turns` = 2.
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
        """Start a conversation without first adapting the agent to the environment."""
        return WindowConversation(self, task, tools)


class WindowConversation(TokenConversation):
    """A conversation whose prompt is written again each turn, from the last (observation, action) pairs."""

    def __init__(self, agent: WindowAgent, task: Task, tools: Mapping[str, Tool]) -> None:
        super().__init__(agent, task, tools)
        self.length = agent.turns
        self.pairs: tuple[tuple[str, str], ...] = ()
        """The last (observation, action) pairs, oldest first."""
        self._observation = ""

    def prompt(self, observation: str, info: Mapping[str, object]) -> list[int]:
        """Return a new prompt: task, step, the last pairs, the observation and the admissible actions."""
        form, template = self.agent.prompt, self.agent.template
        if not self.turns:
            self.first_observation = observation
        self._observation = self.agent.cut(observation)
        values = {**self.values(observation, info), **window_values(self.pairs, self.turns)}
        if not self.cut_at:  # without the notice of a cut-off reply, it is already cut
            values["observation"] = lambda: self._observation
        return self.opened(template, form.opening(values, later=self.turns > 0))

    def reply(self, completion: Completion) -> str:
        """Record the model's reply and return the action for the environment."""
        action = super().reply(completion)
        self.pairs = (*self.pairs, (self._observation, action))[-self.length :] if self.length else ()
        return action
