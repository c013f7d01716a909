"""Simulated services of BFCL's multi-turn rows: creates, calls and compares classes of the package bfcl-eval."""

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
"""Class name of each service -> its module, and the file that describes its functions."""
FOLDER = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
LARGEST = 1e9
"""Largest number that a service may compute with; `_too_large` allows only 1000 for powers, logarithms and roots."""
Services = dict[str, Value]


def installed() -> bool:
    """Return whether bfcl-eval and the dependencies of its services are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("bfcl_eval", "mpmath"))


def opened(names: Iterable[str], config: Mapping[str, Value], *, long: bool) -> Services:
    """Create the named services in a row's initial state; with `long`, in BFCL's long-context variant."""
    services: Services = {}
    for name in names:
        services[name] = getattr(importlib.import_module(f"{FOLDER}.{SERVICES[name][0]}"), name)()
        if name != "MathAPI":
            services[name]._load_scenario(copy.deepcopy(config.get(name, {})), long_context=long)
    return services


def call(services: Services, owners: Mapping[str, str], made: Made) -> str:
    """Call a service's function and return the result, or the error, as text in BFCL's format."""
    name, arguments = made
    if _too_large(name, list(arguments.values())):
        return "Error during execution: the numbers are too large."
    try:
        result = getattr(services[owners[name]], name)(
            **copy.deepcopy(dict(arguments))
        )  # a copy, because services append to lists they receive
    except Exception as error:  # any kind, since the model wrote the arguments
        return f"Error during execution: {error}"
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)  # pyright: ignore[reportUnknownArgumentType]
    return str(result)


def _too_large(name: str, values: Sequence[object]) -> bool:
    """Return whether the arguments could make a service compute for too long, since services set no limits."""
    most = 1000 if name in ("power", "logarithm", "square_root") else LARGEST
    return any(isinstance(value, int | float) and not -LARGEST <= value <= most for value in values)


def equal(services: Services, expected: Services) -> bool:
    """Return whether every public attribute of the expected services has the same value in the actual services."""
    for name, one in expected.items():
        public = [key for key in vars(cast("object", one)) if not key.startswith("_")]
        if any(getattr(services[name], key) != getattr(one, key) for key in public):
            return False
    return True


def holds(results: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether the results contain each expected result at least as often as expected."""
    return not Counter(expected) - Counter(results)


def read_call(text: str, parameters: Mapping[str, Sequence[str]]) -> Made:
    """Parse a call written as Python, without running it; `parameters` maps function names to parameter names.

    Raises:
        ValueError: the text is not a call of an offered function, or has too many or non-literal arguments.
    """
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
