"""Access to the genuine tau2-bench code: its location, and its environments and evaluators for one task."""

import importlib
import importlib.util
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from agentgym.core.actions import Tool
from agentgym.envs.desk.tau2 import BASIS
from agentgym.envs.desk.tau2_repeat import steady, unshare
from agentgym.errors import BadConfig, BadData, Fault, MissingExtra, UnknownName, no_such

INSTALL = (
    "git clone https://github.com/sierra-research/tau2-bench, then pip install -e tau2-bench; no package registry has it"
)
MARK = "environment/toolkit.py"
"""A file that sierra-research's package `tau2` contains and PyPI's unrelated `tau2` does not."""


@dataclass(frozen=True)
class Utterance:
    """Words of the agent (`assistant`) or the customer (`user`)."""

    who: str
    text: str


@dataclass(frozen=True)
class RecordedCall:
    """A tool call of the agent (`assistant`) or the customer (`user`), and its result."""

    who: str
    name: str
    arguments: Mapping[str, object]
    answer: str
    error: bool


class Case:
    """A task in the genuine code; `open` starts it, and `solo` gives the agent the customer's tools."""

    def __init__(self, folder: Path, row: Mapping[str, Any], solo: bool) -> None:
        registry = _registry(folder)
        if folder.name not in registry.get_domains():
            raise UnknownName(
                no_such("domain of tau2-bench", folder.name, registry.get_domains(), "The tasks' folder has its name.")
            )
        try:
            self.task = _module("data_model.tasks").Task.model_validate(row)
        except ValueError as error:
            raise BadData(f"{folder}, task {row['id']!r}: {error}; expected a task of the installed tau2-bench") from error
        self.row, self.solo = row, solo
        self._constructor = registry.get_env_constructor(folder.name)

    def open(self, log: Sequence[Utterance | RecordedCall]) -> None:
        """Set the database to the task's initial state, and replay the episode's log.

        Raises:
            BadConfig: the domain has no solo mode.
        """
        try:
            self.environment = self._fresh(solo_mode=self.solo)
        except ValueError as error:  # raised by domains without a solo mode
            raise BadConfig(f"{error}; give the customer's part to a model with user=") from error
        start = self.task.initial_state
        data, actions = (start.initialization_data, start.initialization_actions) if start else (None, None)
        with steady(self._draw):
            self.environment.set_state(data, actions, [*self.history, *_messages(log)])

    def _fresh(self, **options: object) -> Any:
        """Create an environment; all environments of a task draw the same ids, in the order of the calls."""
        self._chance = random.Random(self.row["id"])
        fresh = self._constructor(**options)
        for toolkit in (fresh.tools, fresh.user_tools):
            if toolkit is not None:
                unshare(toolkit)
        return fresh

    def _draw(self) -> int:
        return self._chance.getrandbits(128)

    @property
    def history(self) -> list[object]:
        """The task's initial messages."""
        return list((self.task.initial_state and self.task.initial_state.message_history) or [])

    @cached_property
    def tools(self) -> dict[str, Tool]:
        """The agent's tools by name; in solo mode also the customer's tools."""
        own = {tool.name: tool for tool in map(_tool, self.environment.get_tools())}
        return own | self.customer_tools if self.solo else own

    @cached_property
    def customer_tools(self) -> dict[str, Tool]:
        """The customer's tools in this task, by name."""
        if self.environment.user_tools is None:
            return {}
        allowed: list[str] | None = self.row.get("user_tools")  # from the file: older versions have no such field
        offered = map(_tool, self.environment.get_user_tools())
        return {tool.name: tool for tool in offered if allowed is None or tool.name in allowed}

    def call(self, who: str, name: str, arguments: Mapping[str, object]) -> RecordedCall:
        """Execute a tool call by `who` (`assistant` or `user`); an exception in the tool becomes text `Error: …`."""
        call = _module("data_model.message").ToolCall(id="now", name=name, arguments=dict(arguments), requestor=who)
        with steady(self._draw):
            done = self.environment.get_response(call)
        return RecordedCall(who, name, arguments, done.content or "", done.error)

    def databases(self) -> tuple[str | None, str | None]:
        """Return the hashes of the desk's and the customer's databases; None for a missing database."""
        with steady(self._draw):
            return self.environment.get_db_hash(), self.environment.get_user_db_hash()

    def progress(self, log: Sequence[Utterance | RecordedCall]) -> tuple[list[bool], list[bool]]:
        """Return flags for the required strings (communicated or not) and for the required calls (made or not).

        A list is empty if the reward does not depend on its criterion.
        """
        checks: list[Any] | None = (
            self._evaluate("communicate", log).communicate_checks if "COMMUNICATE" in self.basis else []
        )
        called: list[Any] | None = self._evaluate("action", log).action_checks if "ACTION" in self.basis else []
        return [check.met for check in checks or []], [check.action_match for check in called or []]

    @property
    def basis(self) -> set[str]:
        """The task's criteria that a program can verify."""
        return {part.value for part in self.task.evaluation_criteria.reward_basis} & set(BASIS)

    def verdict(self, log: Sequence[Utterance | RecordedCall]) -> dict[str, float]:
        """Return the genuine evaluators' rewards by criterion; the episode's reward is their product."""
        parts: dict[str, float] = {}
        for name, covered in (("env", {"DB", "ENV_ASSERTION"}), ("action", {"ACTION"}), ("communicate", {"COMMUNICATE"})):
            if counted := sorted(self.basis & covered):
                info = self._evaluate(name, log)
                breakdown: dict[Any, Any] = info.reward_breakdown or {}
                rewards = {str(part.value): value for part, value in breakdown.items()}
                parts |= {part: rewards.get(part, info.reward) for part in counted}
        return parts

    def _evaluate(self, name: str, log: Sequence[Utterance | RecordedCall]) -> Any:
        messages = [*self.history, *_messages(log)]
        module = _module(f"evaluator.evaluator_{name}")
        if name == "env":
            return self._evaluate_databases(module.EnvironmentEvaluator, messages)
        evaluator = module.ActionEvaluator if name == "action" else module.CommunicateEvaluator
        return evaluator.calculate_reward(task=self.task, full_trajectory=messages)

    def _evaluate_databases(self, evaluator: Any, messages: list[object]) -> Any:
        try:
            with steady(self._draw):
                return evaluator.calculate_reward(
                    environment_constructor=self._fresh, task=self.task, full_trajectory=messages, solo_mode=self.solo
                )
        except ValueError as error:
            if not str(error).startswith("Tool call:"):
                raise
            raise Fault(f"tau2-bench's tools answered otherwise when the episode was replayed: {error}") from error


def _messages(log: Sequence[Utterance | RecordedCall]) -> list[object]:
    """Return the log as tau2-bench's messages."""
    form = _module("data_model.message")
    kinds = {"assistant": form.AssistantMessage, "user": form.UserMessage}
    messages: list[object] = []
    for number, entry in enumerate(log):
        if isinstance(entry, Utterance):
            messages.append(kinds[entry.who](role=entry.who, content=entry.text))
            continue
        id = f"call_{number}"
        call = form.ToolCall(id=id, name=entry.name, arguments=dict(entry.arguments), requestor=entry.who)
        messages.append(kinds[entry.who](role=entry.who, tool_calls=[call]))
        messages.append(form.ToolMessage(id=id, role="tool", content=entry.answer, requestor=entry.who, error=entry.error))
    return messages


def _tool(genuine: Any) -> Tool:
    function = genuine.openai_schema["function"]
    return Tool(function["name"], function["description"], function["parameters"])


def _registry(folder: Path) -> Any:
    """Return tau2-bench's registry of domains.

    Raises:
        MissingExtra: tau2-bench cannot be imported; the message says what to install.
        BadConfig: tau2-bench reads its data from another folder than that of the tasks.
    """
    place = find_package()
    try:
        importlib.import_module("loguru").logger.disable("tau2")  # it logs several lines per tool call
        registry = _module("registry").registry
        data = Path(_module("utils.utils").DATA_DIR) / "tau2" / "domains" / folder.name
    except ImportError as error:
        raise MissingExtra(f"tau2-bench at {place} cannot be imported ({error}): pip install -e its checkout") from error
    if data.resolve() != folder:
        raise BadConfig(
            f"the tools of tau2-bench at {place} read {data}, and the tasks are in {folder}; expected the same folder: "
            "give the tasks of that checkout"
        )
    return registry


def find_package() -> Path:
    """Return the location of the installed package `tau2`.

    Code next to the data is never imported, since data must not choose the code that runs.

    Raises:
        MissingExtra: `tau2` is missing, or is an unrelated package.
    """
    spec = importlib.util.find_spec("tau2")
    places = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    genuine = [place for place in places if (place / MARK).is_file()]
    if genuine:
        return genuine[0]
    if spec:
        raise MissingExtra(
            f"the package `tau2` at {spec.origin or places} is another program than tau2-bench, whose tools these tasks "
            f"need: uninstall it, and {INSTALL}"
        )
    raise MissingExtra(f"these tasks are listed, and are played with the tools of tau2-bench: {INSTALL}")


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"tau2.{name}")
