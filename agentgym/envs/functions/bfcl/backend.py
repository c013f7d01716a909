"""The simulated services of BFCL's multi-turn rows: classes of the package bfcl-eval, called and compared here."""

import ast
import copy
import importlib
import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentgym.envs.functions.bfcl.check import Made, Value

SERVICES: dict[str, tuple[str, str]] = {
    # class: (module, file of its functions)
    "GorillaFileSystem": ("gorilla_file_system", "gorilla_file_system"),
    "MathAPI": ("math_api", "math_api"),
    "MessageAPI": ("message_api", "message_api"),
    "TwitterAPI": ("posting_api", "posting_api"),
    "TicketAPI": ("ticket_api", "ticket_api"),
    "TradingBot": ("trading_bot", "trading_bot"),
    "TravelAPI": ("travel_booking", "travel_booking"),
    "VehicleControlAPI": ("vehicle_control", "vehicle_control"),
}
"""The services that a row may name."""
FOLDER = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
LARGEST = 1e9
"""Largest number that a service computes with; powers and digits are limited more."""
Services = dict[str, Value]


def installed() -> bool:
    """Return whether the package is installed, with what its services import."""
    return all(importlib.util.find_spec(name) is not None for name in ("bfcl_eval", "mpmath"))


def opened(names: Iterable[str], config: Mapping[str, Value], *, long: bool) -> Services:
    """Return new services in the state that a row begins with."""
    services: Services = {}
    for name in names:
        services[name] = getattr(importlib.import_module(f"{FOLDER}.{SERVICES[name][0]}"), name)()
        if name != "MathAPI":
            services[name]._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long)
    return services


def call(services: Services, owners: Mapping[str, str], made: Made) -> str:
    """Call a function of a service and return its result as text, as BFCL writes it."""
    name, arguments = made
    if _too_large(name, list(arguments.values())):
        return "Error during execution: the numbers are too large."
    try:
        result = getattr(services[owners[name]], name)(
            **copy.deepcopy(dict(arguments))
        )  # a service keeps lists, and adds to them
    except Exception as error:  # of any kind: arguments are the model's
        return f"Error during execution: {error}"
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)  # pyright: ignore[reportUnknownArgumentType]
    return str(result)


def _too_large(name: str, values: Sequence[object]) -> bool:
    """Return whether numbers would keep a service computing: it has no limits of its own."""
    most = 1000 if name in ("power", "logarithm", "square_root") else LARGEST
    return any(isinstance(value, int | float) and not -LARGEST <= value <= most for value in values)


def equal(services: Services, wanted: Services) -> bool:
    """Return whether all public attributes of the services are the same."""
    for name, one in wanted.items():
        public = [key for key in vars(cast("object", one)) if not key.startswith("_")]
        if any(getattr(services[name], key) != getattr(one, key) for key in public):
            return False
    return True


def holds(results: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether each wanted result is among the results, as often as it is wanted."""
    return not Counter(wanted) - Counter(results)


def read_call(text: str, parameters: Mapping[str, Sequence[str]]) -> Made:
    """Return a call that is written as Python, without running it; ValueError for what is none."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{text[:80]!r} is no call") from error
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.func.id not in parameters:
        raise ValueError(f"{text[:80]!r} is no call of a function that is offered")
    names = parameters[tree.func.id]
    if len(tree.args) > len(names):
        raise ValueError(f"{text[:80]!r} has too many arguments")
    arguments = {name: ast.literal_eval(value) for name, value in zip(names, tree.args, strict=False)}
    return tree.func.id, arguments | {str(one.arg): ast.literal_eval(one.value) for one in tree.keywords}
