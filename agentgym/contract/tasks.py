"""Checks of tasks and splits, options, faults and wrappers."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, cast, runtime_checkable

import gymnasium

from agentgym.contract.env_under_test import EnvUnderTest
from agentgym.contract.report import Broken, NotChecked, Note
from agentgym.core.actions import Tool
from agentgym.core.env import TextEnv
from agentgym.core.play import steps
from agentgym.core.tasks import Task
from agentgym.core.wrapper import TextWrapper
from agentgym.errors import BadConfig, Fault, Reason
from agentgym.tasks.library import ALL


def splits_are_disjoint(under_test: EnvUnderTest) -> str:
    """Check that no task is in two splits, and that the content of a task, not the seed, determines its split."""
    owner: dict[str, tuple[str, str]] = {}
    counts: dict[str, int] = {}
    for split in under_test.env.splits:
        if split == ALL and not under_test.env.splits[split]:  # all tasks of a file, which are also in the other splits
            continue
        env = under_test.make(split=split)
        try:
            tasks = [
                *_sample_tasks(env, max(under_test.plays // 3, 10)),
                *(_drawn(env, under_test.seed + n) for n in range(under_test.count)),
            ]
        except BadConfig:  # refused, which is right if the space is too small
            counts[split] = 0
            continue
        counts[split] = len(tasks)
        for task in tasks:
            key = repr(env.split_key(task))
            known, where = owner.setdefault(key, (split, task.id))
            if known != split:
                raise Broken(f"tasks {where} and {task.id} are the same to split_key, and in splits {known} and {split}")
            if task.split != split or (task.id.count("/") == 2 and env.split_of(task) != split):
                raise Broken(f"task {task.id} was drawn for split {split} and belongs to {task.split or env.split_of(task)}")
            if repr(env.find(task.id)) != repr(task):
                raise Broken(f"find({task.id!r}) returns another task than the one with that id")
    return Note(", ".join(f"{split} {count or 'refused'}" for split, count in counts.items()), tasks=counts)


def _sample_tasks(env: TextEnv, n: int) -> list[Task]:
    while n > 1:
        try:
            return env.tasks(n)
        except BadConfig:
            n //= 2
    return env.tasks(1)


def _drawn(env: TextEnv, seed: int) -> Task:
    env.reset(seed=seed)
    return env.task


def answers_stay_hidden(under_test: EnvUnderTest) -> str:
    """Check that declared answers do not occur in the first observation, the instruction, info or tool descriptions.

    Up to half of the tasks may show an answer, since it may happen by accident.
    """
    names, leaks = under_test.env.declared.answers, 0
    if not names:
        raise NotChecked("it names no answers")
    last = ""
    for seed, task in enumerate(under_test.many):
        observation, info = under_test.env.reset(seed=seed, options={"task": task})
        text = "\n".join(
            [observation, task.instruction, repr(info), *(tool.description for tool in under_test.env.tools.values())]
        )
        if shown_in(text, under_test.env, task):
            leaks, last = leaks + 1, task.id
    if leaks > len(under_test.many) / 2:  # now and then an answer is in the question by accident
        text = f"the answer is shown at the start of {leaks} of {len(under_test.many)} tasks"
        raise Broken(text, task=last, seed=0, numbers={"tasks": len(under_test.many), "shown": leaks})
    return Note(f"{len(under_test.many)} tasks, {leaks} by accident", tasks=len(under_test.many), shown=leaks)


def shown_in(text: str, env: TextEnv, task: Task) -> set[str]:
    """Return the declared answers of a task that occur in a text as whole words.

    An answer among declared choices does not count if the text shows all choices (at least two).
    """

    def occurs(words: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None

    answers = {answer for name in env.declared.answers for answer in _texts(task.data[name])}
    choices = {choice for name in env.declared.choices for choice in _texts(task.data.get(name, ()))}
    if len(choices) > 1 and all(map(occurs, choices)):
        answers -= choices
    return set(filter(occurs, answers))


@runtime_checkable
class HasHiddenFiles(Protocol):
    """An environment whose tasks have files that an agent must not find, such as tests and solutions."""

    def found_hidden(self) -> list[str]:
        """Return the paths of hidden files that the agent can read in the running episode."""
        ...


def tests_stay_hidden(under_test: EnvUnderTest) -> str:
    """Check that the agent cannot read a task's hidden files, such as tests, at the start of an episode."""
    env = under_test.env
    if not isinstance(env, HasHiddenFiles):
        raise NotChecked("it keeps no files from an agent that could reach files")
    for task in under_test.tasks:
        cast("TextEnv", env).reset(seed=0, options={"task": task})
        places = env.found_hidden()
        if places:
            raise Broken(f"the agent can read {', '.join(places[:5])}", task=task.id, seed=0, numbers={"files": len(places)})
    return Note(f"{len(under_test.tasks)} tasks", tasks=len(under_test.tasks))


def _texts(value: object) -> list[str]:
    """Return every text and number in an answer, which may be a list of spellings or a table."""
    if isinstance(value, Mapping):
        return [text for item in cast(Mapping[object, object], value).values() for text in _texts(item)]
    if isinstance(value, list | tuple | set | frozenset):
        return [text for item in cast(Iterable[object], value) for text in _texts(item)]
    return [str(value)]


def bad_options_are_refused(under_test: EnvUnderTest) -> str:
    """Check that the constructor and reset reject unknown and invalid options."""
    for options in (
        {"no_such_option": 1},
        {"split": "no such split"},
        {"preset": "no such preset"},
        {"difficulty": -1},
        {"horizon": 0},
    ):
        try:
            under_test.make(**options)
        except (BadConfig, LookupError):
            continue
        raise Broken(f"made with {options} without a word")
    for bad_options in ({"no_such": 1}, {"horizon": 0}, {"task": 3.5}, {"task": "no such task"}):
        try:
            under_test.make().reset(seed=0, options=bad_options)
        except (BadConfig, LookupError):
            continue
        raise Broken(f"reset with {bad_options} without a word")
    return "nine mistakes"


def faults_end_one_episode(under_test: EnvUnderTest) -> str:
    """Check that an infrastructure error ends the episode as a fault, and that the next episode begins normally."""

    def fail(self: TextEnv, *_: object, **__: object) -> str:
        raise Fault("the check pulled the plug", reason=Reason.TIMEOUT)

    kind = under_test.kind
    actions = dict.fromkeys(under_test.env.tools, fail) or {"act": fail}
    broken_kind = type(f"Broken{kind.__name__}", (kind,), {**actions, "__module__": kind.__module__})
    broken = cast("Callable[..., TextEnv]", broken_kind)(**under_test.options)
    task = under_test.tasks[0]
    broken.reset(seed=0, options={"task": task})
    own = (tool for tool in broken.tools.values() if hasattr(kind, tool.name))  # other tools may bypass `fail`
    tool = next(iter([*own, *broken.tools.values()]), None)
    action = "look" if tool is None else _call(tool)
    step = broken.step(action)
    ended = (step[1], step[2], step[3], step[4]["success"], step[4]["reason"])
    if ended != (0.0, False, True, None, "timeout"):
        raise Broken(
            f"after an infrastructure error (reward, terminated, truncated, success, reason) is {ended}", actions=[action]
        )
    if broken.reset(seed=0, options={"task": task})[0] != under_test.env.reset(seed=0, options={"task": task})[0]:
        raise Broken("the episode after an infrastructure error begins differently from one without")
    return "one in the first turn"


def _call(tool: Tool) -> str:
    from agentgym.contract.env_under_test import argument, call
    from agentgym.core.seeding import generator

    return call(tool, {name: argument(tool.properties[name], ["word"], generator("call")) for name in tool.required})


def made_bare(under_test: EnvUnderTest) -> str:
    """Check that `gym.make` adds no wrapper, and that TextWrapper forwards snapshots, state keys and tools."""
    if under_test.id in gymnasium.registry:
        make: Callable[..., gymnasium.Env[str, str]] = gymnasium.make
        bare = make(under_test.id, **under_test.options)
        if type(bare) is not under_test.kind:
            raise Broken(f"gym.make returns a {type(bare).__name__} around the environment")
    task = under_test.tasks[0]
    wrapped = TextWrapper(gymnasium.Wrapper(under_test.make()))  # our wrapper around a wrapper of Gymnasium
    plain = under_test.make()
    for env in (wrapped, plain):
        env.reset(seed=0, options={"task": task})
    state = wrapped.snapshot()
    list(steps(wrapped.unwrapped, under_test.wander(task, 0, 3)))  # type: ignore[arg-type]
    if wrapped.restore(state) is not wrapped or wrapped.state_key() != plain.state_key() or wrapped.tools != plain.tools:
        raise Broken("TextWrapper does not forward snapshot, restore, state_key or tools")
    return "bare and wrapped"
