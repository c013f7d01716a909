"""Settings of a training or evaluation run for the head of its page; all of them are untrusted."""

import tomllib
from collections.abc import Mapping
from typing import Any, cast

LONGEST = 200
"""Maximum characters of one value."""
EVALUATED = (
    *(("model", "model"), ("policy", "policy"), ("agent", "agent"), ("prompt", "prompt"), ("tools", "tools")),
    *(("temperature", "temperature"), ("tokens a reply", "turn_tokens"), ("attempts", "attempts"), ("seed", "seed")),
)
"""Label on the page, and key in the options of an evaluation's manifest; `policy` is shown only without a model."""
TRAINED = ("env", "model", "learner", "engine", "agent", "prompt", "temperature", "turn_tokens", "credit", "loss", "seed")
NAMES = {"env": "environment", "turn_tokens": "tokens a reply"}


def facts(config: str) -> dict[str, Any]:
    """Return settings of a training configuration (TOML text) by name, for the head of a page; empty if it is not TOML."""
    try:
        raw = tomllib.loads(config)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    tables = {name: cast("dict[str, object]", table) for name, table in raw.items() if isinstance(table, dict)}
    inside: dict[str, object] = {}
    for name, table in tables.items():
        inside |= {key: value for key, value in table.items() if key != "name"} if name != "policy" else {}
        inside[name] = table.get("name")  # `[credit] name = "grpo"` is `credit = "grpo"`
    flat = {**inside, **{name: value for name, value in raw.items() if name not in tables}}
    flat.setdefault("env", ", ".join(str(table.get("id", "")) for table in _tables(raw.get("envs"))))
    about = {name: flat.get(name) for name in (*TRAINED, "steps")}
    return {name: value for name, value in about.items() if isinstance(value, (str, int, float)) and value != ""}


def played_with(config: str | None, manifest: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return a run's settings as (label, value) in the order of the page's head, then its date and agentgym version."""
    found: list[tuple[str, object]] = []
    if config is not None:
        known = facts(config)
        found += [(NAMES.get(name, name), known.get(name)) for name in TRAINED]
    elif manifest and isinstance(manifest.get("options"), dict):
        options = cast("dict[str, object]", manifest["options"])
        found += [(name, options.get(key)) for name, key in EVALUATED if key != "policy" or not options.get("model")]
    sessions = _tables((manifest or {}).get("sessions"))
    if sessions:
        first, last = sessions[0], sessions[-1]
        found += [("date", str(first.get("started") or "")[:10]), ("agentgym", last.get("agentgym"))]
    return [(name, text) for name, value in found if (text := _text(value))]


def _tables(value: object) -> list[dict[str, object]]:
    """Return the objects in a list; empty if the value is not a list."""
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("dict[str, object]", one) for one in listed if isinstance(one, dict)]


def _text(value: object) -> str:
    """Return a value as displayed in the head; values per environment are joined without duplicates."""
    if isinstance(value, dict):
        several = [str(one) for one in cast("dict[str, object]", value).values() if one is not None]
        return ", ".join(dict.fromkeys(several))[:LONGEST]
    return "" if value is None else str(value)[:LONGEST]
