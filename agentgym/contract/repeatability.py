"""Checks of determinism and snapshots: repetition, another process, and restoring in the middle of an episode."""

import pickle
from collections.abc import Sequence
from functools import partial

from agentgym.contract.behaviour import solution
from agentgym.contract.causes import own_chance
from agentgym.contract.elsewhere import go_on_elsewhere, play_elsewhere
from agentgym.contract.env_under_test import EnvUnderTest, difference, first
from agentgym.contract.report import Broken, NotChecked, Note
from agentgym.contract.shortcuts import CLAIM, hand_in
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.play import steps
from agentgym.core.tasks import Task
from agentgym.core.transcripts import ENDLESS, go_on, line, transcript


def same_again(under_test: EnvUnderTest) -> str:
    """Check that two environments in one process respond equally to equal actions, even after other episodes.

    Also check that a task's id gives the same task again.
    """
    under_test.repeatable()
    other = under_test.make()
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            once = transcript(under_test.env, task, seed, actions)
            for stranger in under_test.tasks[:2]:
                transcript(other, stranger, seed + 1, actions[:3])
            return difference(once, transcript(other, task, seed, actions)) or difference(
                once, transcript(other, task, seed, actions)
            )

        actions = under_test.wander(task, seed)
        try:
            if repr(under_test.env.find(task.id)) != repr(task):
                raise Broken(f"the task {task.id} is another when it is made again", task=task.id, seed=seed)
            under_test.hold(task, seed, actions, breaks)
        except Broken as found:
            raise _explained(
                found, own_chance(under_test.kind, partial(_from_start, under_test, task, seed, actions))
            ) from found
    return Note(f"{len(under_test.tasks)} plays, three times each", plays=3 * len(under_test.tasks))


def _from_start(under_test: EnvUnderTest, task: Task, seed: int, actions: Sequence[object]) -> None:
    """Create an environment, and play the actions in the task."""
    env = under_test.make()
    transcript(env, env.find(task.id), seed, actions)


def _explained(broken: Broken, why: str) -> Broken:
    """Return the finding with the explanation `why` appended, unless `why` is empty or the cause is known."""
    text = f"{broken}. {why}" if why and not broken.cause else str(broken)
    return Broken(text, task=broken.task, seed=broken.seed, actions=broken.actions, cause=broken.cause)


def same_elsewhere(under_test: EnvUnderTest) -> str:
    """Check that another process with another hash seed creates the same tasks and gives the same responses."""
    under_test.repeatable()
    plays = [(task.id, seed, under_test.wander(task, seed)) for seed, task in enumerate(under_test.tasks)]
    for action in ("", CLAIM):  # a shortcut that is paid only where nobody checks
        plays.append((under_test.tasks[0].id, 0, [action] * 3))
    try:
        return _same_elsewhere(under_test, plays)
    except Broken as found:
        task = under_test.env.find(plays[0][0])
        raise _explained(
            found, own_chance(under_test.kind, lambda: _from_start(under_test, task, 0, plays[0][2]))
        ) from found


def _same_elsewhere(under_test: EnvUnderTest, plays: list[tuple[str, int, list[object]]]) -> str:
    for (task_id, seed, actions), there in zip(plays, play_elsewhere(under_test, plays), strict=True):
        task = under_test.env.find(task_id)
        if repr(task) != there[0]:
            raise Broken(f"another process makes another task: {difference([repr(task)], there[:1])}", task=task_id)
        where = difference(transcript(under_test.env, task, seed, actions), there[1:])
        if where:
            turn = int(where.split()[1].rstrip(":")) if where.startswith("turn") else len(actions)
            raise Broken(f"another process answers otherwise, {where}", task=task_id, seed=seed, actions=actions[:turn])
    return Note(f"{len(plays)} plays in another process", plays=len(plays))


def same_verdict(under_test: EnvUnderTest) -> str:
    """Check that success is repeatable even if responses are not, for the solution and for submitting at once."""
    env = under_test.env
    if not env.declared.nondeterministic:
        raise NotChecked("whole answers are compared, and success with them")
    for seed, task in enumerate(under_test.tasks):
        for actions in (solution(under_test, task, seed, horizon=None), [hand_in(env)] * 2):
            once, again = (_success(env, task, seed, actions) for _ in range(2))
            if once != again:
                text = f"the same actions have success {once} the first time and {again} the second"
                raise Broken(text, task=task.id, seed=seed, actions=actions)
    return Note(f"{len(under_test.tasks)} tasks, solved and left alone, twice each", tasks=len(under_test.tasks))


def _success(env: TextEnv, task: Task, seed: int, actions: Sequence[object]) -> bool | None:
    env.reset(seed=seed, options={"task": task})
    for _ in steps(env, actions):
        pass
    return env.success


def snapshots_here(under_test: EnvUnderTest) -> str:
    """Check that a restored snapshot continues the episode unchanged, in the same environment and twice in another."""
    under_test.repeatable()
    other = under_test.make()
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            env = under_test.make()
            for middle in range(len(actions) + 1):
                transcript(env, task, seed, actions[:middle])
                state = env.snapshot()
                straight = [f"{env.info()}", *go_on(env, state, actions[middle:])]
                transcript(env, task, seed + 1, actions[::-1])
                for environment, where in ((env, "the same"), (other, "another"), (other, "another")):
                    environment.restore(state)
                    again = [f"{environment.info()}", *go_on(environment, state, actions[middle:])]
                    if difference(straight, again):
                        return f"restored after {middle} turns in {where} environment: {difference(straight, again)}"
            return None

        under_test.hold(task, seed, under_test.wander(task, seed, min(under_test.steps, 8)), breaks)
    return f"{len(under_test.tasks)} plays, a snapshot at each turn"


def snapshots_elsewhere(under_test: EnvUnderTest) -> str:
    """Check that a snapshot restored in another process continues the episode unchanged."""
    if under_test.make().snapshot_kind == "fork":
        raise NotChecked("its snapshots belong to one machine and process")
    under_test.repeatable()
    env, branches, here = under_test.make(), list[tuple[Snapshot, list[object]]](), list[list[str]]()
    for seed, task in enumerate(under_test.tasks):
        actions = under_test.wander(task, seed)
        transcript(env, task, seed, actions[: len(actions) // 2])
        state, rest = env.snapshot(), actions[len(actions) // 2 :]
        try:
            pickle.dumps(state)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            what = _unwritten(state.payload)
            raise Broken(f"the snapshot cannot be written{what}: {error}", task=task.id, seed=seed) from error
        branches.append((state, rest))
        here.append(go_on(env, state, rest))
    for (state, rest), left, right in zip(branches, here, go_on_elsewhere(under_test, branches), strict=True):
        where = difference(left, right)
        if where:
            raise Broken(f"restored in another process: {where}", task=state.task.id, seed=state.seed, actions=rest)
    return f"{len(branches)} snapshots"


def _unwritten(payload: object) -> str:
    """Return a phrase with the name and type of an attribute that cannot be pickled; empty if none is found."""
    parts: list[object] = list(payload) if isinstance(payload, tuple) else [payload]  # pyright: ignore[reportUnknownArgumentType]
    for name, value in (pair for part in parts if isinstance(part, dict) for pair in part.items()):  # pyright: ignore
        try:
            pickle.dumps(value)
        except Exception:
            return f": self.{name} is a {type(value).__name__}"  # pyright: ignore[reportUnknownArgumentType]
    return ""


def chance_afresh(under_test: EnvUnderTest) -> str:
    """Check that `restore(state, seed=k)` reseeds the random generator, with equal draws for equal `k` only."""
    env, task = under_test.make(), under_test.tasks[0]
    transcript(env, task, 0, under_test.wander(task, 0, 3)[:2])
    state = env.snapshot()

    def draw(seed: int | None) -> float:
        return float(env.restore(state, seed=seed).np_random.random())

    plain, seeded_one, again, seeded_two = draw(None), draw(1), draw(1), draw(2)
    if seeded_one != again or draw(None) != plain:
        raise Broken("the same seed draws otherwise the second time", task=task.id, seed=0)
    if len({plain, seeded_one, seeded_two}) < 3:
        raise Broken("another seed changes nothing: np_random continues as before", task=task.id, seed=0)
    return "four draws"


def looking_changes_nothing(under_test: EnvUnderTest) -> str:
    """Check that reading the state (key, metrics, commands, snapshot, oracle, expert) changes no later response."""
    under_test.repeatable()
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            blind, env = transcript(under_test.env, task, seed, actions), under_test.make()
            env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            seen = blind[:1]
            _look(env)
            for step in steps(env, actions):
                seen.append(line(step))
                if not step.over:
                    _look(env)
            return difference(blind, seen)

        under_test.hold(task, seed, under_test.wander(task, seed), breaks)
    return f"{len(under_test.tasks)} plays, looked at after every turn"


def _look(env: TextEnv) -> None:
    for _ in range(2):
        env.state_key()
        env.info()
        env.snapshot()
        env.render()
        first(env.oracle)
        first(env.expert)
