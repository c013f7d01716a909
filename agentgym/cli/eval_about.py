"""Manifest entries about an evaluation's agent."""

import hashlib
from collections.abc import Mapping

from agentgym.agents.message_agent import MessageAgent
from agentgym.agents.spec import AgentSpec
from agentgym.agents.token_agent import TokenAgent
from agentgym.core.actions import Tool


def about_agent(
    config: object, spec: AgentSpec, agent: TokenAgent | MessageAgent, tools: Mapping[str, Mapping[str, Tool]], several: bool
) -> dict[str, object]:
    """Return the manifest's entries about an agent, keyed by environment if there are `several`."""
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
    """Return the value of each environment by its name, or the single value of one environment."""
    return values if several and "" not in values else next(iter(values.values()))


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\x1f".join(parts).encode("utf-8"), digest_size=8).hexdigest()
