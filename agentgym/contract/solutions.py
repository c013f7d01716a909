"""Laws of oracle, expert, cheaters and chance."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.contract.behaviour import solution
from agentgym.contract.report import Broken, NotChecked
from agentgym.contract.shortcuts import CHANCY, GENERIC, Player
from agentgym.contract.subject import ENDLESS, Subject, first, has, random_action, steps
from agentgym.core.env import TextEnv
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task


def oracle_solves(subject: Subject) -> str:
    """The oracle solves every task within the environment's own horizon, as one iterator and asked again each turn."""
    if not has(subject.env, "oracle"):
        raise NotChecked("it defines no oracle")
    notes: list[str] = []
    for level in subject.levels:
        turns = [_solved(level, task, seed) for seed, task in enumerate(level.many)]
        notes.append(f"{len(turns)} tasks of difficulty {level.env.difficulty} in {sum(turns) / len(turns):.1f} turns")
    return ", ".join(notes)


def _solved(subject: Subject, task: Task, seed: int) -> int:
    """Return the turns that the oracle takes; Broken where it does not solve the task."""
    env, actions = subject.env, solution(subject, task, seed, horizon=None)
    limit = f"in the {env.limit} turns of difficulty {env.difficulty}"
    if env.success is not True:
        text = f"asked again each turn, the oracle does not solve the task {limit}"
        raise Broken(text, task=task.id, seed=seed, actions=actions)
    env.reset(seed=seed, options={"task": task})
    played = list[str]()
    for action in env.oracle():
        played.append(action)
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            break
    if env.success is not True:
        text = f"the oracle's iterator does not solve the task {limit}"
        raise Broken(text, task=task.id, seed=seed, actions=played)
    return len(actions)


def oracle_recovers(subject: Subject) -> str:
    """From wherever random play left an unfinished episode, the oracle still solves it."""
    if not has(subject.env, "oracle"):
        raise NotChecked("it defines no oracle")
    env, count = subject.env, 0
    for seed, task in enumerate(subject.many):

        def breaks(actions: Sequence[Any], task: Any = task, seed: int = seed) -> str | None:
            nonlocal count
            env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            if any(step[2] or step[3] for step in steps(env, actions)):
                return None
            count += 1
            finish(env, lambda world, _, __: first(world.oracle), env.info())
            return None if env.success else "after these actions the oracle does not solve the task"

        actions = subject.wander(task, seed, 2 + seed % 10)
        for stop in {len(actions), len(actions) - 1}:
            subject.hold(task, seed, actions[:stop], breaks)
    return f"{count} states"


def expert_is_fair(subject: Subject) -> str:
    """Equal histories bring equal expert actions: of the same task, and of any two tasks that look alike so far."""
    if not has(subject.env, "expert"):
        raise NotChecked("it defines no expert")
    one, two, compared = subject.make(), subject.make(), 0
    tasks = subject.many if subject.plays > 1 else dataclasses.replace(subject, plays=2).many
    for seed, (task, other) in enumerate([*itertools.pairwise(tasks), *((task, task) for task in tasks[:3])]):
        seen = one.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
        also = two.reset(seed=seed if task is other else seed + 1, options={"task": other, "horizon": ENDLESS})
        history, over = list[str](), False
        while not over and _shown(seen) == _shown(also) and len(history) < 200:
            said, again, theirs = first(one.expert), first(one.expert), first(two.expert)
            if said != again or said != theirs:
                text = (
                    f"the expert says {said!r}, asked again {again!r}, in task {other.id} with the same history {theirs!r}"
                )
                raise Broken(text, task=task.id, seed=seed, actions=history)
            if said is None:
                break
            compared += 1
            history.append(said)
            (*_, end, cut, info), (*_, end2, cut2, info2) = one.step(said), two.step(said)
            seen, also, over = (one.observation, info), (two.observation, info2), end or cut or end2 or cut2
    return f"{compared} histories"


def _shown(response: tuple[str, dict[str, Any]]) -> tuple[Any, ...]:
    return response[0], response[1]["admissible"], response[1]["valid"]


def expert_is_good(subject: Subject) -> str:
    """The expert's success is at least what the world declares in `expert_bound`."""
    if not has(subject.env, "expert"):
        raise NotChecked("it defines no expert")
    notes, bound = list[str](), subject.env.expert_bound
    for level in subject.levels:
        rate, count = success_rate(level, lambda env, _, __: first(env.expert)), len(level.many)
        if rate < bound - _slack(bound, count):
            text = f"success {rate:.2f} over {count} tasks of difficulty {level.env.difficulty}"
            raise Broken(f"{text}; expert_bound declares {bound}")
        notes.append(f"{rate:.2f} at difficulty {level.env.difficulty}")
    return f"success {', '.join(notes)}"


def cheaters_fail(subject: Subject) -> str:
    """The generic cheaters and the world's own have success 0, or at most what `ceilings` declares."""
    names = dict[str, float]()
    players = {**GENERIC, **{name: from_text(cheat) for name, cheat in subject.env.cheaters().items()}}
    for name, player in players.items():
        least = subject.env.random_bound if name in CHANCY else 0.0
        rate, ceiling = success_rate(subject, player), max(subject.env.ceilings.get(name, 0.0), least)
        if rate > ceiling + _slack(ceiling, len(subject.many)):
            raise Broken(f"the cheater {name!r} has success {rate:.2f}; declared is {ceiling:.2f}")
        names[name] = rate
    unknown = set(subject.env.ceilings) - set(players)
    if unknown:
        raise Broken(f"ceilings names {sorted(unknown)}, which are no cheaters; there are {sorted(players)}")
    return ", ".join(f"{name} {rate:.2f}" for name, rate in names.items())


def chance_is_poor(subject: Subject) -> str:
    """Random play has at most the success the world declares in `random_bound`."""
    rate, bound = success_rate(subject, random_player), subject.env.random_bound
    if rate > bound + _slack(bound, len(subject.many)):
        raise Broken(f"success {rate:.2f} by random play; the world declares random_bound {bound}")
    return f"success {rate:.2f}, bound {bound}"


def _slack(share: float, n: int) -> float:
    """Return three standard errors of a rate over n episodes: what chance may add to a declared number."""
    return 3 * (share * (1 - share) / n) ** 0.5


def from_text(cheat: Callable[[list[str]], str]) -> Player:
    """Return the player that one of a world's own cheaters is."""
    return lambda _, observations, __: cheat(observations)


def random_player(env: TextEnv, observations: list[str], info: dict[str, Any]) -> str:
    """Play at random, the same way for the same task, seed and turn."""
    return random_action(env, observations[-1], info, generator("random", env.task.id, env.seed, env.turn))


def success_rate(subject: Subject, player: Player, env: TextEnv | None = None) -> float:
    """Return the share of tasks that a player solves within the world's own horizon."""
    env, solved = env or subject.env, 0
    for seed, task in enumerate(subject.many):
        _, info = env.reset(seed=seed, options={"task": task})
        finish(env, player, info)
        solved += env.success is True
    return solved / len(subject.many)


def finish(env: TextEnv, player: Player, info: dict[str, Any], most: int = 2000) -> int:
    """Play to the end of the episode and return the number of turns."""
    observations = [env.observation]
    for turn in range(1, most + 1):
        action = player(env, observations, info)
        if action is None:
            return turn - 1
        observation, _, terminated, truncated, info = env.step(action)
        observations.append(observation)
        if terminated or truncated:
            return turn
    return most
