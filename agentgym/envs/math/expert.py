"""The expert: it parses the statement, runs a program for its family, and answers with the program's output."""

import re

from agentgym.core.actions import spell
from agentgym.envs.math.families import FAMILIES

_STATEMENT = re.compile(r"\n\nYou may run Python")
_FORMS = {
    "story": r"^A \w.* starts with",
    "fractions": r"^Work out ",
    "equation": r"^Solve for x: ",
    "system": r"^Solve the system ",
    "coefficient": r"^What is the coefficient ",
    "remainder": r"^What is the remainder when .*x",
    "power": r"^What is the remainder when \d+\^\d+ ",
    "divisors": r"positive divisors of|no common factor|least common multiple",
    "remainders": r"^What is the smallest positive integer that leaves",
    "digits": r"decimal digits of|^Write the decimal number",
    "counting": r"^A committee|^In how many different ways|^A path on a grid",
    "probability": r"^A bag contains|fair dice",
    "sequence": r"^A sequence has",
    "derivative": r"^Differentiate ",
    "integral": r"^What is the integral ",
    "polygon": r"polygon with vertices",
    "distance": r"^What is the square of the distance",
    "determinant": r"^What is the determinant",
    "trace": r"^Let A be the matrix",
}
"""Pattern by family; it matches a phrase that only that family's statements contain."""


def family_of(statement: str) -> str:
    """Return a statement's family, recognized by its words."""
    return next(name for name, form in _FORMS.items() if re.search(form, statement))


def statement_of(observation: str) -> str:
    """Return the problem in the first observation."""
    return _STATEMENT.split(observation, maxsplit=1)[0]


def program(statement: str) -> str:
    """Return a program that prints the answer."""
    return FAMILIES[family_of(statement)].program(statement).strip()


def answer(printed: str) -> str:
    """Return the action that gives the last printed line as the answer."""
    return spell("answer", printed.splitlines()[-1] if printed else "")
