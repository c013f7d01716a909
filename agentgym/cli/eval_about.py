"""Manifest entries about an evaluation's agent."""

import hashlib
from collections.abc import Mapping
from typing import Protocol

from agentgym.agents.message_agent import MessageAgent
from agentgym.agents.spec import AgentSpec
from agentgym.agents.token_agent import TokenAgent
from agentgym.core.actions import Tool
from agentgym.errors import BadConfig
from agentgym.harness.description import is_harness


class Flags(Protocol):
    """Flags that select the agent."""

    @property
    def model(self) -> str | None:
        """Model as named on the command line."""

    @property
    def policy(self) -> str | None:
        """Policy in place of a model."""

    @property
    def agent(self) -> str | None:
        """Agent, or name or file of a harness."""


def replays(config: Flags) -> bool:
    """Return True if a harness replays the oracle's solutions, for which the model only supplies the tokenizer.

    Raises:
        BadConfig: no model is named.
    """
    if not is_harness(config.agent or "") or config.policy != "oracle":
        return False
    if config.model is None:
        raise BadConfig("a harness replays the oracle's solutions in the tokens of a model: name it with --model")
    return True


def player(config: Flags) -> str | None:
    """Return the name of the model or policy; `oracle in HARNESS` if a harness replays the oracle's solutions."""
    return f"{config.policy} in {config.agent}" if replays(config) else config.model or config.policy


def about_agent(
    config: object, spec: AgentSpec, agent: TokenAgent | MessageAgent, tools: Mapping[str, Mapping[str, Tool]], several: bool
) -> dict[str, object]:
    """Return the manifest's entries about an agent; `prompt` and `tools` are keyed by environment if there are `several`."""
    fitted = {environment: agent.fitted(offered) for environment, offered in tools.items()} or {"": agent}
    prompts = {environment: fitted_agent.prompt for environment, fitted_agent in fitted.items()}
    template = str(getattr(getattr(agent.engine, "tokenizer", None), "chat_template", None))
    options: dict[str, object] = {
        "agent": spec.agent,
        "prompt": _by_environment({environment: prompt.name for environment, prompt in prompts.items()}, several),
        "prompt_hash": _hash(*sorted({*map(repr, prompts.values())}), template),
        "temperature": agent.sampling.temperature,
        "turn_tokens": agent.sampling.max_tokens,
    }
    if any(tools.values()):
        options["tools"] = _by_environment(
            {environment: fitted[environment].tools for environment, offered in tools.items() if offered}, several
        )
    for name in ("history", "window_turns", "observation_tokens"):
        if getattr(spec, name) != getattr(AgentSpec(), name) or getattr(config, name, None) is not None:
            options[name] = getattr(spec, name)
    return {**options, **getattr(agent.engine, "settings", {})}


def _by_environment(values: dict[str, str], several: bool) -> str | dict[str, str]:
    """Return `values`, keyed by environment, if there are `several` environments, else the single value."""
    return values if several and "" not in values else next(iter(values.values()))


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8"), digest_size=8).hexdigest()
