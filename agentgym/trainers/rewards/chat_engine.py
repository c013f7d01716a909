"""Chat engine of a reward: check its name, try it before a run, and reuse it between steps."""

import functools
import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, cast

from agentgym import engines
from agentgym.engines import ChatEngine, Sampling
from agentgym.engines.kinds import ENGINES
from agentgym.errors import BadConfig, Fault
from agentgym.registry import load

OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""Pattern of MODULE:NAME, a user-defined chat engine; a built-in engine's name has an address after the colon."""


def check(name: str, engine: str, options: object) -> None:
    """Check the name and options of the chat engine that the reward `name` uses.

    Raises:
        BadConfig: the engine is unknown or cannot chat, or its options are not a table.
    """
    if options is not None and not isinstance(options, Mapping):
        raise BadConfig(f"engine_options of reward {name!r} is {options!r}; expected a table, as {{timeout = 60}}")
    kind = engine.partition(":")[0]
    if OWN.fullmatch(engine) and kind not in ENGINES:
        if not callable(load(engine, "chat engine", {})):
            raise BadConfig(f"engine of reward {name!r} is {engine}; expected a class or function that makes a chat engine")
    elif kind not in ENGINES or ENGINES[kind].tokens:
        raise BadConfig(
            f"engine of reward {name!r} is {engine!r}; expected chat:URL#MODEL, for example "
            "chat:http://localhost:8000/v1#NAME, or MODULE:NAME of a chat engine of your own"
        )
    else:
        ENGINES[kind].check_names(cast("dict[str, object]", options or {}))


async def reach(who: str, engine: str, options: Mapping[str, object] | None) -> None:
    """Check that the engine answers a short question; `who` names it in the message.

    Raises:
        BadConfig: the engine does not answer.
    """
    chat = _made(engine, options or {})
    try:
        await chat.chat([{"role": "user", "content": "Reply with OK."}], (), Sampling(0.0, max_tokens=16), "reach")
    except (Fault, BadConfig) as error:
        raise BadConfig(f"{who} {engine} cannot be asked: {error}") from error
    finally:
        chat.close()


@functools.lru_cache(maxsize=4)
def shared(name: str, options: str) -> ChatEngine:
    """Return the process's engine for this name and these options (as JSON); later steps reuse it and its connections."""
    return _made(name, json.loads(options))


def _made(name: str, options: Mapping[str, Any]) -> ChatEngine:
    if OWN.fullmatch(name):
        return cast("Callable[..., ChatEngine]", load(name, "chat engine", {}))(**options)
    return cast("ChatEngine", engines.engine(name, **options))  # `check` accepts only names of chat engines


def grades_file(path: str, name: str) -> sqlite3.Connection:
    """Open the database of stored grades of the reward `name`; the key is a hash of the content, and processes may share it.

    Raises:
        BadConfig: the file cannot be used.
    """
    try:
        file = sqlite3.connect(path, timeout=60.0, isolation_level=None)
        file.execute("CREATE TABLE IF NOT EXISTS grades (content TEXT PRIMARY KEY, grade REAL NOT NULL)")
    except sqlite3.Error as error:
        raise BadConfig(
            f"cache of reward {name!r} is {path}, which cannot be used ({error}); choose another file"
        ) from error
    return file
