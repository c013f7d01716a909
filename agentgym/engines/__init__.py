"""Engines turn prompt tokens into completion tokens. This package defines their protocol and makes them by name."""

from collections.abc import Mapping
from typing import Any, cast

from agentgym.engines.kinds import kind_of
from agentgym.engines.model_names import as_chat
from agentgym.engines.protocol import ChatEngine as ChatEngine
from agentgym.engines.protocol import Completing as Completing
from agentgym.engines.protocol import Completion as Completion
from agentgym.engines.protocol import Draft as Draft
from agentgym.engines.protocol import Likeliest as Likeliest
from agentgym.engines.protocol import Request as Request
from agentgym.engines.protocol import Sampling as Sampling
from agentgym.engines.protocol import TokenEngine as TokenEngine
from agentgym.engines.protocol import ToolCall as ToolCall
from agentgym.engines.protocol import Watch as Watch
from agentgym.engines.protocol import watched as watched
from agentgym.errors import BadConfig


def engine(name: str, **options: object) -> TokenEngine | ChatEngine:
    """Make an engine from its name.

    Names: `hf:PATH`, `vllm:PATH`, `vllm:URL,URL`, `openai:URL`, `chat:URL#MODEL`, `chat:openai/NAME` or
    `scripted:FILE`. An option with a dotted name becomes an entry of a table: `body.KEY` sets KEY in the option `body`.

    Raises:
        BadConfig: `name` has none of these forms, or an option is unknown.
        UnknownName: the kind (the part before the colon) is unknown.
    """
    if not all(name.partition(":")):
        raise BadConfig(f"engine {name!r}: expected KIND:TARGET, for example hf:PATH or vllm:PATH. {as_chat(name)}")
    kind, target = kind_of(name)
    options = nested(options)
    kind.check_names(options)
    return kind.engine_class()(target, **options)


def nested(options: Mapping[str, object]) -> dict[str, object]:
    """Return the options with each dotted name `a.b` moved into a nested table: `{"a": {"b": …}}`.

    Raises:
        BadConfig: `a` is set both as a value and as a table.
    """
    tables: dict[str, Any] = {}
    for name, value in options.items():
        *path, last = name.split(".")
        place = tables
        for part in path:
            inner: Any = place.setdefault(part, {})
            if not isinstance(inner, dict):
                raise BadConfig(f"option {name}: {part} is a value already, and no table")
            place = cast("dict[str, Any]", inner)
        place[last] = value
    return tables
