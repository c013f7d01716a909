"""Verdicts over rows of BFCL beside those of bfcl-eval 2026.3.23, on its shipped data."""

import copy
import importlib
import json
import random
import sys
import warnings
from collections import defaultdict
from types import ModuleType, SimpleNamespace

import pytest

import agentgym
from agentgym.envs.functions.bfcl.check import expected_calls, right
from agentgym.envs.functions.bfcl.rows import KINDS
from tests.with_published.conftest import folder_of

UNSOLVED = {
    "live_simple_106-63-0": "a required parameter has no allowed value",
    "live_simple_112-68-0": "a required parameter has no allowed value",
    "live_multiple_862-181-3": "the answer has a parameter that the function lacks",
    "live_multiple_964-207-0": "the answer has a parameter that the function lacks",
    "multi_turn_miss_func_49": "the answer calls a function two turns before it is offered",
}


@pytest.fixture(scope="module")
def data():
    folder = folder_of("bfcl_eval") / "data"
    configs = ModuleType("bfcl_eval.constants.model_config")  # the genuine one imports the clients of all models
    vars(configs)["MODEL_CONFIG_MAPPING"] = defaultdict(lambda: SimpleNamespace(underscore_to_dot=True))
    sys.modules[configs.__name__] = configs
    return folder


def rows(folder, category):
    lines = (folder / f"BFCL_v4_{category}.json").read_text().splitlines()
    answers = folder / "possible_answer" / f"BFCL_v4_{category}.json"
    by_id = (
        {row["id"]: row["ground_truth"] for row in map(json.loads, answers.read_text().splitlines())}
        if answers.exists()
        else {}
    )
    return [(row, by_id.get(row["id"])) for row in map(json.loads, lines)]


def changed(rng, calls):
    """Return calls of which one is changed: a value, a type, a parameter, a name, the number or the order."""
    calls = copy.deepcopy(calls)
    way = rng.randrange(9)
    if way == 0 or not calls:
        rng.shuffle(calls)
        return calls
    place = rng.randrange(len(calls))
    name, arguments = calls[place]
    if way == 6:
        return [*calls, calls[place]]
    if way == 7 or not arguments:
        return [*calls[:place], (f"{name}x", arguments), *calls[place + 1 :]]
    key = rng.choice(list(arguments))
    value = arguments[key]
    if way == 1:
        del arguments[key]
    elif way == 2:
        arguments["surplus"] = 1
    elif way == 3:
        arguments[key] = rng.choice([1, 1.0, "x", True, [], [1], {}, None, ""])
    elif way == 4:
        arguments[key] = f"{value} ".upper()
    elif way == 5:
        turned = {str: lambda: value[::-1], list: lambda: value[::-1], dict: lambda: dict(list(value.items())[1:])}
        arguments[key] = turned.get(type(value), lambda: value + 1 if value is not None else 1)()
    else:
        arguments[key] = float(value) if isinstance(value, int) else [value]
    return calls


@pytest.mark.parametrize("category", KINDS["calls"])
def test_expected_and_changed_calls(data, category):
    genuine = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker").ast_checker
    language = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    rng, counts = random.Random(category), {True: 0, False: 0}
    for row, answers in rows(data, category):
        gold = expected_calls(row["function"], answers)
        for number, calls in enumerate([gold, *(changed(rng, gold) for _ in range(8))]):
            made = [{name: copy.deepcopy(arguments)} for name, arguments in calls]
            theirs = genuine(row["function"], made, answers, language, category, "any")["valid"]
            assert right(category, calls, row["function"], answers) == theirs, (row["id"], calls)
            assert number or theirs or row["id"] in UNSOLVED, row["id"]
            counts[theirs] += 1
    assert min(counts.values()) > len(rows(data, category))


def play(env, id, turns):
    """Play calls by turn; return whether the episode succeeded."""
    env.reset(seed=0, options={"task": id})
    for calls in turns:
        for name, arguments in calls:
            _, _, terminated, truncated, info = env.step(json.dumps({"name": name, "arguments": arguments}))
            if terminated or truncated:
                return info["success"]
        info = env.step("end_turn[Done.]")[4]
        if info["success"] is not None:
            return info["success"]
    raise AssertionError("the episode goes on")


@pytest.mark.parametrize("category", KINDS["state"])
def test_turns_with_services(data, category):
    genuine = importlib.import_module("bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker").multi_turn_checker
    env = agentgym.make("rlvr/Functions-v0", data=str(data / f"BFCL_v4_{category}.json"), split="all")
    answers = {row["id"]: (row, answer) for row, answer in rows(data, category)}
    assert env.size() == 200
    rng, counts, number = random.Random(category), {True: 0, False: 0}, 0
    for task in env.tasks(200):
        row, answer = answers[task.id]
        late = {name: int(turn) for turn, names in task.data["late"].items() for name in names}
        for way in range(3):
            turns = [[(name, dict(arguments)) for name, arguments in turn] for turn in task.data["answers"]]
            if way:
                place = rng.choice([place for place, turn in enumerate(turns) if turn])
                turns[place] = [call for call in changed(rng, turns[place]) if late.get(call[0], 0) <= place]
            if any(not _fits(task, call) for turn in turns for call in turn):
                continue  # a call that lacks a parameter, or of a function that is not offered, is refused here
            written = [
                [[f"{name}({', '.join(f'{k}={v!r}' for k, v in arguments.items())})"] for name, arguments in turn]
                for turn in turns
            ]
            number += 1
            theirs = genuine(written, answer, row, category, f"model{number}{category}")["valid"]
            assert play(env, task.id, turns) == (theirs and task.id not in UNSOLVED), (task.id, turns)
            assert theirs or way, task.id
            counts[theirs] += 1
    assert counts[True] > 200 and counts[False] > 50


def python(name, arguments):
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _fits(task, call):
    functions = {one["name"]: one["parameters"] for one in task.data["functions"]}
    name, arguments = call
    return name in functions and set(functions[name]["required"]) <= set(arguments) <= set(functions[name]["properties"])


@pytest.mark.parametrize(
    ("category", "calls"), [(one, kind == "any call") for kind in ("no call", "any call") for one in KINDS[kind]]
)
def test_rows_where_it_matters_only_that_something_is_called(data, category, calls):
    env = agentgym.make("rlvr/Functions-v0", data=str(data / f"BFCL_v4_{category}.json"), split="all")
    for task in env.tasks(16):
        offered = next(iter(task.data["functions"]))
        call = (offered["name"].replace(".", "_"), dict.fromkeys(offered["parameters"].get("required", ()), ""))
        assert play(env, task.id, [[]]) is not calls
        assert play(env, task.id, [[call]]) is calls


def test_all_files_at_once(data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = agentgym.make("rlvr/Functions-v0", data=str(data), split="all")
    # 150 of Java and JavaScript, 155 of memory, 100 of web search, and rows with types or names that cannot be offered
    played, text = env.size(), str(caught[0].message)
    assert played > 4200 and " rows are not played" in text, (played, text)
