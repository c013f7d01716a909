"""Checks of the oracle, the expert, shortcut policies and random play."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from agentgym.contract.behaviour import solution
from agentgym.contract.env_under_test import EnvUnderTest, first, has, random_action
from agentgym.contract.report import Broken, NotChecked, Note
from agentgym.contract.shortcuts import CHANCY, FORGERIES, GENERIC, Policy, shell_of
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.play import play, steps
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.core.transcripts import ENDLESS


@runtime_checkable
class Validated(Protocol):
    """An environment whose third-party tasks include a check of their reference answers."""

    def validated(self, task: Task) -> bool | None:
        """Return the verdict of the task's own check on its reference answer; None if the task has no check."""
        ...


def oracle_solves(under_test: EnvUnderTest) -> str:
    """Check that the oracle solves every task that has a known solution, within the horizon.

    It must do so both as one iterator and when it is queried again every turn.
    """
    if not has(under_test.env, "oracle"):
        raise NotChecked("it defines no oracle")
    notes, solved, silent = list[str](), 0, 0
    for level in under_test.levels:
        turns = list[int]()
        for seed, task in enumerate(level.many):
            try:
                turns.append(_solved(level, task, seed))
            except NotImplementedError:  # this task has no known solution
                silent += 1
        solved += len(turns)
        if turns:
            notes.append(f"{len(turns)} tasks of difficulty {level.env.difficulty} in {sum(turns) / len(turns):.1f} turns")
    if not solved:
        raise NotChecked("none of its tasks comes with a solution")
    return Note(", ".join([*notes, *([f"{silent} without a solution"] if silent else [])]), tasks=solved, success=1.0)


def reference_holds(under_test: EnvUnderTest) -> str:
    """Check that each task's own validation, written by its authors, accepts the task's reference answer."""
    env, verdicts = under_test.env, list[bool | None]()
    if not isinstance(env, Validated):
        raise NotChecked("it has no check other than its oracle")
    for task in under_test.many:
        verdicts.append(env.validated(task))
        if verdicts[-1] is False:
            raise Broken("the task's own check of its reference answer says no", task=task.id)
    if verdicts.count(True) == 0:
        raise NotChecked("its tasks define no check of their reference answers")
    return Note(f"{verdicts.count(True)} of {len(verdicts)} tasks", tasks=verdicts.count(True))


def _solved(under_test: EnvUnderTest, task: Task, seed: int) -> int:
    """Return the number of turns that the oracle takes.

    Raises:
        Broken: the oracle does not solve the task.
        NotImplementedError: the task has no known solution.
    """
    env, actions = under_test.env, solution(under_test, task, seed, horizon=None)
    if not actions:
        next(iter(env.oracle()), None)  # NotImplementedError if this task has no solution
    limit = f"in the {env.limit} turns of difficulty {env.difficulty}"
    if env.success is not True:
        text = f"asked again each turn, the oracle does not solve the task {limit}"
        raise Broken(text, task=task.id, seed=seed, actions=actions)
    seen = env.reset(seed=seed, options={"task": task})
    oracle = iter(env.oracle())
    played = [action for action, _ in play(env, lambda _, __: next(oracle, None), seen)]
    if env.success is not True:
        text = f"the oracle's iterator does not solve the task {limit}"
        raise Broken(text, task=task.id, seed=seed, actions=played)
    return len(actions)


def oracle_recovers(under_test: EnvUnderTest) -> str:
    """Check that the oracle solves an unfinished episode from any state that random play reached."""
    if not has(under_test.env, "oracle"):
        raise NotChecked("it defines no oracle")
    env, count = under_test.env, 0
    for seed, task in enumerate(under_test.many):

        def breaks(actions: Sequence[object], task: object = task, seed: int = seed) -> str | None:
            nonlocal count
            env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            if any(step.over for step in steps(env, actions)):
                return None
            try:
                next(iter(env.oracle()), None)
            except NotImplementedError:  # a published task may have no known solution from here
                return None
            count += 1
            finish(env, lambda environment, _, __: first(environment.oracle), env.info())
            return None if env.success else "after these actions the oracle does not solve the task"

        actions = under_test.wander(task, seed, 2 + seed % 10)
        for stop in {len(actions), len(actions) - 1}:
            under_test.hold(task, seed, actions[:stop], breaks)
    return f"{count} states"


def expert_is_fair(under_test: EnvUnderTest) -> str:
    """Check that equal histories get equal expert actions, in one task and in two tasks that look the same so far."""
    if not has(under_test.env, "expert"):
        raise NotChecked("it defines no expert")
    bare_first, bare_second, compared = under_test.make(), under_test.make(), 0
    tasks = under_test.many if under_test.plays > 1 else dataclasses.replace(under_test, plays=2).many
    for seed, (task, other) in enumerate([*itertools.pairwise(tasks), *((task, task) for task in tasks[:3])]):
        seen = bare_first.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
        also = bare_second.reset(seed=seed if task is other else seed + 1, options={"task": other, "horizon": ENDLESS})
        history, over = list[str](), False
        while not over and _comparable(seen) == _comparable(also) and len(history) < 200:
            ours, again, theirs = first(bare_first.expert), first(bare_first.expert), first(bare_second.expert)
            if ours != again or ours != theirs:
                text = (
                    f"the expert says {ours!r}, asked again {again!r}, in task {other.id} with the same history {theirs!r}"
                )
                raise Broken(text, task=task.id, seed=seed, actions=history)
            if ours is None:
                break
            compared += 1
            history.append(ours)
            (*_, end, cut, info), (*_, end2, cut2, info2) = bare_first.step(ours), bare_second.step(ours)
            seen, also, over = (bare_first.observation, info), (bare_second.observation, info2), end or cut or end2 or cut2
    return f"{compared} histories"


def _comparable(response: tuple[str, Info]) -> tuple[object, ...]:
    return response[0], response[1]["admissible"], response[1]["valid"]


def expert_is_good(under_test: EnvUnderTest) -> str:
    """Check that the expert's success rate is not significantly below the declared `expert_bound` (see `_slack`)."""
    if not has(under_test.env, "expert"):
        raise NotChecked("it defines no expert")
    notes, bound = list[str](), under_test.env.declared.expert_bound
    for level in under_test.levels:
        rate, count = success_rate(level, lambda env, _, __: first(env.expert)), len(level.many)
        if rate < bound - _slack(bound, count):
            text = f"success {rate:.2f} over {count} tasks of difficulty {level.env.difficulty}"
            raise Broken(f"{text}; expert_bound declares {bound}")
        notes.append(f"{rate:.2f} at difficulty {level.env.difficulty}")
    return f"success {', '.join(notes)}"


def shortcuts_fail(under_test: EnvUnderTest) -> str:
    """Check that generic and environment-specific shortcut policies have success 0, or at most the declared `ceilings`.

    A ceiling above 0 may be exceeded by chance (see `_slack`). For policies in `CHANCY` it is at least `random_bound`.
    """
    names, allowed, over = dict[str, float](), dict[str, float](), list[str]()
    env, count = under_test.env, len(under_test.many)
    own = {name: from_text(shortcut) for name, shortcut in env.shortcuts().items()}
    clashing = sorted(set(own) & {*GENERIC, *FORGERIES})
    if clashing:
        raise Broken(f"shortcuts() names {clashing[0]!r}, which is the name of a general policy; choose another name")
    policies = {**GENERIC, **(FORGERIES if shell_of(env) else {}), **own}
    for name, policy in policies.items():
        least = env.declared.random_bound if name in CHANCY else 0.0
        rate, ceiling = success_rate(under_test, policy), max(least, env.declared.ceilings.get(name, 0.0))
        names[name], allowed[name] = rate, ceiling
        if rate > ceiling + _slack(ceiling, count):
            over.append(f"the shortcut policy {name!r} has success {rate:.2f}; declared is {ceiling:.2f}")
    numbers = {"success": names, "allowed": allowed, "tasks": count}
    if over:
        raise Broken("; ".join(over), numbers=numbers)
    unknown = set(env.declared.ceilings) - {*policies, *FORGERIES}
    if unknown:
        raise Broken(f"ceilings names {sorted(unknown)}, which are not shortcut policies; there are {sorted(policies)}")
    return Note(", ".join(f"{name} {rate:.2f}" for name, rate in names.items()), **numbers)


def chance_is_poor(under_test: EnvUnderTest) -> str:
    """Check that the success rate of random play is not significantly above the declared `random_bound` (see `_slack`)."""
    rate, bound = success_rate(under_test, random_policy), under_test.env.declared.random_bound
    if rate > bound + _slack(bound, len(under_test.many)):
        text = f"success {rate:.2f} by random play; the environment declares random_bound {bound}"
        raise Broken(text, numbers={"success": rate, "bound": bound, "tasks": len(under_test.many)})
    return Note(f"success {rate:.2f}, bound {bound}", success=rate, bound=bound, tasks=len(under_test.many))


def _slack(share: float, n: int) -> float:
    """Return the allowed deviation from a declared success rate `share`: three standard errors over `n` episodes."""
    return 3 * (share * (1 - share) / n) ** 0.5


def from_text(shortcut: Callable[[list[str]], str]) -> Policy:
    """Convert an environment's shortcut policy, a function of the observations, to a `Policy`."""
    return lambda _, observations, __: shortcut(observations)


def random_policy(env: TextEnv, observations: list[str], info: Info) -> str:
    """Return a random action, which is the same for the same task, seed and turn."""
    return random_action(env, observations[-1], info, generator("random", env.task.id, env.seed, env.turn))


def success_rate(under_test: EnvUnderTest, policy: Policy, env: TextEnv | None = None) -> float:
    """Return the share of tasks that a policy solves in `env` (by default the shared environment) within its horizon."""
    env, solved = env or under_test.env, 0
    for seed, task in enumerate(under_test.many):
        _, info = env.reset(seed=seed, options={"task": task})
        finish(env, policy, info)
        solved += env.success is True
    return solved / len(under_test.many)


def finish(env: TextEnv, policy: Policy, info: Info, most: int = 2000) -> int:
    """Play until the episode ends, the policy gives up, or `most` turns are played; return the number of turns."""
    observations = [env.observation]
    turns = play(env, lambda _, info: policy(env, observations, info), (env.observation, info))
    for _, step in itertools.islice(turns, most):
        observations.append(step.observation)
    return len(observations) - 1
