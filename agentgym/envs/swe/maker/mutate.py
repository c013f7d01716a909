"""All mutations of a repository, in random order."""

import ast
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentgym.core.seeding import generator
from agentgym.envs.swe.maker import operators_of_expressions, operators_of_statements
from agentgym.envs.swe.maker.code import Code, Splice
from agentgym.envs.swe.maker.operators import OPERATORS
from agentgym.envs.swe.tasks.suite import is_protected
from agentgym.rewards.programs.syntax import parse

KINDS = (operators_of_expressions, operators_of_statements)
"""Modules of operators; importing them registers the operators."""
SKIPPED = {"docs", "doc", "examples", "benchmarks", "bench", "scripts", "tools"}
"""Top-level folders with code that no test runs."""


@dataclass(frozen=True)
class Mutation:
    """One change of a file by an operator."""

    operator: str
    path: str
    place: str
    """The mutated function as `PATH:NAME`."""
    splice: Splice
    code: Code

    @property
    def content(self) -> bytes:
        """Content of the mutated file."""
        return self.code.spliced(self.splice)


def mutations(tree: Mapping[str, bytes], seed: int = 0) -> Iterator[Mutation]:
    """Yield every mutation that changes the code and leaves it parsable, in random order weighted by operator."""
    drawn: list[Mutation] = []
    known: set[tuple[str, bytes]] = set()
    for path in sources(tree):
        try:
            code = Code(path, tree[path])
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # not Python, or too deeply nested
            continue
        known.add((path, _hash(code.tree)))
        drawn += _of_file(code)
    sizes = Counter(mutation.operator for mutation in drawn)
    rng = generator("swe", "mutations", seed)
    keys: list[float] = []
    for mutation in drawn:  # weighted sampling without replacement (Efraimidis and Spirakis 2006)
        keys.append(math.log(1.0 - rng.random()) / (OPERATORS[mutation.operator].weight / sizes[mutation.operator]))
    for place in sorted(range(len(drawn)), key=lambda place: -keys[place]):
        mutation = drawn[place]
        parsed = _parsed(mutation.content)
        if parsed is not None and (mutation.path, parsed) not in known:
            known.add((mutation.path, parsed))
            yield mutation


def sources(tree: Mapping[str, bytes]) -> list[str]:
    """Return a repository's Python files, without tests and skipped folders."""
    return [
        path
        for path in sorted(tree)
        if path.endswith(".py") and not is_protected(path) and path.partition("/")[0] not in SKIPPED
    ]


def _of_file(code: Code) -> list[Mutation]:
    mutations_here: list[Mutation] = []
    for node in code.candidates():
        for operator in OPERATORS.values():
            if isinstance(node, operator.kinds):
                changes = [splice for splice in operator.changes(code, node) if splice is not None]
                mutations_here += [Mutation(operator.name, code.path, code.place(node), splice, code) for splice in changes]
    return mutations_here


def _parsed(content: bytes) -> bytes | None:
    try:
        return _hash(parse(content.decode("utf-8")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _hash(tree: ast.Module) -> bytes:
    return hashlib.blake2b(ast.dump(tree).encode("utf-8", "surrogatepass"), digest_size=16).digest()
