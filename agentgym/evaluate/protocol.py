"""Protocols: suites that fix every option that affects results, so that results under one protocol are comparable."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentgym.agents.prompt import load_prompt, path_of
from agentgym.episodes.episode import MOST_FAULTS, Episode, fault_share
from agentgym.errors import BadConfig, no_such

NEEDED = ("split", "tasks", "attempts", "horizon", "seed", "temperature", "turn_tokens", "agent", "prompt")
HISTORY = {"chat": "all", "completion": "all", "window": "last 2"}
"""History that each agent kind keeps of an episode."""
REWARDS = ("outcome",)
NOT_COMPARABLE = "not comparable with published numbers"


@dataclass(frozen=True)
class Protocol:
    """Fields of a suite file's `[protocol]` table; the first three are checked against the suite's prompt and agent."""

    prompt_hash: str
    """`text_hash` of the prompt file."""
    admissible: bool
    """True if the prompt lists the admissible commands."""
    history: str
    """History that the agent keeps: `all`, or `last 2` turns."""
    reward: str
    """`outcome`: 1 for success, else 0, without shaping."""
    source: str = ""
    """Publication from which the prompt and the rules are taken."""


def text_hash(text: str) -> str:
    """Return the hash of a text as 16 hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def task_ids(episodes: Sequence[Episode]) -> str:
    """Return the hash of the played tasks' ids as 16 hexadecimal digits."""
    return text_hash("\n".join(sorted({f"{episode.env} {episode.task_id}" for episode in episodes})))


def read_protocol(where: str, raw: object, suite: Mapping[str, object]) -> Protocol:
    """Return a suite file's `[protocol]` table; `suite` has the other values of the file, which must be complete.

    Raises:
        BadConfig: a key is missing, unknown or wrong.
    """
    table: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
    known: dict[str, type] = {"prompt_hash": str, "admissible": bool, "history": str, "reward": str, "source": str}
    for key in table:
        if key not in known:
            raise BadConfig(no_such(f"key in {where}: [protocol]:", key, known))
    odd = [key for key, kind in known.items() if type(table.get(key, "" if key == "source" else None)) is not kind]
    missing = [key for key in NEEDED if key not in suite]
    if odd or missing:
        raise BadConfig(f"{where}: a protocol leaves nothing open; missing or of the wrong type: {', '.join(missing + odd)}")
    protocol = Protocol(**table)
    _check(where, protocol, suite)
    return protocol


def _check(where: str, protocol: Protocol, suite: Mapping[str, Any]) -> None:
    prompt = load_prompt(suite["prompt"])
    text = path_of(suite["prompt"]).read_text(encoding="utf-8")
    lists_commands = any(
        section.fields & {"admissible", "commands", "actions"} for section in (prompt.system, prompt.first, prompt.turn)
    )
    for name, stated, true in (
        ("prompt_hash", protocol.prompt_hash, text_hash(text)),
        ("admissible", protocol.admissible, lists_commands),
        ("history", protocol.history, HISTORY.get(suite["agent"])),
    ):
        if stated != true:
            raise BadConfig(f"{where}: [protocol] {name} is {stated!r}, but the evaluation would use {true!r}")
    if protocol.reward not in REWARDS:
        raise BadConfig(no_such(f"reward in {where}: [protocol]", protocol.reward, REWARDS))


def too_many_faults(episodes: Sequence[Episode]) -> str:
    """Return a warning if faults exceed `MOST_FAULTS` of an environment's episodes, else an empty string."""
    shares: list[str] = []
    for env in dict.fromkeys(episode.env for episode in episodes):
        mine = [episode for episode in episodes if episode.env == env]
        if (share := fault_share(mine)) > MOST_FAULTS:
            shares.append(f"{share:.1%} of {len(mine)} episodes of {env}")
    if not shares:
        return ""
    return f"infrastructure errors ended {', '.join(shares)}; the rates of the rest are not comparable with any number"


def comparability(options: Mapping[str, object], episodes: Sequence[Episode]) -> str:
    """Return a sentence on the results that an evaluation can be compared with; `options` are those of its manifest."""
    if warning := too_many_faults(episodes):
        return f"{warning}: more than {MOST_FAULTS:.0%}. Play them again (--retry-faults)"
    envs = cast("dict[str, dict[str, object]]", options.get("envs") or {})
    caps = [f"{name} of {env}" for env, facts in envs.items() for name in cast("list[str]", facts.get("caps", []))]
    if caps:
        return f"capped by {', '.join(caps)}: {NOT_COMPARABLE}"
    unlike = [f"{env} {facts['unlike']}" for env, facts in envs.items() if facts.get("unlike")]
    if unlike:
        return f"{'; '.join(unlike)}: {NOT_COMPARABLE}"
    protocol = options.get("protocol")
    if not isinstance(protocol, dict):
        return f"no protocol: {NOT_COMPARABLE}"
    name, tasks = str(protocol["name"]), int(protocol["tasks"])  # pyright: ignore[reportUnknownArgumentType]
    if "model" not in options:
        return f"protocol {name}, played without a model: {NOT_COMPARABLE}"
    played = len({(episode.env, episode.task_id) for episode in episodes})
    if played != tasks:
        return f"protocol {name}, with {played} of its {tasks} tasks: {NOT_COMPARABLE}"
    faults = sum(episode.fault for episode in episodes)
    if faults:
        return f"protocol {name}, {faults} episodes left out for infrastructure errors: {NOT_COMPARABLE} until played again"
    return f"protocol {name}, task ids {task_ids(episodes)}: comparable with numbers that state the same two"
