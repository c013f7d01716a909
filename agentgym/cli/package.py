"""Package an environment for another project's trainers: OpenEnv, verifiers or NeMo Gym.

agentgym package frost/Lighthouse-v0 --for openenv --out frost-openenv       openenv.yaml, Dockerfile, server
agentgym package my_module:me/MyEnv-v0 --for verifiers --out my-taskset      a taskset; the module is copied into it
agentgym package rlvr/SQL-v0 --for nemo_gym --out sql --env.difficulty 1     a resources server

The package names the environment and contains no copy of agentgym. It requires the distribution that the environment comes
from; a module that belongs to no distribution is copied.
"""

import importlib
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Annotated

from agentgym import registry
from agentgym.contract.shortcuts import GENERIC
from agentgym.core.env import TextEnv
from agentgym.core.harmless import harmless
from agentgym.core.installed import installed
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.options import Alias, Options, Positional
from agentgym.rollout.session import Session
from agentgym.scaffold.package import TARGETS, Packaged, Trace, write

SEED = 42
PUBLIC = 20
"""Maximum actions of the package's example episode, played by the expert; OpenEnv allows 100."""
LONGEST = 2000
"""Maximum characters of an action of the example episode; OpenEnv reads at most 64 KiB per episode."""
LONG = 10_000
"""Maximum turns of the oracle's episode; the environment's horizon is usually shorter."""
CANARIES = ("empty", "echo", "first admissible", "form without content", "claim of success", "prewritten verdict")
ROWS = 5
"""Maximum number of tasks in a data file."""


@dataclass(frozen=True)
class Config:
    """Options of `agentgym package`."""

    id: Positional[str]
    """Id or short name of the environment, or MODULE:ID."""
    target: Annotated[str, Alias("for")] = ""
    """Project to package for: openenv, verifiers or nemo_gym."""
    out: str = ""
    """New or empty folder to write to."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment, which the package keeps: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Write the package, and print its files and the next commands.

    Raises:
        UnknownName: the target project is unknown.
        BadConfig: --out is missing, or the environment cannot be packaged.
    """
    if config.target not in TARGETS:
        raise UnknownName(
            no_such("project to package for", config.target, TARGETS, f"Expected --for {' or '.join(TARGETS)}.")
        )
    if not config.out:
        raise BadConfig("no folder to write to; expected --out FOLDER")
    described = describe(config.id, config.env_options)
    for path in write(described, config.target, Path(config.out)):
        print(path)
    if described.solution is None and config.target == "openenv":
        print("no oracle: the environment solves its first task by none, so OpenEnv's semantic checks will miss one")
    return 0


def describe(name: str, options: dict[str, object]) -> Packaged:
    """Play a few episodes of an environment's first task; return the facts about the environment that a package needs.

    Raises:
        BadConfig: the environment belongs to another project already, or its first task cannot be played.
    """
    if registry.foreign(name):
        raise BadConfig(f"{name} is another project's environment; package it from there")
    id = registry.full_id(name)
    module = name.rpartition(":")[0]
    requirements, source = _origin(id, module)
    env = registry.make(id, **options)
    try:
        listed = env.up_to(ROWS, env.split)
        public, solution, canaries = _episodes(env, listed[0].id)
        return Packaged(
            env=f"{module}:{id}" if module else id,
            description=registry.DESCRIPTIONS.get(id) or id,
            options=options,
            requirements=requirements,
            source=source,
            tools=list(env.tools),
            sizes={split: size for split in env.splits if (size := env.size(split)) is not None},
            tasks=[(task.id, task.instruction) for task in listed],
            turns=env.horizon,
            public=public,
            solution=solution,
            canaries=canaries,
        )
    finally:
        env.close()


def _origin(id: str, module: str) -> tuple[list[str], Path | None]:
    """Return the distributions that an environment comes from, or else the file or folder of its module.

    For an environment of agentgym, the result is `([], None)`.

    Raises:
        BadConfig: the module has no file.
    """
    if id in registry.ENVS:
        return [], None
    owner = next((env.distribution for env in installed()[0] if env.id == id), "")
    if owner and not module:
        return ["==".join(owner.split())], None
    top = module.partition(".")[0]
    found = packages_distributions().get(top)
    if found:
        return [f"{found[0]}=={version(found[0])}"], None
    file = getattr(importlib.import_module(top), "__file__", None)
    if file is None:
        raise BadConfig(f"the module {top} has no file; expected a module, or a package with __init__.py")
    return [], Path(file).parent if Path(file).name == "__init__.py" else Path(file)


def _episodes(env: TextEnv, task: str) -> tuple[Trace, Trace | None, list[Trace]]:
    """Return episodes for OpenEnv's validation: of the expert, the oracle (None if it fails), and shortcuts that fail."""
    public = _played(env, task, lambda: next(iter(env.expert())), PUBLIC)[0] or [_plain(env)]
    solution, reward, solved = _played(env, task, lambda: next(iter(env.oracle())), LONG)
    canaries = list[Trace]()
    for label in CANARIES:
        actions, paid, won = _played(env, task, _shortcut(env, label), 3)
        if actions and paid <= 0 and not won:
            canaries.append(Trace(task, SEED, actions, label))
    short = [action for action in public if len(action) <= LONGEST] or [_plain(env)]
    answer = Trace(task, SEED, solution, "oracle") if solved and reward >= 1 else None
    return Trace(task, SEED, short, "expert"), answer, canaries


def _plain(env: TextEnv) -> str:
    """Return an action that any working environment responds to."""
    tool = next(iter(env.tools.values()), None)
    if tool is None:
        return next(iter(env.admissible() or ["look"]))
    return json.dumps({"name": tool.name, "arguments": harmless(tool.parameters)})


def _played(env: TextEnv, task: str, action: Callable[[], str], most: int) -> tuple[list[str], float, bool]:
    """Play at most `most` turns; return the actions, the reward, and whether the episode succeeded.

    Raises:
        BadConfig: the episode ends as an infrastructure error.
    """
    session = Session(env)
    session.reset(task, seed=SEED)
    actions = list[str]()
    for step in itertools.islice(_until(action, lambda: session.done), most):
        actions.append(step)
        session.act(step)
    if session.done and session.success is None:
        raise BadConfig(f"{task} ends as an infrastructure error ({session.reason}); `agentgym check` finds the cause")
    return actions, session.reward, bool(session.success)


def _until(action: Callable[[], str], over: Callable[[], bool]) -> Iterator[str]:
    """Yield actions until `over` returns True or the policy has no further action."""
    while not over():
        try:
            yield action()
        except (StopIteration, NotImplementedError):
            return


def _shortcut(env: TextEnv, label: str) -> Callable[[], str]:
    """Return the shortcut policy `label` as a function without arguments; it gets its inputs from `env`."""

    def action() -> str:
        info = {"admissible": env.admissible()}
        chosen = GENERIC[label](env, [env.observation], info)  # type: ignore[arg-type]  # they read nothing else of it
        if chosen is None:
            raise NotImplementedError
        return chosen

    return action
