"""Read stored episodes from files, filter them, and encode episodes that have only text."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agentgym import registry
from agentgym.agents.demonstrator import written_ids
from agentgym.agents.encode import UntrustedText
from agentgym.agents.parse import split_thought
from agentgym.agents.spec import AgentSpec
from agentgym.agents.token_agent import TokenAgent
from agentgym.core.actions import Tool
from agentgym.core.tasks import Task
from agentgym.engines import Completion, Sampling
from agentgym.episodes.episode import Episode, Turn, unhinted
from agentgym.episodes.stored_env import stored_id
from agentgym.errors import BadConfig, BadData, MissingExtra, UnknownName
from agentgym.logs.foreign import is_logged, read_place
from agentgym.registry import full_id

LISTED = frozenset({"admissible", "commands", "actions"})
"""Prompt fields that list the possible actions; a file of episodes does not contain these lists."""


@dataclass(frozen=True)
class Filter:
    """Filter of stored episodes. Faults, episodes without a turn and episodes with a hint never pass."""

    success: bool = False
    """Use only successful episodes."""
    env: str = ""
    """Use only episodes of this environment."""
    min_reward: float | None = None
    """Use only episodes with at least this reward."""
    split: str = ""
    """Use only tasks of this split."""

    def takes(self, episode: Episode) -> bool:
        """Return True if an episode passes the filter."""
        return bool(
            episode.turns
            and not episode.fault
            and episode.hint is None
            and (episode.success is True or not self.success)
            and (not self.env or episode.env in (self.env, full_id(self.env)))
            and (self.min_reward is None or episode.reward >= self.min_reward)
            and (not self.split or episode.split == self.split)
        )


def read_files(files: Sequence[str], which: Filter) -> list[list[Episode]]:
    """Return the episodes in each file, run folder, or log of another program that pass a filter.

    Raises:
        BadConfig: a file does not exist, is named twice, or none of its episodes passes.
    """
    files_read: list[list[Episode]] = []
    seen = set[Path]()
    for path in map(_existing, files):
        place = path.resolve()
        if place in seen:
            raise BadConfig(f"{path} is named twice, and its episodes would count twice; expected each file once")
        seen.add(place)
        episodes = read_place(path)
        selected = [episode for episode in episodes if which.takes(episode)]
        if not selected:
            faults, hinted = sum(episode.fault for episode in episodes), len(episodes) - len(unhinted(episodes))
            raise BadConfig(
                f"{path} has {len(episodes)} episodes, {faults} of them infrastructure errors and {hinted} played with a "
                f"hint, and none that passes the filter ({which}); expected at least one: loosen the filter, or leave the "
                "file out"
            )
        files_read.append(selected)
    return files_read


def _existing(name: str) -> Path:
    """Return the path to read episodes from: the `episodes.jsonl` in a folder if it has one, else the given path.

    Raises:
        BadConfig: the path does not exist.
    """
    path = Path(name).expanduser()
    path = path / "episodes.jsonl" if (path / "episodes.jsonl").is_file() else path
    if not path.exists():
        raise BadConfig(
            f"{path} is not there; expected a file of episodes, the folder of a run or an evaluation, or a log of Harbor, "
            "inspect_ai or ATIF"
        )
    return path


def digest(files: Sequence[list[Episode]]) -> str:
    """Return a hash of the episodes of all files, in order."""
    hashed = hashlib.blake2b(digest_size=16)
    for episodes in files:
        hashed.update(f"\x1f{len(episodes)}\x1f".encode())
        for episode in episodes:
            hashed.update(f"{episode.env}\x1f{episode.group_id}\x1f{episode.attempt}\x1f{len(episode.turns)}\x1e".encode())
            for turn in episode.turns:
                hashed.update(json.dumps([turn.output_ids, turn.text, turn.action]).encode())
    return hashed.hexdigest()


def text_only(episode: Episode) -> bool:
    """Return True if a turn has text but no token ids: it came from an engine without token access."""
    return any(not call.output_ids and (call.text or call.action) for turn in episode.turns for call in turn.calls)


def called(episode: Episode) -> dict[str, Tool]:
    """Infer tools from an episode's calls: names and arguments; an argument is required if every call of the tool has it."""
    seen: dict[str, list[Mapping[str, object]]] = {}
    for turn in episode.turns:
        try:
            read: object = json.loads(turn.action)
        except (ValueError, RecursionError):
            continue  # no call of a tool
        call: Mapping[str, object] = cast("Mapping[str, object]", read) if isinstance(read, dict) else {}
        name, arguments = call.get("name"), call.get("arguments")
        if isinstance(name, str) and isinstance(arguments, dict):
            seen.setdefault(name, []).append(cast("Mapping[str, object]", arguments))
    found = dict[str, Tool]()
    for name, listed in seen.items():
        values = {key: value for arguments in listed for key, value in arguments.items()}
        schema: dict[str, object] = {
            "type": "object",
            "properties": {key: {"type": "string"} if isinstance(value, str) else {} for key, value in values.items()},
            "required": [key for key in values if all(key in arguments for arguments in listed)],
        }
        found[name] = Tool(name, "", schema)
    return found


class Encoder:
    """Encoder of text episodes: adds the token ids of an agent's prompts and of the actions in its format."""

    def __init__(self, spec: AgentSpec, engine: object, tokenizer: object) -> None:
        agent = spec.make(engine, Sampling(), tokenizer)
        assert isinstance(agent, TokenAgent)
        self.agent = agent
        self._tools: dict[str, dict[str, Tool]] = {}

    def __call__(self, episode: Episode) -> Episode:
        """Return the episode with token ids; an episode that has them is returned unchanged.

        A turn is only context if its action, written in the agent's format, does not parse back to the same action. The
        first turn without a reply and all later turns are left out.

        Raises:
            BadData: the episode cannot be encoded: the agent has its own memory, the prompt lists the possible actions, a
                turn has notes (further model calls), the environment is not available to describe the tools, or no action
                parses back.
        """
        if not text_only(episode):
            return episode
        where = f"episode {episode.task_id!r}, attempt {episode.attempt}, has text but no token ids, and"
        if not self.agent.demonstrable:
            raise BadData(f"{where} agent {type(self.agent).__name__} writes a memory that the text does not hold: use chat")
        if any(turn.notes for turn in episode.turns):
            raise BadData(f"{where} its notes belong to another agent's memory; train on files with tokens")
        try:
            return self._encoded(episode)
        except (BadConfig, UnknownName, MissingExtra) as error:
            raise BadData(f"{where} cannot be encoded in this model's tokens: {error}") from error

    def tools(self, env: str) -> dict[str, Tool]:
        """Return the tools of an environment, made with its default options."""
        if env not in self._tools:
            environment = registry.make(stored_id(env))
            self._tools[env] = dict(environment.tools)
            environment.close()
        return self._tools[env]

    def _encoded(self, episode: Episode) -> Episode:
        tools = called(episode) if is_logged(episode.env) else self.tools(episode.env)
        talk = self.agent.begin(Task(episode.instruction, {}, episode.task_id, episode.split), tools)
        agent, turns = talk.agent, list[Turn]()
        texts = (agent.prompt.system, agent.prompt.first, agent.prompt.turn)
        if any(section.fields & LISTED for section in texts):
            raise BadConfig(f"prompt {agent.prompt.name!r} lists the admissible commands, which the file does not hold")
        info: dict[str, object] = {"valid": True, "error": None, "admissible": None}
        for old in episode.turns:
            if not (old.text or old.action):
                break  # the context was full or the server's answer empty: no action was executed
            ids = talk.prompt(old.observation, info)
            reply = written_ids(talk, self._thought(agent, old.text), old.action)
            turn = talk.turn(old.observation, Completion(reply, [], "stop"))
            same = turn.action == old.action
            turn.prompt_ids = ids
            turn.copy_result(old)
            turn.extra["train"] = old.parsed and same and old.extra.get("train") is not False
            info = {"valid": old.valid, "error": old.error, "admissible": None}
            turns.append(turn)
        values = {name: getattr(episode, name) for name in Episode.__dataclass_fields__ if name != "turns"}
        again = Episode(**values)
        for turn in turns:
            again.add(turn)
        if not any(turn.extra["train"] for turn in turns):
            raise BadConfig(
                "none of its actions parses back to the same action: the agent that played it used another format"
            )
        return again

    def _thought(self, agent: TokenAgent, text: str) -> list[str]:
        """Return the thought at the start of a reply as pieces of text; empty if the agent's replies have no thoughts."""
        opened = bool(agent.template.opened)
        if not (agent.prompt.reply.think or opened):
            return []
        whole = split_thought(text, opened)[0] or "</think>" in text
        thought = text.partition("</think>")[0].replace("<think>", "", 1) if whole else ""
        return ["" if opened else "<think>", UntrustedText(thought), "</think>"]
