"""Agents connect an environment's text to a model: an agent is configuration, a conversation the state of one
episode."""

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar

import gymnasium

from agentgym.core.actions import Tool
from agentgym.core.env import Task, TextEnv
from agentgym.core.hints import Hint
from agentgym.engines import ChatEngine, Sampling, TokenEngine
from agentgym.episodes.episode import Turn
from agentgym.errors import BadConfig

T = TypeVar("T")


class RemoteStepping(Protocol):
    """An environment in another process."""

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`, computed in the environment's own process; all of it must pickle."""
        ...


async def consult(env: TextEnv | RemoteStepping, function: Callable[..., T], *arguments: object) -> T:
    """Return `function(env, *arguments)`, computed where the environment lives: here, or in a worker process."""
    if isinstance(env, gymnasium.Env):  # a user's wrapper is one too
        return function(env, *arguments)
    return await env.consult(function, *arguments)


class Conversation(Protocol):
    """The agent's side of one episode."""

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation: a Turn with what the agent acted on and what it does.

        `seed` is a function of (run seed, task, attempt, turn) and all randomness comes from it; `session` names the
        episode to the engine. `env` is for agents that are part of the environment (oracle, expert), which ask it through
        `consult`: it may be in another process. A model's agent never touches it. `turn.action` goes to the environment;
        the rollout fills in what that brought. When the prompt no longer fits the model's context the turn has
        `finish == "context"`; where a policy knows nothing to do it has `finish == "silent"`. No action is carried out
        then.
        """
        ...

    def fork(self) -> Self:
        """Return an independent copy: with an environment's snapshot, a branch point."""
        ...


class Agent(Protocol):
    """Immutable configuration from which every episode's conversation begins."""

    @property
    def engine(self) -> TokenEngine | ChatEngine | None:
        """Engine that turns prompts into replies; None for policies without a model."""

    @property
    def sampling(self) -> Sampling:
        """Sampling of replies."""
        ...

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> Conversation:
        """Start the conversation of one episode."""
        ...


def redrawn(talk: Any, changes: Mapping[str, Any]) -> Any:
    """Change the sampling options of a conversation that no one else uses, and return it."""
    if changes and hasattr(talk, "agent"):
        talk.agent = sampled(talk.agent, changes)
    return talk


def forked(talk: Any, info: Mapping[str, object]) -> Any:
    """Return a copy of a conversation before its next answer, for a branch point.

    Calls that follow a failed call of the last reply are dropped now: the `info` of a restored environment does not
    record the failure.
    """
    other = talk.fork()
    if not info["valid"] and hasattr(other, "give_up_calls"):
        other.give_up_calls()
    return other


def hinted(talk: Any, hint: Hint | None) -> Any:
    """Return a fresh conversation whose prompts show the hint, if there is one.

    Raises:
        BadConfig: the conversation has no exact tokens; training on a hint needs the prompt's tokens without it.
    """
    if hint is not None:
        if not hasattr(talk, "hint"):
            raise BadConfig(
                f"an episode is to be played with a hint, and {type(talk).__name__} shows none: hints are for agents whose "
                "turns are exact tokens, such as ChatAgent, in training"
            )
        talk.hint = hint
    return talk


def sampled(agent: Agent, changes: Mapping[str, Any]) -> Agent:
    """Return the same agent with other sampling options, such as another temperature."""
    other: Any = copy.copy(agent)
    if hasattr(other, "resample"):  # a model's agent keeps variants of itself, each with the sampling
        other.resample(changes)
    else:
        other.sampling = dataclasses.replace(agent.sampling, **changes)
    return other
