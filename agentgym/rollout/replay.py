"""Replay of an episode, to branch off from its turns: the environment gets the same actions, the agent the same replies."""

import copy
import itertools
import math
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from agentgym.agents.base import Agent, consult, forked, hinted
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Finish, Info
from agentgym.core.tasks import Task
from agentgym.engines import Completing, Completion, Request
from agentgym.episodes.episode import Episode, Turn
from agentgym.rollout.hosted import HostedEnv
from agentgym.rollout.play import Start

T = TypeVar("T")


class Replayed(Completing):
    """An engine that answers one session with recorded replies, in order, and passes other requests to the real engine."""

    def __init__(self, engine: Any, session: str, episode: Episode, stop_ids: Collection[int] = ()) -> None:
        self.engine, self.session = engine, session
        self._replies = iter(replies([call for turn in episode.turns for call in turn.calls], stop_ids))

    async def complete(self, request: Request) -> Completion:
        """Return the next recorded reply; for another session, the real engine's reply.

        Raises:
            ValueError: the prompt differs from the recorded one.
        """
        if request.session != self.session:  # `generate` exists in every engine
            options = {"watch": request.watch} if request.watch else {}
            return await self.engine.generate(request.prompt_ids, request.sampling, request.session, **options)
        prompt_ids, completion = next(self._replies)
        if prompt_ids != request.prompt_ids:
            raise ValueError("the prompt is another than the recorded one")
        return completion

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def begins_a_reply(turns: Sequence[Turn], place: int) -> bool:
    """Return True if a reply was sampled at this turn; False if the turn is a later call of the previous reply."""
    before = turns[place - 1] if place else None
    return before is None or list(turns[place].prompt_ids) != [*before.prompt_ids, *before.output_ids]


def replies(calls: Sequence[Turn], stop_ids: Collection[int]) -> list[tuple[list[int], Completion]]:
    """Return (prompt, completion) for each reply; several turns share a reply that had several calls.

    After a failed call, the reply's other calls were not executed and have no turn. Their tokens are taken from the
    next prompt, up to the stop token, with unknown log-probabilities (NaN).
    """
    pairs: list[tuple[list[int], Completion]] = []
    for place, call in enumerate(calls):
        if begins_a_reply(calls, place):
            completion = Completion(list(call.output_ids), list(call.logprobs), call.finish, call.policy_version)
            pairs.append((list(call.prompt_ids), completion))
        else:
            prompt_ids, earlier = pairs[-1]
            ids, logprobs = [*earlier.ids, *call.output_ids], [*earlier.logprobs, *call.logprobs]
            pairs[-1] = prompt_ids, Completion(ids, logprobs, call.finish, call.policy_version)
    for (prompt_ids, completion), (following, _) in itertools.pairwise(pairs):
        context = [*prompt_ids, *completion.ids]
        if completion.finish == Finish.STOP and completion.ids[-1:] and completion.ids[-1] not in stop_ids:
            rest = following[len(context) :] if following[: len(context)] == context else []
            end = next((place for place, token in enumerate(rest, 1) if token in stop_ids), 0)
            completion.ids += rest[:end]
            completion.logprobs += [math.nan] * end
    return pairs


async def starts(
    hosted: HostedEnv, agent: Agent, task: Task, episode: Episode, turns: Collection[int], seconds: float
) -> dict[int, Start]:
    """Return a branch point before each of the requested turns (from 0) of an episode with one role.

    The episode is replayed from the beginning of the task; if it is itself a branch, the random seed changes at each of
    its forks, as in the original. Turns are left out after the replay's first difference from the record. Later calls
    of a reply are also left out, since nothing is sampled there.
    """
    session = f"{episode.group_id}#{episode.attempt}#replay"
    numbers = {number for number in turns if number < len(episode.turns) and begins_a_reply(episode.turns, number)}
    other: Any = copy.copy(agent)
    if agent.engine is not None:
        other.engine = Replayed(agent.engine, session, episode, agent.sampling.stop_ids)
        other.resample({})  # so that its variants use that engine too
    talk: Any = None
    by_number: dict[int, Start] = {}
    async with aclosing(_again(hosted, task, episode, seconds)) as turns_again:
        async for number, turn, observation, info in turns_again:
            talk = talk or hinted(other.begin(task, hosted.status.tools), episode.hint)
            context = (
                Start(await hosted.snapshot(seconds), {hosted.status.role: forked(talk, info)})
                if number in numbers
                else None
            )
            try:
                again = await talk.take(observation, info, env=hosted.env, seed=0, session=session)
            except ValueError:  # the prompt differs from the recorded one
                break
            if again.action != turn.action:
                break
            if context is not None:
                by_number[number] = context
    return by_number


async def consulted(hosted: HostedEnv, task: Task, episode: Episode, ask: Callable[[TextEnv], T], seconds: float) -> list[T]:
    """Return the results of `ask(env)` before each turn of an episode with one role.

    The list ends where the replay's observation or state key first differs from the record.
    """
    async with aclosing(_again(hosted, task, episode, seconds)) as turns_again:
        return [await consult(hosted.env, ask) async for _ in turns_again]


async def _again(
    hosted: HostedEnv, task: Task, episode: Episode, seconds: float
) -> AsyncGenerator[tuple[int, Turn, str, Info]]:
    """Replay an episode; before each turn, yield its number, the turn, and the current observation and info.

    The replay ends at the first observation or state key that differs from the record. If the episode is a branch, the
    random seed changes at each of its forks, as in the original.
    """
    seeds = [*(seed for _, _, seed in episode.forks), episode.seed]
    afresh = {turn: seed for (_, turn, _), seed in zip(episode.forks, seeds[1:], strict=True)}
    options: dict[str, object] = {"task": task, **({"horizon": episode.horizon} if episode.horizon else {})}
    observation, info = await hosted.reset(seeds[0], options, seconds)
    for number, turn in enumerate(episode.turns):
        if number in afresh:
            observation, info = await hosted.restore(await hosted.snapshot(seconds), afresh[number], seconds)
        if (observation, info["state_key"]) != (turn.observation, turn.state_key):
            return
        yield number, turn, observation, info
        if number + 1 < len(episode.turns):
            observation, _, terminated, truncated, info = await hosted.step(turn.action, seconds)
            if terminated or truncated:
                return
