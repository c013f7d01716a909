"""Agents connect an environment's text to a model. An agent is configuration; a conversation is the state of one episode."""

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
    """An environment in another process, as agents see it."""

    async def consult(self, function: Callable[..., T], *arguments: object) -> T:
        """Return `function(env, *arguments)`, computed in the environment's process; everything must pickle."""
        ...


async def consult(env: TextEnv | RemoteStepping, function: Callable[..., T], *arguments: object) -> T:
    """Return `function(env, *arguments)`, computed in the environment's own process: this one, or a worker."""
    if isinstance(env, gymnasium.Env):  # a user's wrapper is one too
        return function(env, *arguments)
    return await env.consult(function, *arguments)


class Conversation(Protocol):
    """The agent's side of one episode."""

    async def take(self, observation: str, info: Mapping[str, object], *, env: TextEnv, seed: int, session: str) -> Turn:
        """Answer an observation: return a Turn with the prompt, the reply and the action.

        All randomness comes from `seed`, a function of (run seed, task, attempt, turn). `session` identifies the
        episode to the engine. `env` is only for policies that are part of the environment (oracle, expert): they query
        it through `consult`, since it may run in another process. The rollout executes `turn.action` and adds the
        reward and the other results to the turn.

        No action is executed if `finish` is "context" (the prompt no longer fits the model's context), "silent" (a
        policy has no next action) or "abort" (the engine aborted the request).
        """
        ...

    def fork(self) -> Self:
        """Return an independent copy. Together with a snapshot of the environment it is a branch point."""
        ...


class Agent(Protocol):
    """Immutable configuration that starts a conversation for each episode."""

    @property
    def engine(self) -> TokenEngine | ChatEngine | None:
        """Engine that turns prompts into replies; None for policies without a model."""

    @property
    def sampling(self) -> Sampling:
        """Sampling settings for replies."""
        ...

    def begin(self, task: Task, tools: Mapping[str, Tool]) -> Conversation:
        """Start the conversation of one episode."""
        ...


def redrawn(talk: Any, changes: Mapping[str, Any]) -> Any:
    """Change the sampling settings of a conversation in place, and return it; nothing else may use the conversation."""
    if changes and hasattr(talk, "agent"):
        talk.agent = sampled(talk.agent, changes)
    return talk


def forked(talk: Any, info: Mapping[str, object]) -> Any:
    """Return a copy of a conversation before its next answer, for a branch point.

    If the last call failed, the copy drops the remaining calls of that reply, because the `info` of a restored
    environment does not record the failure.
    """
    other = talk.fork()
    if not info["valid"] and hasattr(other, "give_up_calls"):
        other.give_up_calls()
    return other


def hinted(talk: Any, hint: Hint | None) -> Any:
    """Make a new conversation show the hint, if there is one, and return it.

    Raises:
        BadConfig: the conversation has no exact tokens. Training with a hint needs the prompt's tokens without the
            hint.
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
    """Return a copy of the agent with other sampling settings, such as another temperature."""
    other: Any = copy.copy(agent)
    if hasattr(other, "resample"):  # a model's agent keeps variants of itself, each with the sampling
        other.resample(changes)
    else:
        other.sampling = dataclasses.replace(agent.sampling, **changes)
    return other
