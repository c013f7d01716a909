"""An episode gone through again, to branch off from its turns: the environment takes the same actions, the conversation
is told the same replies."""

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
    """An engine that gives the recorded replies of one session in order, and lets the real one answer all others."""

    def __init__(self, engine: Any, session: str, episode: Episode, stop_ids: Collection[int] = ()) -> None:
        self.engine, self.session = engine, session
        self._replies = iter(replies([call for turn in episode.turns for call in turn.calls], stop_ids))

    async def complete(self, request: Request) -> Completion:
        """Return the next recorded reply; ValueError where it was to another prompt."""
        if request.session != self.session:  # by `generate`, which every engine has, also one that declares it itself
            options = {"watch": request.watch} if request.watch else {}
            return await self.engine.generate(request.prompt_ids, request.sampling, request.session, **options)
        prompt_ids, completion = next(self._replies)
        if prompt_ids != request.prompt_ids:
            raise ValueError("the prompt is another than the recorded one")
        return completion

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def begins_a_reply(turns: Sequence[Turn], place: int) -> bool:
    """Return whether a turn is not the second or a later call of one reply: there nothing is sampled any more."""
    before = turns[place - 1] if place else None
    return before is None or list(turns[place].prompt_ids) != [*before.prompt_ids, *before.output_ids]


def replies(calls: Sequence[Turn], stop_ids: Collection[int]) -> list[tuple[list[int], Completion]]:
    """Return each reply's prompt and its tokens, which several turns share where it held several calls.

    Calls after a failed one were not executed and have no turn: what is left of their reply stands in the next prompt, up to
    the token that ended it, and nobody knows its log-probabilities.
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
    """Return a branch point before each of these turns (counted from 0) of an episode that one role played.

    Turns are left out from the first one on where something else is seen than was then: it cannot be repeated. So are the
    second and later calls of one reply, which were sampled before. A branch is gone through from the beginning of the task:
    chance is drawn afresh where it was then, at each of its forks.
    """
    session = f"{episode.group_id}#{episode.attempt}#replay"
    wanted = {number for number in turns if number < len(episode.turns) and begins_a_reply(episode.turns, number)}
    other: Any = copy.copy(agent)
    if agent.engine is not None:
        other.engine = Replayed(agent.engine, session, episode, agent.sampling.stop_ids)
        other.resample({})  # its variants have that engine too
    talk: Any = None
    by_number: dict[int, Start] = {}
    async with aclosing(_again(hosted, task, episode, seconds)) as turns_again:
        async for number, turn, observation, info in turns_again:
            talk = talk or hinted(other.begin(task, hosted.status.tools), episode.hint)
            context = (
                Start(await hosted.snapshot(seconds), {hosted.status.role: forked(talk, info)}) if number in wanted else None
            )
            try:
                again = await talk.take(observation, info, env=hosted.env, seed=0, session=session)
            except ValueError:  # another prompt than was recorded
                break
            if again.action != turn.action:
                break
            if context is not None:
                by_number[number] = context
    return by_number


async def consulted(hosted: HostedEnv, task: Task, episode: Episode, ask: Callable[[TextEnv], T], seconds: float) -> list[T]:
    """Return what `ask` says of the environment before each turn of an episode that one role played.

    The list ends where something else is seen than was then: the episode cannot be repeated from there on.
    """
    async with aclosing(_again(hosted, task, episode, seconds)) as turns_again:
        return [await consult(hosted.env, ask) async for _ in turns_again]


async def _again(
    hosted: HostedEnv, task: Task, episode: Episode, seconds: float
) -> AsyncGenerator[tuple[int, Turn, str, Info]]:
    """Go through an episode once more: before each turn, give its number, the turn, and what is seen there.

    It ends where something else is seen than was then. Chance is drawn afresh at each of the episode's forks, as it was.
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
