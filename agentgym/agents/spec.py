"""Agents as plain options, which `train` and `eval` share and which are checked before a model is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.agents.chat import HISTORY
from agentgym.agents.decide import AUTO, TEXT, check_way, decide
from agentgym.agents.message_agent import TURN_TOKENS, MessageAgent
from agentgym.agents.prompt import load_prompt
from agentgym.agents.table import AGENTS
from agentgym.agents.token_agent import LEAST_OBSERVATION, TokenAgent
from agentgym.core.actions import Tool
from agentgym.engines import Sampling
from agentgym.errors import BadConfig, UnknownName, no_such

NAMED = ("agent", "tools", "history", "window_turns", "observation_tokens", "turn_tokens")
"""Fields of `AgentSpec` with the same name in `TrainConfig`; the prompt is `TrainConfig.prompt_asked`."""
CHARACTERS = 4
"""Characters that count as one token for a model without token access."""


@dataclass(frozen=True)
class AgentSpec:
    """An agent with a language model, except for the model itself. An invalid value raises an error here or in `make`."""

    agent: str = "chat"
    """Name of the agent, a key of `AGENTS`."""
    prompt: str | None = None
    """Name or file of the prompt; None to choose it by environment, see `decide`."""
    tools: str = AUTO
    history: str = "keep"
    window_turns: int = 2
    observation_tokens: int = 2048
    turn_tokens: int | None = None
    """Maximum tokens of a reply. None means 256 (the default of `Sampling`), or over plain chat 4,096
    (`message_agent.TURN_TOKENS`), since replies there include hidden thoughts. Recipes of small policies set less.
    """
    messages: bool = False
    """True if the model is reached through plain chat (chat:URL)."""

    def __post_init__(self) -> None:
        if self.agent not in AGENTS:
            raise UnknownName(no_such("agent", self.agent, AGENTS))
        if self.messages and not AGENTS[self.agent].messages:
            able = [name for name, entry in AGENTS.items() if entry.messages]
            raise BadConfig(
                f"agent {self.agent!r} needs a model's tokens, and chat:URL shows none: use agent {' or '.join(able)}"
            )
        for name, least in (("observation_tokens", LEAST_OBSERVATION), ("turn_tokens", 1), ("window_turns", 0)):
            if (value := getattr(self, name)) is not None and value < least:
                raise BadConfig(f"{name} is {value}; expected at least {least}")
        if "window_turns" not in AGENTS[self.agent].options and self.window_turns != AgentSpec.window_turns:
            raise BadConfig(f"window_turns has no effect with agent {self.agent!r}: only `window` has a window")
        self._check_history()
        self._check_tools()
        self._check_prompt()

    @property
    def reply_tokens(self) -> int:
        """Maximum tokens of a reply: `turn_tokens`, or the default for this kind of engine."""
        return self.turn_tokens or (TURN_TOKENS if self.messages else Sampling().max_tokens)

    @property
    def kind(self) -> type[TokenAgent]:
        """Class of the agent for models with tokens."""
        return AGENTS[self.agent].load()

    def _check_history(self) -> None:
        if self.history not in HISTORY:
            raise BadConfig(no_such("history", self.history, HISTORY))
        if self.history == "keep":
            return
        if "history" not in AGENTS[self.agent].options or self.messages:
            where = "plain chat" if self.messages else f"agent {self.agent!r}"
            raise BadConfig(f"history {self.history!r} has no effect with {where}: it is for agent 'chat' over tokens")

    def _check_tools(self) -> None:
        check_way(self.tools)
        if self.tools in (AUTO, TEXT):
            return
        if self.agent != "chat":
            why = f"agent {self.agent!r} {self.kind.text_only}"
            raise BadConfig(f"tools is {self.tools!r}: {why}; use agent 'chat', or tools 'text'")
        if self.history != "keep":
            raise BadConfig(f"tools is {self.tools!r} with history {self.history!r}: native calls need history 'keep'")
        if self.messages and self.tools != "native":
            raise BadConfig(
                f"tools is {self.tools!r}: over plain chat the server writes the calls; use tools 'native' or 'text'"
            )

    def _check_prompt(self) -> None:
        if self.prompt is None:
            return
        prompt = load_prompt(self.prompt)
        kind = prompt.reply.kind
        if (
            self.agent == "window"
            and self.window_turns not in (0, AgentSpec.window_turns)
            and "history" not in prompt.turn.fields
        ):
            raise BadConfig(
                f"window_turns has no effect with prompt {self.prompt!r}, which has no {{history}}: use prompt 'window', or "
                "one with {history} in its [turn]"
            )
        if self.agent == "completion" and kind != "until":
            raise BadConfig(f"prompt {self.prompt!r} has [reply] {kind}; agent 'completion' needs [reply] until NAME…")
        if self.tools not in (AUTO, TEXT) and kind != "call":
            raise BadConfig(f"prompt {self.prompt!r} has [reply] {kind}; tools {self.tools!r} needs [reply] call")

    def check_tools(self, tools: Mapping[str, Tool]) -> None:
        """Raise BadConfig if no prompt would describe the environment's tools to the model."""
        prompt = None if self.prompt is None else load_prompt(self.prompt)
        kind = self.kind
        why = BadConfig(f"agent {self.agent!r} {kind.text_only}") if kind.text_only else None
        decide(kind.__name__, kind.tools_prompt if tools else kind.default_prompt, prompt, self.tools, tools, lambda: why)

    def make(self, engine: Any, sampling: Sampling, tokenizer: object = None) -> TokenAgent | MessageAgent:
        """Make the agent with an engine. `tokenizer` (default: the engine's) is not used over plain chat."""
        if self.messages:
            return MessageAgent(
                engine,
                prompt=self.prompt,
                tools=self.tools,
                window=self.window_turns if self.agent == "window" else None,
                sampling=sampling,
                turn_tokens=self.reply_tokens,
                observation_characters=CHARACTERS * self.observation_tokens,
            )
        own: dict[str, Any] = {word: getattr(self, name) for name, word in AGENTS[self.agent].options.items()}
        return self.kind(
            engine,
            tokenizer,
            prompt=self.prompt,
            tools=self.tools,
            sampling=sampling,
            turn_tokens=self.reply_tokens,
            observation_tokens=self.observation_tokens,
            **own,
        )
