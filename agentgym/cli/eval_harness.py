"""A harness as what plays an evaluation."""

from typing import Protocol

from agentgym.agents.message_agent import TURN_TOKENS
from agentgym.cli.eval_engine import Flags as Loading
from agentgym.cli.eval_engine import check_threads, loaded, temperature_of, weights_of
from agentgym.engines.kinds import kind_of
from agentgym.errors import BadConfig
from agentgym.gateway.sessions import Budget
from agentgym.harness.agent import HarnessAgent
from agentgym.harness.description import load

NOT_OURS = ("prompt", "tools", "observation_tokens", "horizon")
"""Flags about what a harness has of its own."""


class Flags(Loading, Protocol):
    """The flags that this is about."""

    @property
    def agent(self) -> str | None:
        """The harness."""

    @property
    def turn_tokens(self) -> int | None:
        """The most tokens of a reply."""

    @property
    def attempt_seconds(self) -> float | None:
        """Seconds of an attempt."""

    @property
    def attempt_turns(self) -> int | None:
        """Replies of an attempt."""

    @property
    def attempt_tokens(self) -> int | None:
        """Sampled tokens of an attempt."""


def harness_agent(config: Flags, name: str) -> tuple[HarnessAgent, dict[str, object]]:
    """Return the agent over the engine of that name, and what the manifest says about it."""
    harness = load(config.agent or "")
    for flag in NOT_OURS:
        if getattr(config, flag) is not None:
            raise BadConfig(f"--{flag.replace('_', '-')} has no effect with a harness, which has its own: leave it out")
    kind, _ = kind_of(name)
    if not kind.tokens:
        raise BadConfig(f"a harness is recorded token by token, and {name} shows no tokens: use hf:, vllm: or openai:URL")
    temperature = temperature_of(config)
    check_threads(config, name)
    found = loaded(config, name)
    turn_tokens = config.turn_tokens or TURN_TOKENS
    budget = Budget(config.attempt_turns or 0, config.attempt_tokens or 0, turn_tokens=turn_tokens)
    seconds = config.attempt_seconds or 3600.0
    agent = HarnessAgent(None, found, found.tokenizer, temperature, turn_tokens, seconds, harness=harness, budget=budget)
    about: dict[str, object] = {"model": name, "weights": weights_of(name)}
    about |= {"agent": f"harness:{harness.name}", "harness": harness.fingerprint}
    about |= {"temperature": temperature, "turn_tokens": turn_tokens, "attempt_seconds": seconds}
    about |= {"attempt_turns": budget.turns, "attempt_tokens": budget.tokens}
    return agent, about
