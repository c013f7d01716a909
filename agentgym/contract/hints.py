"""Check of hints, which training can request at the beginning and in the middle of an episode."""

from collections.abc import Sequence

from agentgym.contract.env_under_test import EnvUnderTest, difference
from agentgym.contract.report import Broken, NotChecked, Note
from agentgym.contract.tasks import shown_in
from agentgym.core.env import TextEnv
from agentgym.core.hints import first_share, solution
from agentgym.core.outcome import Info
from agentgym.core.play import Step, steps
from agentgym.core.tasks import Task
from agentgym.core.transcripts import line

BELOW = (0.25, 0.5, 0.75)
"""Hint levels that must not reveal the answer."""
LEVELS = (*BELOW, 1.0)


def hints(under_test: EnvUnderTest) -> str:
    """Check that hints are text and repeatable, and that requests for hints have no effect.

    Also check that the levels in `BELOW` reveal an answer in at most half of the tasks, since it may happen by accident.
    """
    under_test.repeatable()
    other, tasks, leaking, last = under_test.make(), 0, 0, ""
    for seed, task in enumerate(under_test.tasks):
        try:
            leaks = _leaks(under_test, other, task, seed)
        except NotImplementedError:  # this task has no known solution
            continue
        tasks += 1
        if leaks:
            leaking, last = leaking + 1, task.id
    if not tasks:
        raise NotChecked("it has no hint, and neither its oracle nor its expert knows a solution")
    if leaking > tasks / 2:  # now and then an answer is in a hint by accident
        text = (
            f"hint({BELOW[0]}) to hint({BELOW[-1]}) tell the answer in {leaking} of {tasks} tasks, and so much of the "
            "solution does not"
        )
        raise Broken(text, task=last, seed=0, numbers={"tasks": tasks, "shown": leaking})
    return Note(f"{tasks} tasks at levels {', '.join(map(str, LEVELS))}; {leaking} answers by accident", tasks=tasks)


def _leaks(under_test: EnvUnderTest, other: TextEnv, task: Task, seed: int) -> set[str]:
    """Return answers that a hint reveals but the same share of the solution does not; raise Broken for any other defect."""
    actions, env = under_test.wander(task, seed), under_test.env
    for both in (env, other):
        _begun(both, task, seed)
    before = _info(env)
    texts: dict[float, str] = {}
    for level in LEVELS:
        texts_of_level = [env.hint(level), env.hint(level), other.hint(level)]
        texts[level] = texts_of_level[0]
        for text in texts_of_level:
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # anyone's environment
                raise Broken(f"hint({level}) is {text!r:.60}; expected text", task=task.id, seed=seed)
        where = difference(texts_of_level[:1], texts_of_level[1:2]) or difference(texts_of_level[:1], texts_of_level[2:])
        if where:
            raise Broken(f"hint({level}) is another when it is asked for again, {where}", task=task.id, seed=seed)
    if where := difference([before], [_info(env)]):
        raise Broken(f"asking for a hint changes the state, {where}", task=task.id, seed=seed)
    solution_texts = {level: _so_much(env, level) for level in BELOW}
    leaks = {a for level in BELOW for a in shown_in(texts[level], env, task) - shown_in(solution_texts[level], env, task)}

    def breaks(actions: Sequence[object]) -> str | None:
        where = difference(_played(under_test.env, task, seed, actions), _played(other, task, seed, actions, ask=True))
        return where and f"asking for a hint changes what comes next, {where}"

    under_test.hold(task, seed, actions, breaks)
    return leaks


def _so_much(env: TextEnv, level: float) -> str:
    """Return the text of the part of the solution that a hint of level `level` covers; empty if no solution is known."""
    try:
        return first_share(solution(env), level)
    except NotImplementedError:
        return ""


def _info(env: TextEnv) -> str:
    return line(Step(env.observation, 0.0, False, False, env.info()))


def _begun(env: TextEnv, task: Task, seed: int) -> tuple[str, Info]:
    """Begin an episode with the environment's own horizon, since the oracle may find a solution only within it."""
    return env.reset(seed=seed, options={"task": task})


def _played(env: TextEnv, task: Task, seed: int, actions: Sequence[object], ask: bool = False) -> list[str]:
    """Return the responses to the actions; with `ask`, request hints at the beginning and in the middle."""
    observation, info = _begun(env, task, seed)
    responses = [line(Step(observation, 0.0, False, False, info))]
    if ask:
        _call_hint(env)
    for number, step in enumerate(steps(env, actions), 1):
        responses.append(line(step))
        if ask and not step.over and number == max(len(actions) // 2, 1):
            _call_hint(env)
    return responses


def _call_hint(env: TextEnv) -> None:
    """Request a hint, if a solution is known; after random actions it may not be."""
    try:
        env.hint(BELOW[1])
    except NotImplementedError:
        return
