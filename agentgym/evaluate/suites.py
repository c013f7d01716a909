"""Names of worlds, and of lists of worlds that are evaluated together."""

from agentgym.errors import BadConfig, unknown
from agentgym.registry import DESCRIPTIONS

SUITES = {
    # every world that makes its own tasks
    "core": (
        "rlvr/Household-v0",
        "rlvr/Search-v0",
        "rlvr/GuessNumber-v0",
        "rlvr/FrozenLake-v0",
        "rlvr/TicTacToe-v0",
    ),
}


def worlds(names: str) -> tuple[str, ...]:
    """Return the ids that a comma-separated list stands for: ids, `module:id`, short names (`household`), suites.

    Raises UnknownName with the closest name.
    """
    short = {id.rpartition("/")[2].rpartition("-v")[0].lower(): id for id in sorted(DESCRIPTIONS)}
    found: dict[str, None] = {}
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name in SUITES:
            found.update(dict.fromkeys(SUITES[name]))
        elif name in DESCRIPTIONS or ":" in name:
            found[name] = None
        elif name.lower() in short:
            found[short[name.lower()]] = None
        else:
            known = DESCRIPTIONS if "/" in name else [*short, *SUITES]
            raise unknown("world or suite", name, known, "`agentgym envs` lists all.")
    if not found:
        raise BadConfig("no world was named, for example: agentgym eval household")
    return tuple(found)
