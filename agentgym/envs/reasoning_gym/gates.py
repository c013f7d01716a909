"""What of an answer is let through to a scorer: nothing that `eval` could make more of than a value, and no loophole."""

import re

EVALUATORS = frozenset({"eval", "exec", "parse_expr", "sympify", "compile", "__import__"})

NEVER = {
    "composite": "it is a mixture of other tasks, which `dataset=(…, …)` is here",
}
"""Tasks that are refused, with the reason."""

UNANSWERED = {
    "boxnet": "the package has a scorer and no answer",
}
"""Tasks that are played by name only, with the reason."""

LEVELS = {
    "jugs": (0, 1),
    "n_queens": (0, 3),
    "rubiks_cube": (0, 0),
    "sokoban": (1, 99),
    "zebra_puzzles": (0, 3),
}
"""Lowest and highest level of a curriculum that can be played.

Others take half a minute and more to make; and the scorer of larger cubes drops moves with a number in front (`2F`), which
larger cubes take.
"""

BY_THAT_NAME = {
    "basic_arithmetic": "evaluates the problem it has just made",
    "bf": "compiles the program it has just made",
    "bitwise_arithmetic": "evaluates its problem; the answer goes to int()",
    "codeio": "runs the package's own programs while generating; the answer goes to json",
    "gsm_symbolic": "evaluates fractions of its own while generating",
    "number_sorting": "evaluates its own answer; the given one goes to json",
    "propositional_logic": "has a parser of its own by that name",
}
"""Tasks whose code evaluates something, but never an answer: their scorers were read (reasoning-gym 0.1.25)."""

_LIST = re.compile(r"[\[\],\s'\"A-Za-z0-9_-]*")
_SUM = re.compile(r"(?:[0-9()\s]|[-+](?!\s*[-+])|\*(?!\s*\*)|/(?!\s*/))*")
_FUNCTIONS = "sin|cos|tan|sec|csc|cot|asin|acos|atan|sinh|cosh|tanh|exp|log|ln|sqrt|pi|Abs"
_NAME = rf"(?<![A-Za-z0-9_.])(?:{_FUNCTIONS}|[A-Za-z])(?![A-Za-z0-9_.])"
_EXPRESSION = re.compile(rf"(?:[-+*/()\s^]|{_NAME}|\d++(?:\.\d++)?)*+")

GATES: dict[str, re.Pattern[str]] = {
    "binary_matrix": _LIST,
    "n_queens": _LIST,
    "spiral_matrix": _LIST,
    "string_insertion": _LIST,
    "countdown": _SUM,
    "puzzle24": _SUM,
    "intermediate_integration": _EXPRESSION,
    "polynomial_multiplication": _EXPRESSION,
    "simple_integration": _EXPRESSION,
    # not for safety: the scorer takes any text where there is no solution, and any text but an empty one, respectively
    "polynomial_equations": re.compile(r"\"\"|[-+0-9.eE\s]+(?:,[-+0-9.eE\s]+)*"),
    "game_of_life_halting": re.compile(r"\s*(?:True|False)\s*", re.IGNORECASE),
}
"""The form an answer must have, whole, to be scored: where a scorer evaluates it, letters call nothing."""

_NOT_A_NUMBER = re.compile(r"(?<![a-z])(?:nan|inf(?:inity)?)(?![a-z])", re.IGNORECASE)


def passes(name: str, answer: str, right: str) -> bool:
    """Return whether an answer may be scored; "not a number" may not, which some scorers find near to every number."""
    if _NOT_A_NUMBER.search(answer) and not _NOT_A_NUMBER.search(right):
        return False
    return name not in GATES or GATES[name].fullmatch(answer) is not None
