"""Harness agent of an evaluation."""

from typing import Any, Protocol

from agentgym.agents.message_agent import TURN_TOKENS
from agentgym.cli.eval_engine import Flags as Loading
from agentgym.cli.eval_engine import check_threads, loaded, temperature_of, weights_of
from agentgym.engines.kinds import kind_of
from agentgym.errors import BadConfig
from agentgym.gateway.sessions import Budget
from agentgym.harness.agent import HarnessAgent
from agentgym.harness.description import Harness, load
from agentgym.harness.solution import SolutionEngine

NOT_OURS = ("prompt", "tools", "observation_tokens", "horizon")
"""Flags that have no effect because a harness sets them itself."""


class Flags(Loading, Protocol):
    """Flags used by this module."""

    @property
    def policy(self) -> str | None:
        """`oracle` to run the solution's commands in place of the model's."""

    @property
    def agent(self) -> str | None:
        """Name or file of the harness."""

    @property
    def turn_tokens(self) -> int | None:
        """Maximum tokens of a reply."""

    @property
    def attempt_seconds(self) -> float | None:
        """Maximum seconds of an attempt."""

    @property
    def attempt_turns(self) -> int | None:
        """Maximum replies of an attempt."""

    @property
    def attempt_tokens(self) -> int | None:
        """Maximum sampled tokens of an attempt."""


def replayed(harness: Harness, engine: Any) -> SolutionEngine:
    """Return an engine that replays solutions with the tokenizer of `engine`, and close `engine`."""
    try:
        return SolutionEngine(harness, engine.tokenizer, engine.context)
    finally:
        engine.close()


def harness_agent(config: Flags, name: str) -> tuple[HarnessAgent, dict[str, object]]:
    """Return the harness agent for the engine `name`, and the agent's entries for the manifest.

    Raises:
        BadConfig: a flag has no effect, or the engine shows no tokens.
    """
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
    about: dict[str, object] = {"model": name, "weights": weights_of(name)}
    if config.policy:
        found = replayed(harness, found)
        about = {"policy": config.policy, "tokens_of": name}
    turn_tokens = config.turn_tokens or TURN_TOKENS
    budget = Budget(config.attempt_turns or 0, config.attempt_tokens or 0, turn_tokens=turn_tokens)
    seconds = config.attempt_seconds or 3600.0
    own = not config.policy  # a solution has no text for side calls, such as a title
    agent = HarnessAgent(
        None, found, found.tokenizer, temperature, turn_tokens, seconds, harness=harness, budget=budget, side_calls=own
    )
    about |= {"agent": f"harness:{harness.name}", "harness": harness.fingerprint}
    about |= {"temperature": temperature, "turn_tokens": turn_tokens, "attempt_seconds": seconds}
    about |= {"attempt_turns": budget.turns, "attempt_tokens": budget.tokens}
    return agent, about
