"""Hints: a plan and the expert's program line by line, or a file's solution sentence by sentence."""

import re

from agentgym.core.tasks import Data
from agentgym.envs.math import expert

PLANS = {
    "story": "Keep a running count, and change it once for every sentence, in order.",
    "fractions": "Compute with exact fractions from the innermost bracket outwards, never with decimals.",
    "equation": "Both sides are linear: take left minus right at two values of x, and find where it is zero.",
    "system": "Eliminate one unknown after another with exact fractions, then evaluate what is asked.",
    "coefficient": "Multiply the brackets as lists of coefficients, one bracket at a time, and read off one entry.",
    "remainder": "Divide the polynomials step by step: cancel the leading term until the degree is too low.",
    "power": "Reduce after every multiplication instead of computing the whole power.",
    "divisors": "Factor the numbers, or try every candidate in a loop.",
    "remainders": "Try the candidates in order until one leaves all remainders, or combine the conditions in pairs.",
    "digits": "Compute the number exactly, then work on its digits.",
    "counting": "Count case by case with binomial coefficients or factorials, and add the cases.",
    "probability": "Count the favorable cases and all cases, and divide them as an exact fraction.",
    "sequence": "Compute the terms one after another from those before, as the rule says.",
    "derivative": "Differentiate term by term; use the product rule and the chain rule, and write the sum.",
    "integral": "Find an antiderivative term by term, and subtract its values at the two ends as exact fractions.",
    "polygon": "Go around the vertices, and add x1 * y2 - x2 * y1 for each side.",
    "distance": "Write the direction of the line and the vector to the point, and take away the part along the line.",
    "determinant": "Bring the matrix into triangular form with exact fractions, and multiply its diagonal.",
    "trace": "Multiply the matrices exactly, and add the entries of the diagonal.",
}
"""A plan for each family, without any number from the problem."""
_SENTENCE = re.compile(r"\n+|(?<=[.!?])\s+(?=[A-Z$\\])")


def steps(data: Data) -> list[str]:
    """Return a task's hints in the order to give them; raise NotImplementedError if a file's problem has no solution."""
    if "family" in data:
        lines = expert.program(data["problem"]).splitlines()
        return [f"{PLANS[data['family']]} A program may begin like this:", *lines[:-1]]
    if not data.get("solution"):
        raise NotImplementedError("the problem's row has an answer and no solution")
    return [sentence.strip() for sentence in _SENTENCE.split(data["solution"]) if sentence.strip()]
