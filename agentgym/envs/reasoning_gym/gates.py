"""Gates for answers: they keep answers that `eval` could run as code, or that exploit a loophole, from the scorers."""

import re

EVALUATORS = frozenset({"eval", "exec", "parse_expr", "sympify", "compile", "__import__"})

NEVER = {
    "composite": "it is a mixture of other tasks, which `dataset=(…, …)` is here",
}
"""Refused tasks, with the reason."""

UNANSWERED = {
    "boxnet": "the package has a scorer and no answer",
}
"""Tasks left out of the mixture but available by name, with the reason."""

LEVELS = {
    "jugs": (0, 1),
    "n_queens": (0, 3),
    "rubiks_cube": (0, 0),
    "sokoban": (1, 99),
    "zebra_puzzles": (0, 3),
}
"""Lowest and highest playable level of a curriculum.

Other levels take half a minute or more to generate. Cubes have one level because their scorer drops moves with a leading
number (`2F`), which larger cubes need.
"""

BY_THAT_NAME = {
    "basic_arithmetic": "evaluates the problem it has just made",
    "bf": "compiles the program it has just made",
    "bitwise_arithmetic": "evaluates its problem; the answer goes to int()",
    "codeio": "runs the package's own programs while generating; the answer goes to json",
    "gsm_symbolic": "evaluates its own fractions while generating",
    "number_sorting": "evaluates its own answer; the given one goes to json",
    "propositional_logic": "has its own parser of that name",
}
"""Tasks whose code calls an evaluator, but never on an answer, according to a review (reasoning-gym 0.1.25)."""

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
    # against loopholes: the scorers accept any text if there is no solution, and any non-empty text, respectively
    "polynomial_equations": re.compile(r"\"\"|[-+0-9.eE\s]+(?:,[-+0-9.eE\s]+)*"),
    "game_of_life_halting": re.compile(r"\s*(?:True|False)\s*", re.IGNORECASE),
}
"""Pattern that a whole answer must match to be scored.

If the scorer evaluates answers, a match contains no attribute access, and only calls of mathematical functions.
"""

_NOT_A_NUMBER = re.compile(r"(?<![a-z])(?:nan|inf(?:inity)?)(?![a-z])", re.IGNORECASE)


def passes(name: str, answer: str, right: str) -> bool:
    """Return True if an answer may be scored: it matches the gate of the task `name`, if any, and has no NaN or infinity.

    NaN and infinity are rejected because some scorers find NaN close to every number. They pass if `right`, the right
    answer, contains either.
    """
    if _NOT_A_NUMBER.search(answer) and not _NOT_A_NUMBER.search(right):
        return False
    return name not in GATES or GATES[name].fullmatch(answer) is not None
