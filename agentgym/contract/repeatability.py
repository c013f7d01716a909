"""Laws of determinism and snapshots: the same again, elsewhere, and from the middle."""

import pickle
from collections.abc import Sequence
from typing import Any

from agentgym.contract.elsewhere import go_on_elsewhere, play_elsewhere
from agentgym.contract.report import Broken, NotChecked
from agentgym.contract.subject import ENDLESS, Subject, difference, first, go_on, line, play, steps
from agentgym.core import TextEnv
from agentgym.tasks import Task


def same_again(subject: Subject) -> str:
    """Two worlds of one process, interleaved and reset in between, answer the same actions alike."""
    subject.repeatable()
    other = subject.make()
    for seed, task in enumerate(subject.tasks):

        def breaks(actions: Sequence[Any], task: Task = task, seed: int = seed) -> str | None:
            once = play(subject.env, task, seed, actions)
            for stranger in subject.tasks[:2]:
                play(other, stranger, seed + 1, actions[:3])
            return difference(once, play(other, task, seed, actions)) or difference(once, play(other, task, seed, actions))

        subject.hold(task, seed, subject.wander(task, seed), breaks)
    return f"{len(subject.tasks)} plays, three times each"


def same_elsewhere(subject: Subject) -> str:
    """Another process with another hash seed makes the same tasks and answers alike."""
    subject.repeatable()
    plays = [(task.id, seed, subject.wander(task, seed)) for seed, task in enumerate(subject.tasks)]
    for (task_id, seed, actions), there in zip(plays, play_elsewhere(subject, plays), strict=True):
        task = subject.env.find(task_id)
        if repr(task) != there[0]:
            raise Broken(f"another process makes another task: {difference([repr(task)], there[:1])}", task=task_id)
        where = difference(play(subject.env, task, seed, actions), there[1:])
        if where:
            turn = int(where.split()[1].rstrip(":")) if where.startswith("turn") else len(actions)
            raise Broken(f"another process answers otherwise, {where}", task=task_id, seed=seed, actions=actions[:turn])
    return f"{len(plays)} plays in another process"


def snapshots_here(subject: Subject) -> str:
    """A restored snapshot goes on as if nothing had happened, in the same world and in another, twice."""
    subject.repeatable()
    other = subject.make()
    for seed, task in enumerate(subject.tasks):

        def breaks(actions: Sequence[Any], task: Task = task, seed: int = seed) -> str | None:
            env = subject.make()
            for middle in range(len(actions) + 1):
                play(env, task, seed, actions[:middle])
                state = env.snapshot()
                straight = [f"{env.info()}", *go_on(env, state, actions[middle:])]
                play(env, task, seed + 1, actions[::-1])
                for world, where in ((env, "the same"), (other, "another"), (other, "another")):
                    world.restore(state)
                    again = [f"{world.info()}", *go_on(world, state, actions[middle:])]
                    if difference(straight, again):
                        return f"restored after {middle} turns in {where} world: {difference(straight, again)}"
            return None

        subject.hold(task, seed, subject.wander(task, seed, min(subject.steps, 8)), breaks)
    return f"{len(subject.tasks)} plays, a snapshot at each turn"


def snapshots_elsewhere(subject: Subject) -> str:
    """A snapshot goes to another process and goes on there."""
    if subject.make().snapshot_kind == "fork":
        raise NotChecked("its snapshots belong to one machine and process")
    subject.repeatable()
    env, branches, here = subject.make(), list[tuple[Any, list[Any]]](), list[list[str]]()
    for seed, task in enumerate(subject.tasks):
        actions = subject.wander(task, seed)
        play(env, task, seed, actions[: len(actions) // 2])
        state, rest = env.snapshot(), actions[len(actions) // 2 :]
        try:
            pickle.dumps(state)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise Broken(f"the snapshot cannot be written: {error}", task=task.id, seed=seed) from error
        branches.append((state, rest))
        here.append(go_on(env, state, rest))
    for (state, rest), one, two in zip(branches, here, go_on_elsewhere(subject, branches), strict=True):
        where = difference(one, two)
        if where:
            raise Broken(f"restored in another process: {where}", task=state.task.id, seed=state.seed, actions=rest)
    return f"{len(branches)} snapshots"


def chance_afresh(subject: Subject) -> str:
    """`restore(state, seed=k)` draws later chance afresh: alike for the same k, otherwise for another, but not the past."""
    env, task = subject.make(), subject.tasks[0]
    play(env, task, 0, subject.wander(task, 0, 3)[:2])
    state = env.snapshot()

    def draw(seed: int | None) -> float:
        return float(env.restore(state, seed=seed).np_random.random())

    plain, one, again, two = draw(None), draw(1), draw(1), draw(2)
    if one != again or draw(None) != plain:
        raise Broken("the same seed draws otherwise the second time", task=task.id, seed=0)
    if len({plain, one, two}) < 3:
        raise Broken("another seed changes nothing: np_random goes on as before", task=task.id, seed=0)
    return "four draws"


def looking_changes_nothing(subject: Subject) -> str:
    """Asking for state, key, measures, commands, snapshot, oracle or expert changes no later response."""
    subject.repeatable()
    for seed, task in enumerate(subject.tasks):

        def breaks(actions: Sequence[Any], task: Task = task, seed: int = seed) -> str | None:
            blind, env = play(subject.env, task, seed, actions), subject.make()
            env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            seen = blind[:1]
            _look(env)
            for step in steps(env, actions):
                seen.append(line(step))
                if not (step[2] or step[3]):
                    _look(env)
            return difference(blind, seen)

        subject.hold(task, seed, subject.wander(task, seed), breaks)
    return f"{len(subject.tasks)} plays, looked at after every turn"


def _look(env: TextEnv) -> None:
    for _ in range(2):
        env.state_key()
        env.info()
        env.snapshot()
        env.render()
        first(env.oracle)
        first(env.expert)
