"""Checks of actions, info, state keys, rewards and ends."""

# environments of others may violate their types, which is checked here
# pyright: reportUnnecessaryIsInstance=false

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Sequence

from agentgym.contract.env_under_test import (
    HOSTILE,
    NEVER,
    EnvUnderTest,
    any_action,
    argument,
    difference,
    first,
    hostile_calls,
)
from agentgym.contract.report import Broken, NotChecked, show
from agentgym.core.actions import spell
from agentgym.core.env import Snapshot, TextEnv
from agentgym.core.outcome import INFO_KEYS, Info
from agentgym.core.play import Step, play, steps
from agentgym.core.seeding import generator
from agentgym.core.tasks import Task
from agentgym.core.transcripts import ENDLESS, go_on, transcript
from agentgym.episodes.episode import FAULTS
from agentgym.errors import BadConfig, EpisodeOver


def nasty_actions(under_test: EnvUnderTest) -> str:
    """Check that hostile actions never raise and each cost one turn, and that blank and non-text actions are invalid."""
    task = under_test.tasks[0]
    nasty = [*HOSTILE, *(call for tool in under_test.env.tools.values() for call in hostile_calls(tool))]

    def breaks(actions: Sequence[object]) -> str | None:
        env = under_test.env
        env.reset(seed=0, options={"task": task, "horizon": ENDLESS})
        for turn, step in enumerate(steps(env, actions), 1):
            if env.turn != turn:
                return f"the action cost {env.turn - turn + 1} turns instead of one"
            action = actions[turn - 1]
            if step[4]["valid"] and not (isinstance(action, str) and action.strip()):
                return "an action that says nothing is valid"
        return None

    alone = nasty if under_test.count > 1 else nasty[::8]  # with the smallest budget only a sample, since each takes a reset
    for action in alone:
        under_test.hold(task, 0, [action], breaks)
    under_test.hold(task, 0, nasty, breaks)
    return f"{len(nasty)} actions in a row, {len(alone)} alone"


def spellings(under_test: EnvUnderTest) -> str:
    """Check that a call's three spellings are equivalent, and that a call inside text or of an unknown tool is invalid."""
    env, task, rng = under_test.env, under_test.tasks[0], generator("spellings")
    if not env.tools:
        raise NotChecked("its actions are free text")
    observation, _ = env.reset(seed=0, options={"task": task})
    words = observation.split() or ["word"]
    tools = list(env.tools.items())[:: 1 if under_test.count > 1 else 3]  # with the smallest budget only a sample
    for name, tool in tools:
        arguments = {property_name: argument(tool.properties[property_name], words, rng) for property_name in tool.required}
        written = json.dumps({"name": name, "arguments": arguments})
        forms = [written]
        if len(arguments) <= 1:
            body = next((v if isinstance(v, str) else json.dumps(v) for v in arguments.values()), "")
            forms += [f"<{name}>{body}</{name}>", spell(name, body), f"  {written}\n"]
        responses = [transcript(env, task, 0, [form]) for form in forms]
        for form, response in zip(forms, responses, strict=True):
            if response != responses[0]:
                raise Broken(f"answered otherwise than {written}: {difference(responses[0], response)}", actions=[form])
        prose = [text for form in forms for text in (f"I will now {form}", f"{form} please")]
        for wrong in (*prose, written.replace(name, name + "_x", 1)):
            env.reset(seed=0, options={"task": task})
            if env.step(wrong)[4]["valid"]:
                raise Broken(
                    "text that is not exactly one call of a known tool is accepted as valid", task=task.id, actions=[wrong]
                )
    return f"{len(tools)} tools"


def info_schema(under_test: EnvUnderTest) -> str:
    """Check that info has the same keys and types at every step, and that its `rewards` sum to the reward."""
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            env = under_test.env
            observation, info = env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            responses = [Step(observation, 0.0, False, False, info), *steps(env, actions)]
            problems = (wrong_with(response, task) for response in responses)
            return next((text for text in problems if text), None)

        under_test.hold(task, seed, under_test.wander(task, seed), breaks)
    return f"{len(under_test.tasks)} plays"


def wrong_with(step: Step, task: Task) -> str | None:
    """Return a description of the first malformed part of a step's result; None if it is well-formed."""
    observation, reward, terminated, truncated, info = step
    if set(info) != set(INFO_KEYS):
        return f"info has the keys {sorted(info)}; expected {sorted(INFO_KEYS)}"
    if not isinstance(observation, str):
        return f"the observation is a {type(observation).__name__}"
    over = terminated or truncated
    commands = info["admissible"]
    checks = {
        f"the observation has {len(observation)} characters": len(observation) <= 65536,
        f"the reward {reward!r} is not a float": isinstance(reward, float),
        f"rewards {info['rewards']} do not sum to {reward}": abs(sum(info["rewards"].values()) - reward) < 1e-9,
        f"terminated and truncated are {terminated!r} and {truncated!r}": {type(terminated), type(truncated)} == {bool}
        and not (terminated and truncated),
        f"task_id is {info['task_id']!r}": info["task_id"] == task.id,
        f"state_key is {info['state_key']!r}": isinstance(info["state_key"], str | None),
        f"valid is {info['valid']!r} and error {info['error']!r}": info["valid"] is True
        or (info["valid"] is False and isinstance(info["error"], str) and info["error"] != ""),
        "admissible is not a list of different strings": commands is None
        or (all(isinstance(command, str) for command in commands) and len(set(commands)) == len(commands)),
        f"success is {info['success']!r} and terminated {terminated}": isinstance(info["success"], bool)
        if over and info["reason"] not in FAULTS
        else info["success"] is None,
        f"reason is {info['reason']!r}": isinstance(info["reason"], str) if over else info["reason"] is None,
        f"metrics are {info['metrics']}": all(
            isinstance(value, int | float) and math.isfinite(value) for value in info["metrics"].values()
        ),
    }
    return next((text for text, holds in checks.items() if not holds), None)


def admissible_is_valid(under_test: EnvUnderTest) -> str:
    """Check that every command listed as admissible is accepted."""
    if under_test.env.reset(seed=0, options={"task": under_test.tasks[0]})[1]["admissible"] is None:
        raise NotChecked("its commands are not a finite list")
    tried = 0
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            env = under_test.env
            commands = env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})[1]["admissible"]
            for action, step in zip(actions, steps(env, actions), strict=False):
                if action in (commands or ()) and not step[4]["valid"]:
                    return f"{action!r} was admissible and was refused: {step[4]['error']}"
                commands = step[4]["admissible"]
            return None

        commands = under_test.env.reset(seed=seed, options={"task": task})[1]["admissible"] or []
        for command in commands:
            under_test.hold(task, seed, [command], breaks)
        under_test.hold(task, seed, under_test.wander(task, seed), breaks)
        tried += len(commands)
    return f"{tried} commands, {len(under_test.tasks)} plays"


class _Restart:
    """Marker in a sequence of actions: restart the same episode."""

    def __repr__(self) -> str:
        return "reset()"


AGAIN = _Restart()


def equal_keys(under_test: EnvUnderTest) -> str:
    """Check that equal actions and equal chance give equal responses from two moments with the same state key."""
    under_test.repeatable()
    pairs = 0
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            nonlocal pairs
            seen: dict[str, tuple[int, Snapshot]] = {}
            later: dict[int, tuple[list[object], list[str]]] = {}  # what followed each earlier moment
            for turn, (key, state) in enumerate(list(_moments(under_test, task, seed, actions))):
                earlier, old = seen.setdefault(key, (turn, state))
                if earlier == turn:
                    continue
                pairs += 1
                if earlier not in later:
                    onward = _onward(under_test, old)
                    later[earlier] = onward, go_on(under_test.env, old, onward)
                onward, responses = later[earlier]
                same_chance = dataclasses.replace(state, random_state=old.random_state, seed=old.seed)
                broken = difference(responses, go_on(under_test.env, same_chance, onward))
                if broken:
                    return (
                        f"after {earlier} and after {turn} actions the key is {key}, but then {show(onward)} brings {broken}"
                    )
            return None

        first, second = under_test.wander(task, seed), under_test.wander(task, seed, variant=1)
        under_test.hold(task, seed, [*(a for action in first for a in (action, "no such action")), AGAIN, *second], breaks)
    if not pairs:
        raise NotChecked("no two moments had the same key")
    return f"{pairs} pairs of moments"


def _moments(under_test: EnvUnderTest, task: Task, seed: int, actions: Sequence[object]) -> Iterator[tuple[str, Snapshot]]:
    """Yield the state key and a snapshot (with its turn set to 0) before each action and after the last.

    Moments without a state key, or after the end of the episode, are left out.
    """
    env, over = under_test.env, True
    for action in (AGAIN, *actions):
        if isinstance(action, _Restart):
            env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            over = False
        elif not over:
            over = any(step.over for step in steps(env, [action]))
        key = None if over else env.state_key()
        if key is not None:
            yield key, dataclasses.replace(env.snapshot(), turn=0, horizon=ENDLESS)


def _onward(under_test: EnvUnderTest, state: Snapshot) -> list[object]:
    """Return up to four actions to play from a state; the second is the oracle's, if there is an oracle that yields one."""
    env, rng, turns = under_test.make().restore(state), generator("onward", state.turn), itertools.count()

    def choose(observation: str, info: Info) -> object:
        return (first(env.oracle) if next(turns) == 1 else None) or any_action(env, observation, info, rng)

    played = play(env, choose, (env.observation, env.info()), stop=NEVER)
    return [action for action, _ in itertools.islice(played, 4)]


def outcome_alone(under_test: EnvUnderTest) -> str:
    """Check that without shaping the reward is 1 at success and 0 everywhere else."""
    for seed, task in enumerate(under_test.tasks):

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed) -> str | None:
            under_test.env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
            for _, reward, terminated, _, info in steps(under_test.env, actions):
                if reward != float(terminated and info["success"] is True):
                    return f"reward {reward} with success {info['success']}"
            return None

        for actions in (under_test.wander(task, seed), solution(under_test, task, seed)):
            under_test.hold(task, seed, actions, breaks)
    return f"{len(under_test.tasks)} plays, {len(under_test.tasks)} solutions"


def failure_never_wins(under_test: EnvUnderTest) -> str:
    """Check that with all metrics rewarded, no failing episode earns more than a successful episode of the same task."""
    env = under_test.env
    names: set[str] = set()
    for seed, task in enumerate(under_test.tasks):
        actions = under_test.wander(task, seed)
        env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
        for step in steps(env, actions):
            names |= set(step[4]["metrics"])
    if not names:
        raise NotChecked("it has no measures to pay")
    try:
        paid = under_test.make(shaping=dict.fromkeys(sorted(names), 0.99 / len(names)))
    except BadConfig as refused:  # such as measures of one role, where several are trained
        raise NotChecked(f"its measures cannot be paid: {refused}") from refused
    for seed, task in enumerate(under_test.tasks):
        best = _total(paid, task, seed, solution(under_test, task, seed))[0]

        def breaks(actions: Sequence[object], task: Task = task, seed: int = seed, best: float = best) -> str | None:
            total, success = _total(paid, task, seed, actions)
            return f"fails with {total:.3f} in all; a solution has {best:.3f}" if not success and total > best else None

        under_test.hold(task, seed, under_test.wander(task, seed), breaks)
        under_test.hold(task, seed, solution(under_test, task, seed)[:-1] * 3, breaks)
    return f"measures {', '.join(sorted(names))}"


def _total(env: TextEnv, task: Task, seed: int, actions: Sequence[object]) -> tuple[float, bool]:
    env.reset(seed=seed, options={"task": task, "horizon": ENDLESS})
    done = list(steps(env, actions))
    return sum(step[1] for step in done), bool(done and done[-1][4]["success"])


def solution(under_test: EnvUnderTest, task: Task, seed: int, horizon: int | None = ENDLESS) -> list[str]:
    """Return the actions of an episode in which the oracle is queried again every turn; [] without an oracle.

    `horizon`: None is the environment's own; by default the episode is not truncated. At most 2000 turns are played.
    """
    env = under_test.env
    seen = env.reset(seed=seed, options={"task": task} | ({"horizon": horizon} if horizon else {}))
    return [action for action, _ in itertools.islice(play(env, lambda _, __: first(env.oracle), seen), 2000)]


def horizons(under_test: EnvUnderTest) -> str:
    """Check that an episode is truncated exactly at its horizon, set by keyword or reset option.

    Also check that `step` raises EpisodeOver after the end and before the first reset.
    """
    task = under_test.tasks[0]
    for limit in (1, 3):
        by_keyword = under_test.make(horizon=limit)
        by_keyword.reset(seed=0, options={"task": task})
        by_option = under_test.make()
        by_option.reset(seed=0, options={"task": task, "horizon": limit})
        for env, where in ((by_keyword, "keyword"), (by_option, "reset option")):
            done = list(steps(env, [""] * (limit + 1)))  # no environment accepts it: see `nasty_actions`
            _, _, terminated, truncated, info = done[-1]
            ended = (len(done), terminated, truncated, info["success"], info["reason"])
            if ended != (limit, False, True, False, "horizon"):
                text = f"horizon {limit} by {where}: (turns, terminated, truncated, success, reason) is {ended}"
                raise Broken(text, task=task.id, seed=0, actions=[""] * limit)
            _over(env, "after the end")
    _over(under_test.make(), "before the first reset")
    return "1 and 3 turns"


def _over(env: TextEnv, when: str) -> None:
    try:
        env.step("look")
    except EpisodeOver:
        return
    raise Broken(f"step {when} does not raise EpisodeOver")
