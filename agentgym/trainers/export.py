"""Episodes as rows of a table: messages, tools, token ids, loss masks and advantages under the names that TRL reads.

TRL 1.16: `SFTTrainer` takes `input_ids` with `assistant_masks`, else `messages` with `tools`; `DPOTrainer` takes `prompt`,
`chosen` and `rejected` messages with `tools`; `GRPOTrainer` samples from `prompt` and hands every other column to its reward
functions, and its own batches have `prompt_ids`, `completion_ids`, `tool_mask`, `advantages` and
`sampling_per_token_logps`.
"""

import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentgym import registry
from agentgym.core.actions import Call
from agentgym.episodes.episode import Episode, Group, Turn, groups
from agentgym.errors import BadConfig, BadData, MissingExtra, UnknownName, how_to_install
from agentgym.trainers.segments import Segment, build
from agentgym.trainers.stages.credit import Credit
from agentgym.trainers.stored import text_only

Row = dict[str, Any]
Messages = list[dict[str, Any]]
CALL_SIGNS = ("<tool_call>", "[TOOL_CALLS]", "<|python_tag|>")
"""What a reply holds in which a model's family writes a call."""


def conversations(episode: Episode) -> list[Messages]:
    """Return the messages of an episode, replies included: one conversation, or one for each prompt that begins anew."""
    talks: list[Messages] = []
    held: list[int] = []
    for turn in episode.turns:
        begins = turn.messages[:1] and turn.messages[0]["role"] == "system"
        if turn.prompt_ids and held and list(turn.prompt_ids[: len(held)]) != held:
            begins = True
        if not talks or begins:
            talks.append([])
        talks[-1] += [
            _message(message["role"], message.get("content"), message.get("tool_calls")) for message in turn.messages
        ]
        if turn.text or turn.action:
            talks[-1].append(_reply(turn))
        held = [*turn.prompt_ids, *turn.output_ids]
    return talks


def _message(role: object, content: object = None, tool_calls: object = None) -> dict[str, Any]:
    return {"role": role, "content": content or "", "tool_calls": tool_calls}


def _reply(turn: Turn) -> dict[str, object]:
    """Return a reply as a message: a call in the model's own form as `tool_calls`, all else as it was said."""
    if any(sign in turn.text for sign in CALL_SIGNS) or (turn.action and not turn.text):
        call = _call(turn.action)
        if call is not None:
            thought, closed, _ = turn.text.partition("</think>")
            function = {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
            return _message("assistant", thought + closed if closed else "", [{"type": "function", "function": function}])
    return _message("assistant", turn.text or turn.action)


def _call(action: str) -> Call | None:
    try:
        raw = json.loads(action)
        return Call(raw["name"], raw["arguments"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def tools_of(env: str) -> str | None:
    """Return the tools of an environment, made with its default options, as JSON; None without any or where it cannot be."""
    try:
        environment = registry.make(env)
    except (BadConfig, UnknownName, MissingExtra):
        return None
    shown = [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.parameters}}
        for t in environment.tools.values()
    ]
    environment.close()
    return json.dumps(shown, ensure_ascii=False) if shown else None


class Rows:
    """Makes the rows of one form after another; `tools`: the tools of an environment as JSON."""

    def __init__(self, tools: Callable[[str], str | None] = tools_of) -> None:
        self._ask, self._known = tools, dict[str, str | None]()

    def _about(self, episode: Episode) -> Row:
        if episode.env not in self._known:
            self._known[episode.env] = self._ask(episode.env)
        native = any(message["role"] == "tool" or message["tool_calls"] for m in conversations(episode) for message in m)
        about: Row = {name: getattr(episode, name) for name in ("env", "task_id", "group_id", "seed", "attempt", "split")}
        about |= {name: getattr(episode, name) for name in ("reward", "success", "reason", "instruction")}
        return {**about, "tools": self._known[episode.env] if native else None}

    def episodes(self, episodes: Sequence[Episode]) -> list[Row]:
        """A row an episode: its messages, and the whole of it as the JSON line that `Episode.from_json` reads."""
        return [
            {
                **self._about(episode),
                "messages": [message for messages in conversations(episode) for message in messages],
                "turns": len(episode.turns),
                "horizon": episode.horizon,
                "labels": json.dumps(episode.labels, ensure_ascii=False),
                "episode": episode.to_json(),
            }
            for episode in episodes
        ]

    def sft(self, episodes: Sequence[Episode], *, tokens: bool = True) -> list[Row]:
        """A row a conversation: `messages` and `tools`, or with tokens `input_ids` and `assistant_masks` besides."""
        if tokens and any(text_only(episode) for episode in episodes):
            raise BadConfig("some episodes have text and no token ids: --no-tokens writes the messages alone")
        if not tokens:
            return [{**self._about(e), "messages": messages} for e in episodes for messages in conversations(e)]
        rows: list[Row] = []
        for row in build(episodes):
            episode = episodes[row.episode]
            ids = {"input_ids": row.ids.tolist(), "assistant_masks": row.mask.astype(int).tolist()}
            rows.append({**self._about(episode), "messages": _said(episode, row), **ids})
        return rows

    def grpo(self, episodes: Sequence[Episode], credit: Credit | None) -> list[Row]:
        """A row of tokens each, with the advantage of every sampled token: noted by the run, or by a credit algorithm."""
        told, advantages = _noted(episodes) if credit is None else _credited(groups(episodes), credit)
        rows: list[Row] = []
        for row in build(told, advantages):
            episode, first = told[row.episode], int(np.argmax(row.turns >= 0))
            messages = _said(episode, row)
            asked = next((place for place, message in enumerate(messages) if message["role"] == "assistant"), len(messages))
            rows.append(
                {
                    **self._about(episode),
                    "prompt": messages[:asked],
                    "completion": messages[asked:],
                    "prompt_ids": row.ids[:first].tolist(),
                    "completion_ids": row.ids[first:].tolist(),
                    "tool_mask": row.mask[first:].astype(int).tolist(),
                    "advantages": row.advantages[first:].tolist(),
                    "sampling_per_token_logps": [
                        None if math.isnan(value) else value for value in row.logprobs[first:].tolist()
                    ],
                }
            )
        return rows

    def dpo(self, episodes: Sequence[Episode]) -> list[Row]:
        """A row a pair of a group: the best with the worst, the second best with the second worst, while rewards differ."""
        rows: list[Row] = []
        for group in groups(episodes):
            whole = [(e, talks[0]) for e in group if len(talks := conversations(e)) == 1 and len(talks[0]) > 1]
            ranked = sorted(whole, key=lambda pair: -pair[0].reward)
            for good, bad in zip(ranked, reversed(ranked), strict=True):
                asked = next(place for place, message in enumerate(good[1]) if message["role"] == "assistant")
                if good[0].reward <= bad[0].reward or good[1][:asked] != bad[1][:asked]:
                    break
                about = self._about(good[0])
                texts = {"prompt": good[1][:asked], "chosen": good[1][asked:], "rejected": bad[1][asked:]}
                rewards = {"chosen_reward": good[0].reward, "rejected_reward": bad[0].reward}
                kept = {name: about[name] for name in ("env", "task_id", "group_id", "split", "instruction", "tools")}
                rows.append({**kept, **texts, **rewards})
        if not rows:
            raise BadConfig(
                "no pair: no group has two episodes with different rewards, the same prompt, and one conversation each; "
                "expected a training run, or an evaluation with several attempts, of agent chat"
            )
        return rows


def _said(episode: Episode, row: Segment) -> Messages:
    """Return the conversation that a row of tokens is of."""
    talks = conversations(episode)
    if len(talks) == 1:
        return talks[0]
    first, place = int(row.turns[row.turns >= 0][0]), -1
    held: list[int] = []
    for number, call in enumerate(call for turn in episode.turns for call in turn.calls):
        if not held or list(call.prompt_ids[: len(held)]) != held:
            place += 1
        if number == first:
            break
        held = [*call.prompt_ids, *call.output_ids]
    return talks[min(place, len(talks) - 1)]


def _noted(episodes: Sequence[Episode]) -> tuple[list[Episode], list[Any]]:
    """Return the episodes whose turns have an advantage noted, and the advantages."""
    told = [e for e in episodes if all("advantage" in turn.extra for turn in e.turns)]
    if not told:
        raise BadConfig(
            "no episode has advantages noted, which training episodes have: --credit NAME computes them, for example grpo"
        )
    return told, [[turn.extra["advantage"] for turn in episode.turns] for episode in told]


def _credited(groups_given: Iterable[Group], credit: Credit) -> tuple[list[Episode], list[Any]]:
    several = [group for group in groups_given if len(group) > 1]
    if not several:
        raise BadConfig("no group has two episodes to compare; expected several attempts at a task")
    try:
        arrays = credit(several)
    except KeyError as error:
        raise BadData(f"credit {credit.name!r} needs {error} in every turn, which the file does not hold") from error
    told = [(e, array) for group, row in zip(several, arrays, strict=True) for e, array in zip(group, row, strict=True)]
    return [episode for episode, _ in told], [array for _, array in told]


def write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as a Parquet file, whole or not at all; MissingExtra without pyarrow."""
    try:
        arrow: object = importlib.import_module("pyarrow")  # which has no types
        parquet: object = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra(f"export needs pyarrow: {how_to_install('train')}") from error
    function = arrow.struct([("name", arrow.string()), ("arguments", arrow.string())])
    call = arrow.struct([("type", arrow.string()), ("function", function)])
    message = [("role", arrow.string()), ("content", arrow.string()), ("tool_calls", arrow.list_(call))]
    messages, ids, floats = arrow.list_(arrow.struct(message)), arrow.list_(arrow.int64()), arrow.list_(arrow.float64())
    kinds = dict.fromkeys(("messages", "prompt", "completion", "chosen", "rejected"), messages)
    kinds |= dict.fromkeys(("input_ids", "assistant_masks", "prompt_ids", "completion_ids", "tool_mask"), ids)
    kinds |= dict.fromkeys(("advantages", "sampling_per_token_logps"), floats)
    kinds |= {"tools": arrow.string(), "success": arrow.bool_(), "reward": arrow.float64(), "seed": arrow.uint64()}
    names = list(rows[0])
    columns = {name: arrow.array([row[name] for row in rows], type=kinds.get(name)) for name in names}
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table(columns), part)
    part.replace(path)
