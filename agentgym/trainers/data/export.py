"""Export episodes as table rows: messages, tools, token ids, loss masks and advantages under the names that TRL reads.

TRL 1.16: `SFTTrainer` takes `input_ids` with `assistant_masks`, else `messages` with `tools`; `DPOTrainer` takes
`prompt`, `chosen` and `rejected` messages with `tools`; `GRPOTrainer` samples from `prompt` and passes every other column
to its reward functions, and its own batches have `prompt_ids`, `completion_ids`, `tool_mask`, `advantages` and
`sampling_per_token_logps`.
"""

import importlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from agentgym import registry
from agentgym.agents.native import offered
from agentgym.core.actions import Tool
from agentgym.core.screen import storable
from agentgym.episodes.episode import Episode, Group, groups
from agentgym.episodes.stored_env import stored_id
from agentgym.errors import BadConfig, BadData, MissingExtra, UnknownName, how_to_install
from agentgym.trainers.credit.interface import Credit
from agentgym.trainers.data.conversations import Messages, conversations
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.data.stored import text_only

Row = dict[str, Any]
MESSAGES = ("messages", "prompt", "completion", "chosen", "rejected")


def tools_of(env: str) -> Mapping[str, Tool] | None:
    """Return the tools of an environment, made with its default options; None if it cannot be made."""
    try:
        environment = registry.make(stored_id(env))
    except (BadConfig, UnknownName, MissingExtra):
        return None
    tools = dict(environment.tools)
    environment.close()
    return tools


class Rows:
    """Builder of table rows; `tools` returns the tools of an environment, or None if they are unknown."""

    def __init__(self, tools: Callable[[str], Mapping[str, Tool] | None] = tools_of) -> None:
        self._ask, self._known = tools, dict[str, Mapping[str, Tool] | None]()

    def _tools(self, episode: Episode) -> Mapping[str, Tool] | None:
        if episode.env not in self._known:
            self._known[episode.env] = self._ask(episode.env)
        return self._known[episode.env]

    def _talks(self, episode: Episode) -> list[Messages]:
        return conversations(episode, self._tools(episode))

    def _about(self, episode: Episode) -> Row:
        tools = self._tools(episode)
        native = tools is not None and any("tool_calls" in message for talk in self._talks(episode) for message in talk)
        schemas = [tool.schema() for tool in offered(tools or {}).values()] if native else None
        about: Row = {name: getattr(episode, name) for name in ("env", "task_id", "group_id", "seed", "attempt", "split")}
        about |= {name: getattr(episode, name) for name in ("reward", "success", "reason", "instruction")}
        return {**about, "tools": None if schemas is None else json.dumps(schemas, ensure_ascii=False)}

    def episodes(self, episodes: Sequence[Episode]) -> list[Row]:
        """Return a row per episode: its messages, and the episode as the JSON line that `Episode.from_json` reads."""
        return [
            {
                **self._about(episode),
                "messages": [message for messages in self._talks(episode) for message in messages],
                "turns": len(episode.turns),
                "horizon": episode.horizon,
                "labels": json.dumps(episode.labels, ensure_ascii=False),
                "episode": episode.to_json(),
            }
            for episode in episodes
        ]

    def sft(self, episodes: Sequence[Episode], *, tokens: bool = True) -> list[Row]:
        """Return a row per conversation: `messages` and `tools`, with `tokens` also `input_ids` and `assistant_masks`.

        Raises:
            BadConfig: `tokens` is set and an episode has no token ids.
        """
        if tokens and any(text_only(episode) for episode in episodes):
            raise BadConfig("some episodes have text and no token ids: --no-tokens writes the messages alone")
        if not tokens:
            return [{**self._about(e), "messages": messages} for e in episodes for messages in self._talks(e)]
        rows: list[Row] = []
        for row in build(episodes):
            episode = episodes[row.episode]
            ids = {"input_ids": row.ids.tolist(), "assistant_masks": row.mask.astype(int).tolist()}
            rows.append({**self._about(episode), "messages": _messages(episode, row, self._talks(episode)), **ids})
        return rows

    def grpo(self, episodes: Sequence[Episode], credit: Credit | None) -> list[Row]:
        """Return a row per token sequence with the advantage of every sampled token.

        `credit` computes the advantages, and groups with one episode are left out. If it is None, the advantages are the
        stored ones, and episodes without them are left out.
        """
        scored, advantages = _noted(episodes) if credit is None else _credited(groups(episodes), credit)
        rows: list[Row] = []
        for row in build(scored, advantages):
            episode, first = scored[row.episode], int(np.argmax(row.turns >= 0))
            messages = _messages(episode, row, self._talks(episode))
            prompt_end = next(
                (place for place, message in enumerate(messages) if message["role"] == "assistant"), len(messages)
            )
            rows.append(
                {
                    **self._about(episode),
                    "prompt": messages[:prompt_end],
                    "completion": messages[prompt_end:],
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
        """Return a row per pair of episodes in a group: best with worst, second best with second worst, and so on.

        Only episodes with a single conversation are paired. The pairs of a group end as soon as two rewards are equal or
        two prompts differ.

        Raises:
            BadConfig: there is no pair.
        """
        rows: list[Row] = []
        for group in groups(episodes):
            whole = [(e, talks[0]) for e in group if len(talks := self._talks(e)) == 1 and len(talks[0]) > 1]
            ranked = sorted(whole, key=lambda pair: -pair[0].reward)
            for good, bad in zip(ranked, reversed(ranked), strict=True):
                prompt_end = next(place for place, message in enumerate(good[1]) if message["role"] == "assistant")
                if good[0].reward <= bad[0].reward or good[1][:prompt_end] != bad[1][:prompt_end]:
                    break
                about = self._about(good[0])
                texts = {"prompt": good[1][:prompt_end], "chosen": good[1][prompt_end:], "rejected": bad[1][prompt_end:]}
                rewards = {"chosen_reward": good[0].reward, "rejected_reward": bad[0].reward}
                columns = {name: about[name] for name in ("env", "task_id", "group_id", "split", "instruction", "tools")}
                rows.append({**columns, **texts, **rewards})
        if not rows:
            raise BadConfig(
                "no pair: no group has two episodes with different rewards, the same prompt, and one conversation each; "
                "expected a training run, or an evaluation with several attempts, of agent chat"
            )
        return rows


def _messages(episode: Episode, row: Segment, talks: list[Messages]) -> Messages:
    """Return the conversation that a row of tokens belongs to."""
    if len(talks) == 1:
        return talks[0]
    first, place = int(row.turns[row.turns >= 0][0]), -1
    context: list[int] = []
    for number, call in enumerate(call for turn in episode.turns for call in turn.calls):
        if not context or list(call.prompt_ids[: len(context)]) != context:
            place += 1
        if number == first:
            break
        context = [*call.prompt_ids, *call.output_ids]
    return talks[min(place, len(talks) - 1)]


def _noted(episodes: Sequence[Episode]) -> tuple[list[Episode], list[Any]]:
    """Return the episodes whose turns all have stored advantages, and these advantages per turn.

    Raises:
        BadConfig: no episode has stored advantages.
    """
    scored = [e for e in episodes if all("advantage" in turn.extra for turn in e.turns)]
    if not scored:
        raise BadConfig(
            "no episode has advantages noted, which training episodes have: --credit NAME computes them, for example grpo"
        )
    return scored, [[turn.extra["advantage"] for turn in episode.turns] for episode in scored]


def _credited(candidates: Iterable[Group], credit: Credit) -> tuple[list[Episode], list[Any]]:
    several = [group for group in candidates if len(group) > 1]
    if not several:
        raise BadConfig("no group has two episodes to compare; expected several attempts at a task")
    try:
        arrays = credit(several)
    except KeyError as error:
        raise BadData(f"credit {credit.name!r} needs {error} in every turn, which the file does not hold") from error
    scored = [(e, array) for group, row in zip(several, arrays, strict=True) for e, array in zip(group, row, strict=True)]
    return [episode for episode, _ in scored], [array for _, array in scored]


def write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows as a Parquet file, all or nothing.

    A message is a JSON value (Arrow's extension type, the feature `Json` of datasets 4.7): calls of different tools
    have different arguments, and in a column of structs each call would also get the arguments of all other tools, as
    None.

    Raises:
        MissingExtra: pyarrow is not installed.
        BadData: a column has values of different kinds.
    """
    try:
        arrow: Any = importlib.import_module("pyarrow")  # which has no types
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra(f"export needs pyarrow: {how_to_install('train')}") from error
    ids, floats = arrow.list_(arrow.int64()), arrow.list_(arrow.float64())
    kinds: dict[str, Any] = {"tools": arrow.string(), "success": arrow.bool_(), "seed": arrow.uint64()}
    kinds |= {"reward": arrow.float64(), "advantages": floats, "sampling_per_token_logps": floats}
    for name in ("input_ids", "assistant_masks", "prompt_ids", "completion_ids", "tool_mask"):
        kinds[name] = ids
    columns: dict[str, object] = {}
    for name in rows[0]:
        values = [_storable(row[name]) for row in rows]
        try:
            columns[name] = (
                _as_json(arrow, cast("list[Messages]", values))
                if name in MESSAGES
                else arrow.array(values, type=kinds.get(name))
            )
        except (ValueError, TypeError, OverflowError) as error:
            raise BadData(f"the column {name!r} cannot be written: {error}; expected values of one kind") from error
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        parquet.write_table(arrow.table(columns), part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _as_json(arrow: Any, conversations: Sequence[Messages]) -> object:
    """Return an Arrow column of lists of messages, each message a JSON value."""
    ends = np.cumsum([0, *map(len, conversations)])
    texts = [json.dumps(message, ensure_ascii=False, allow_nan=False) for talk in conversations for message in talk]
    values = arrow.ExtensionArray.from_storage(arrow.json_(), arrow.array(texts, arrow.string()))
    return arrow.ListArray.from_arrays(arrow.array(ends, arrow.int32()), values)


def _storable(value: object) -> object:
    """Return a value whose texts can be encoded as UTF-8 and stored."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(key)): _storable(entry) for key, entry in cast("dict[object, object]", value).items()}
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [_storable(entry) for entry in cast("list[object]", value)]
    return cast("object", value)
