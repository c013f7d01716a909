"""Keyword search over the names and descriptions of functions."""

import math
import re
from collections import Counter
from collections.abc import Mapping

from agentgym.envs.functions.catalog import Function

FIRST = 5
"""Maximum number of functions that a search shows."""


def words(text: str) -> set[str]:
    """Return the words of a text, in lower case and without a final s; `setEventDay` has three words."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).replace("_", " ").lower()
    return {word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", parts)}


def search(query: str, functions: Mapping[str, Function]) -> list[Function]:
    """Return at most FIRST functions that share words with a query, best first; rare words count most."""
    texts = {name: words(f"{name} {function.tool.description}") for name, function in functions.items()}
    counts = Counter(word for text in texts.values() for word in text)
    query_words = words(query[:500])

    def score(name: str) -> float:
        shared = sum(math.log(1 + len(texts) / counts[word]) for word in sorted(query_words & texts[name]))
        return shared / (5 + len(texts[name])) ** 0.5

    ranked = sorted((name for name in functions if query_words & texts[name]), key=lambda name: (-score(name), name))
    return [functions[name] for name in ranked[:FIRST]]


def signature(function: Function) -> str:
    """Return a function's name, parameters and description in one line."""
    parameters: list[str] = []
    for name, schema in function.tool.properties.items():
        choices = schema.get("enum")
        kind = "|".join(map(str, choices)) if isinstance(choices, list) else schema["type"]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        parameters.append(f"{name}: {kind}")
    return f"{function.name}({', '.join(parameters)}): {function.tool.description}"
