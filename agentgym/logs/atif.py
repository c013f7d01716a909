"""Convert episodes to documents of ATIF (Agent Trajectory Interchange Format, version 1.8) and back.

A document is one episode: the instruction and first observation are a user step, and each turn is an agent step with the
environment's response. Token ids, log-probabilities, usage, calls and thoughts have fields in the format. Rewards and
advantages do not, so they are in a step's `extra`. All other fields of an episode are in `extra["agentgym"]`, so reading
one of our documents gives the same episode. Tested against harbor 0.26.0, whose models read the documents.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import agentgym
from agentgym.agents.parse import split_thought
from agentgym.core.actions import Call, Tool, parse_call
from agentgym.episodes.episode import Episode, Turn
from agentgym.episodes.usage import Usage, amount, count, from_extra, to_extra
from agentgym.errors import BadData

VERSION = "ATIF-v1.8"
STRANGERS = "atif"
"""Environment id of episodes from documents of other programs."""
OURS = "agentgym"
"""Key in `extra` for agentgym's own fields."""
Json = dict[str, Any]
_PLACED = frozenset(("observation", "prompt_ids", "output_ids", "logprobs", "notes"))
_WRITTEN_ELSEWHERE = frozenset(("turns", "hint"))
"""Fields of an episode that are stored outside `extra`."""


def to_atif(episode: Episode, tools: Mapping[str, Tool] | None = None) -> Json:
    """Return an episode as a document; `tools` are those of its environment, if known."""
    steps: list[Json] = []
    first = episode.turns[0].observation if episode.turns else episode.final_observation
    system = [str(m.get("content")) for turn in episode.turns[:1] for m in turn.messages if m.get("role") == "system"]
    for source, text in (*(("system", text) for text in system), ("user", first or episode.instruction)):
        steps.append({"step_id": len(steps) + 1, "source": source, "message": _clean(text)})
    answers = [turn.observation for turn in episode.turns[1:]] + [episode.final_observation]
    for turn, answer in zip(episode.turns, answers, strict=False):
        for call in turn.calls:
            steps.append({"step_id": len(steps) + 1, **_step(call, tools, note=call is not turn)})
        result = {"content": _clean(answer)}
        if "tool_calls" in steps[-1]:
            result["source_call_id"] = steps[-1]["tool_calls"][0]["tool_call_id"]
        steps[-1]["observation"] = {"results": [result]}
    agent: Json = {"name": OURS, "version": agentgym.__version__}
    if tools:
        agent["tool_definitions"] = [tool.schema() for tool in tools.values()]
    about = {f.name: getattr(episode, f.name) for f in fields(episode) if f.name not in _WRITTEN_ELSEWHERE}
    about["hint"] = None if episode.hint is None else json.loads(episode.to_json())["hint"]
    counted = [usage for turn in episode.turns for call in turn.calls if (usage := _usage(call))]
    return _plain(
        {
            "schema_version": VERSION,
            "session_id": episode.group_id,
            "trajectory_id": f"{episode.env}/{episode.task_id}/{episode.attempt}",
            "agent": agent,
            "steps": steps,
            "final_metrics": {
                **{f"total_{name}": value for name, value in _metrics(counted).items()},
                "total_steps": len(steps),
                "extra": {"reward": episode.reward, "success": episode.success, "reason": episode.reason},
            },
            "extra": {OURS: about},
        }
    )


def _step(turn: Turn, tools: Mapping[str, Tool] | None, *, note: bool) -> Json:
    whole, _, rest = split_thought(turn.text, opened="</think>" in turn.text)
    thought = turn.text.rpartition("</think>")[0].replace("<think>", "", 1).strip() if whole else turn.reasoning
    message = _clean(rest if whole else turn.text)
    rest_of = {f.name: getattr(turn, f.name) for f in fields(turn) if f.name not in _PLACED}
    extra: Json = {"reward": turn.reward, "rewards": turn.rewards, OURS: {**rest_of, "note": note}}
    if _clean(turn.observation) != turn.observation:
        extra[OURS]["observation"] = turn.observation
    if "advantage" in turn.extra:
        extra["advantage"] = turn.extra["advantage"]
    usage = _usage(turn)
    step: Json = {"source": "agent", "message": message, "llm_call_count": int(bool(usage or turn.text))}
    if step["llm_call_count"]:
        step["metrics"] = _metrics([usage] if usage else [])
        step |= {"reasoning_content": _clean(thought)} if thought else {}
    if turn.output_ids or turn.prompt_ids:
        ids = {"prompt_token_ids": list(turn.prompt_ids), "completion_token_ids": turn.output_ids}
        if step["llm_call_count"]:
            step["metrics"] |= ids
        else:
            extra[OURS] |= ids
    if turn.logprobs:
        fits = step["llm_call_count"] and all(map(math.isfinite, turn.logprobs))
        values = [value if math.isfinite(value) else None for value in turn.logprobs]  # JSON has no NaN
        (step["metrics"] if fits else extra[OURS])["logprobs"] = values
    if calls := [] if note else _calls(turn.action, tools):
        numbered = enumerate(calls, 1)
        step["tool_calls"] = [{"tool_call_id": f"call_{n}", "function_name": f, "arguments": a} for n, (f, a) in numbered]
    return {**step, "extra": extra}


def _usage(call: Turn) -> Usage | None:
    """Return the token counts of a turn: exact ones if there are tokens, else the server's; None if nobody counted."""
    return Usage(len(call.prompt_ids), len(call.output_ids)) if call.output_ids else from_extra(call.extra)


def _metrics(usages: Sequence[Usage]) -> Json:
    """Return ATIF's metrics for the sum of several usages; unknown values are left out."""
    if not usages:
        return {}
    made: Json = {"prompt_tokens": sum(u.input for u in usages), "completion_tokens": sum(u.output for u in usages)}
    if cached := sum(usage.cached for usage in usages):
        made["cached_tokens"] = cached
    costs = [usage.cost for usage in usages if usage.cost is not None]
    return {**made, "cost_usd": math.fsum(costs)} if costs else made


def _calls(action: str, tools: Mapping[str, Tool] | None) -> list[tuple[str, object]]:
    """Return (name, arguments) of each tool call in an action; without tools, only calls in JSON are recognized."""
    if tools is not None:
        call = parse_call(action, tools) if tools and action else None
        return [(call.name, call.arguments)] if isinstance(call, Call) else []
    try:
        read: object = json.loads(action)
    except (ValueError, RecursionError):
        return []
    calls = [_mapping(call) for call in cast("list[object]", read if isinstance(read, list) else [read])]
    whole = all(set(call) == {"name", "arguments"} and isinstance(call["name"], str) for call in calls)
    whole = whole and all(isinstance(call["arguments"], dict) for call in calls)
    return [(call["name"], call["arguments"]) for call in calls] if whole else []


def _clean(text: str) -> str:
    """Return a text without lone surrogates, which ATIF rejects; `extra` has the original."""
    return text.encode("utf-8", "replace").decode()


def _plain(document: Json) -> Json:
    """Return a document as JSON values, with arrays as lists."""
    return json.loads(json.dumps(document, default=_listed))


def _listed(value: Any) -> object:
    return value.tolist() if hasattr(value, "tolist") else list(value)


def from_atif(document: object, name: str, lost: Counter[str] | None = None) -> Episode:
    """Return a document as an episode; `lost` counts the parts that an episode cannot represent.

    `name` identifies the document in errors and, for a document of another program, is the group id.

    For a document of another program, each step of the agent becomes a turn, other texts become observations, and success is
    unknown.

    Raises:
        BadData: the document is malformed.
    """
    raw = _object(document, f"{name}: the document")
    if not str(raw.get("schema_version")).startswith("ATIF-v1."):
        raise BadData(f"{name}: schema_version is {raw.get('schema_version')!r:.40}; expected ATIF-v1.0 to {VERSION}")
    steps = raw.get("steps")
    if not isinstance(steps, list) or not steps:
        raise BadData(f"{name}: it has no steps")
    entries = [_object(step, f"{name}: step {place}") for place, step in enumerate(cast("list[object]", steps), 1)]
    about = _mapping(_mapping(raw.get("extra")).get(OURS))
    values = _ours(about, entries) if about else _others(raw, entries, name, lost if lost is not None else Counter())
    try:
        return Episode.from_json(json.dumps(values))
    except BadData as error:
        raise BadData(f"{name}: {error}") from None


def _ours(about: Json, steps: Iterable[Json]) -> Json:
    """Return the fields of an episode from a document that agentgym wrote."""
    turns, notes, seen = list[Json](), list[Json](), list[str]()
    for step in steps:
        if step.get("source") != "agent":
            seen = [_text(step.get("message"), Counter())]
            continue
        mine = dict(_mapping(_mapping(step.get("extra")).get(OURS)))
        metrics = {**mine, **_mapping(step.get("metrics"))}
        prompt: object = metrics.get("prompt_token_ids") or list[object]()
        output: object = metrics.get("completion_token_ids") or list[object]()
        note = mine.pop("note", False)
        turn_fields: Json = {name: mine[name] for name in mine if name in Turn.__dataclass_fields__}
        turn_fields |= {"prompt_ids": [0, prompt], "output_ids": output, "logprobs": _numbers(metrics.get("logprobs"))}
        if turn_fields.get("plain_ids"):
            turn_fields["plain_ids"] = [0, turn_fields["plain_ids"]]
        else:
            turn_fields.pop("plain_ids", None)
        turn_fields.setdefault("observation", "" if note else seen[-1] if seen else "")
        if note:
            notes.append(turn_fields)
            continue
        turns.append({**turn_fields, "notes": notes} if notes else turn_fields)
        notes, seen = [], [_results(step, Counter())]
    fields_of_ours = {name: about[name] for name in about if name in Episode.__dataclass_fields__}
    return {**{k: v for k, v in fields_of_ours.items() if k != "hint" or v is not None}, "turns": turns}


_PLACES: Mapping[str, tuple[str, ...]] = {
    "document": ("schema_version", "trajectory_id", "agent", "steps", "final_metrics", "subagent_trajectories"),
    "agent": ("name",),
    "step": (
        *("step_id", "source", "message", "reasoning_content", "tool_calls", "observation", "metrics", "llm_call_count"),
        *("extra", "is_copied_context"),
    ),
    "message": ("step_id", "source", "message", "observation", "is_copied_context"),
    "metrics": (
        *("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"),
        *("prompt_token_ids", "completion_token_ids", "logprobs"),
    ),
    "extra": ("reward",),
    "tool_call": ("tool_call_id", "function_name", "arguments"),
    "observation": ("results",),
    "result": ("source_call_id", "content"),
}
"""Keys of another program's document that an episode can represent, by kind of object."""


def _leave(raw: Json, kind: str, lost: Counter[str]) -> None:
    """Count in `lost`, as `kind.key`, the values of an object that an episode cannot represent."""
    lost.update(f"{kind}.{key}" for key in raw if key not in _PLACES[kind] and raw[key] not in (None, "", [], {}))


def _others(raw: Json, steps: Iterable[Json], name: str, lost: Counter[str]) -> Json:
    """Return the fields of an episode from a document of another program."""
    turns, pending, reward = list[Json](), list[str](), 0.0
    instruction = ""
    agent = _mapping(raw.get("agent"))
    lost["subagents"] += len(_list(raw.get("subagent_trajectories")))
    _leave(raw if raw.get("trajectory_id") else {**raw, "session_id": None}, "document", lost)
    _leave(agent, "agent", lost)
    for step in steps:
        acts = step.get("source") == "agent"
        _leave(step, "step" if acts else "message", lost)
        if step.get("is_copied_context"):
            lost["steps copied from another trajectory"] += 1
            continue
        text = _text(step.get("message"), lost)
        if not acts:
            instruction = instruction or (text if step.get("source") == "user" else "")
            pending += [text, _results(step, lost)]
            continue
        metrics = _mapping(step.get("metrics"))
        _leave(metrics, "metrics", lost)
        _leave(_mapping(step.get("extra")), "extra", lost)
        paid = _number(_mapping(step.get("extra")).get("reward"))
        reward += paid
        turns.append(
            {
                "observation": "\n\n".join(filter(None, pending)),
                "text": _reply(step, text),
                "action": _action(step, text, lost),
                "prompt_ids": [0, metrics.get("prompt_token_ids") or []],
                "output_ids": metrics.get("completion_token_ids") or [],
                "logprobs": metrics.get("logprobs") or [],
                "reward": paid,
                "rewards": {"reward": paid} if paid else {},
                "extra": _counted(metrics, lost),
            }
        )
        pending = [_results(step, lost)]
    document: Json = {"env": STRANGERS, "group_id": name, "seed": 0, "instruction": instruction, "turns": turns, "format": 1}
    document["task_id"] = str(raw.get("trajectory_id") or raw.get("session_id") or name)
    document |= {"final_observation": "\n\n".join(filter(None, pending)), "reward": reward, "success": None, "reason": ""}
    return {**document, "labels": {"agent": str(agent.get("name"))}}


def _counted(metrics: Json, lost: Counter[str]) -> Json:
    """Return the usage in a step's metrics as entries for a turn's `extra`."""
    prompt, output = count(metrics.get("prompt_tokens")), count(metrics.get("completion_tokens"))
    cached, cost = metrics.get("cached_tokens"), metrics.get("cost_usd")
    if prompt is None or output is None:
        count_names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")
        lost.update(f"metrics.{key}" for key in count_names if metrics.get(key) is not None)
        return {}
    return to_extra(Usage(prompt, output, cached=count(cached) or 0, cost=amount(cost)), 0.0)


def _reply(step: Json, text: str) -> str:
    thought = step.get("reasoning_content")
    return f"<think>\n{thought}\n</think>\n\n{text}" if isinstance(thought, str) and thought else text


def _action(step: Json, text: str, lost: Counter[str]) -> str:
    calls = [_mapping(call) for call in _list(step.get("tool_calls"))]
    for call in calls:
        _leave(call, "tool_call", lost)
    entries = [{"name": call.get("function_name"), "arguments": call.get("arguments")} for call in calls]
    return json.dumps(entries[0] if len(entries) == 1 else entries, ensure_ascii=False) if entries else text


def _results(step: Json, lost: Counter[str]) -> str:
    observation = _mapping(step.get("observation"))
    listed = [_mapping(result) for result in _list(observation.get("results"))]
    _leave(observation, "observation", lost)
    for result in listed:
        _leave(result, "result", lost)
    lost["borders of results that became one observation"] += max(0, len(listed) - 1)
    return "\n".join(_text(result.get("content"), lost) for result in listed)


def _text(message: object, lost: Counter[str]) -> str:
    """Return a message's text; images and other parts are counted as lost.

    Raises:
        BadData: the message is neither text nor a list of parts.
    """
    if message is None or isinstance(message, str):
        return message or ""
    if not isinstance(message, list):
        raise BadData(f"a message is {message!r:.40}; expected a text or a list of parts")
    parts = [_mapping(part) for part in cast("list[object]", message)]
    lost["images and sounds"] += sum(part.get("type") != "text" for part in parts)
    return "\n".join(str(part.get("text") or "") for part in parts if part.get("type") == "text")


def _numbers(values: object) -> object:
    """Return a list of log-probabilities from a document, with null replaced by NaN."""
    listed = cast("list[object]", values) if isinstance(values, list) else []
    return [math.nan if value is None else value for value in listed]


def _number(value: object) -> float:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(cast("float", value)) if usable else 0.0


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _mapping(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise BadData(f"{what} is {value!r:.40}; expected an object")
    return cast("Json", value)


Tools = Callable[[str], Mapping[str, Tool] | None]
"""Function that returns the tools of an environment by its id; None if they are unknown."""


def file_name(episode: Episode, number: int) -> str:
    """Return a file name for an episode; it has only safe characters of the task id, so the id cannot choose a path."""
    safe = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in episode.task_id)[:60]
    return f"{number:05d}-{safe}-{episode.attempt}.json"
