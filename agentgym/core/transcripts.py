"""Responses of an environment as lines of text, to compare them between this process and another.

Neither this module nor the other process imports the checks. An environment that behaves differently while it is
checked therefore responds differently there, which the comparison reveals.
"""

import contextlib
import importlib
import json
import os
import pickle
import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.play import Step, steps
from agentgym.core.tasks import Task

ENDLESS = 10_000  # a horizon that no play reaches


def transcript(env: TextEnv, task: Task, seed: int, actions: Sequence[object], horizon: int = ENDLESS) -> list[str]:
    """Return the environment's responses to the reset and to each action until the episode ends, one line each."""
    observation, info = env.reset(seed=seed, options={"task": task, "horizon": horizon})
    return [line(Step(observation, 0.0, False, False, info)), *(line(step) for step in steps(env, actions))]


def go_on(env: TextEnv, state: Snapshot, actions: Sequence[object], seed: int | None = None) -> list[str]:
    """Restore a snapshot and return the responses to the actions, one line each."""
    env.restore(state, seed=seed)
    return [line(step) for step in steps(env, actions)]


def line(step: Step) -> str:
    """Return a response as a line of text; two lines are equal only if all parts of the responses are."""
    return json.dumps(step, sort_keys=True, default=repr)


def answer() -> None:
    """Run in the other process: read the episodes to play from standard input, and print the responses as JSON."""
    reference, options, what, items = pickle.loads(sys.stdin.buffer.read())
    with contextlib.redirect_stdout(sys.stderr):  # what an environment prints must not mix with the answer
        module, _, name = reference.partition(":")
        kind: Any = attrgetter(name)(importlib.import_module(module))
        env: TextEnv = kind(**options)
        responses = _play_all(env, what, items)
        env.close()
    print(json.dumps(responses), flush=True)
    os._exit(0)  # without waiting for threads that an environment left behind


def _play_all(env: TextEnv, what: str, items: list[Any]) -> list[list[str]]:
    if what == "branches":
        return [go_on(env, state, actions) for state, actions in items]
    runs = [(env.find(task_id), seed, actions) for task_id, seed, actions in items]
    return [[repr(task), *transcript(env, task, seed, actions)] for task, seed, actions in runs]
