"""Environment over tau2-bench's tasks, with its policies, tools, databases and evaluators."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from agentgym.core.actions import tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, TextEnv
from agentgym.core.tasks import Task
from agentgym.envs.desk.model_user import ModelUser
from agentgym.envs.desk.tau2 import Bench, load, why_not
from agentgym.envs.desk.tau2_customer import STOPS, WHY, history, reply, spelled
from agentgym.envs.desk.tau2_package import Case, RecordedCall, Utterance, find_package
from agentgym.envs.desk.tau2_repeat import refusal
from agentgym.errors import BadConfig
from agentgym.tasks.library import Library
from agentgym.tasks.reading import reading

LONGEST_RESULT = 30_000
"""Maximum number of characters shown of a tool's output."""
SOLO = """\
Settle the ticket by the policy, with the tools; some may be the customer's own, which you use for the \
customer. Nobody answers you: what the customer has to be told is written with say. End with done when everything is settled.

Policy
{policy}

Ticket
{ticket}"""
SERVE = """\
Serve the customer by the policy, with the tools. Speak to the customer with say, and begin with a greeting. End with done \
when everything is settled.

Policy
{policy}"""


class Tau2Desk(TextEnv):
    """Serve a customer of tau2-bench (arXiv 2506.07982) with the genuine tools, judged by the genuine evaluators.

    Without `user`, tasks that have a ticket are played in tau2's solo mode: there is no customer, and the agent also
    has the customer's tools. With `user`, a model plays the customer, and episodes are not repeatable.

    Reward: 1 if the evaluators give 1 to every part of the task's `reward_basis` that a program can verify, else 0.
    Parts that need a model's judgment are left out.

    Ceiling: `nothing` ends at once, which tau2-bench rewards if the expected database is the initial one.
    """

    horizon = 100
    snapshot_kind = "replay"
    task_settings: ClassVar[tuple[str, ...]] = ("strict", "ignore")
    caller_settings: ClassVar[tuple[str, ...]] = ("user", "data")
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    data: str = ""
    strict: bool = False
    """Reject a file that has a bad row; by default, bad rows are skipped and counted in a warning."""
    ignore: Sequence[str] = ()
    """Columns to ignore; text in any other unread column makes a row bad."""
    user: Any = ""
    # if no change is expected, every episode without one succeeds
    declared = Declarations(random_bound=1.0, ceilings={"nothing": 1.0})

    def check_options(self) -> None:
        self.bench: Bench = load(self.data, reading(self.strict, self.ignore))
        every = self.bench.library
        played = tuple(task for task in every.tasks if not why_not(task, solo=not self.user))
        self.library = Library(every.source, played) if played else every
        self.splits = self.library.splits
        if self.user:
            self.blocking, self.declared = isinstance(self.user, str), replace(self.declared, nondeterministic=WHY)
        super().check_options()

    def setup(self) -> None:
        self._model_user = ModelUser(self.user) if self.user else None
        self._own_tools = dict(self.tools)
        self._genuine: Case | None = None

    def health_check(self) -> None:
        """Raise Fault if the model that plays the customer does not answer."""
        if self._model_user is not None:
            self._model_user.check()

    def close(self) -> None:
        if self._model_user is not None:
            self._model_user.close()

    @classmethod
    def unlike_published(cls, options: Mapping[str, object]) -> str:
        """Return how the environment differs from tau2's orchestrator, which counts the messages of all participants.

        Source: sierra-research/tau2-bench 07a1081, `orchestrator.py`.
        """
        return "counts the agent's turns; tau2-bench counts every message (200 of them), and ends after 10 errors of tools"

    # Tasks

    def split_key(self, task: Task) -> object:
        """Return the domain and the task's id."""
        return task.data["domain"], task.id

    def split_of(self, task: Task) -> str:
        """Return the split that the file names."""
        return task.split

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return a task of the file by number, wrapping around at the end."""
        tasks = self.library.of_split(self._split_for(number, split))
        return tasks[number % len(tasks)]

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return self.bench.library.find(task_id)

    def size(self, split: str | None = None) -> int | None:
        """Return the number of playable tasks in a split, by default the environment's own.

        If this mode (with or without `user`) can play no task at all, count all tasks.
        """
        return len(self.library.of_split(split or self.split))

    # The episode

    def begin(self, task: Task) -> str:
        find_package()  # a missing package is reported before a bad task
        if reason := why_not(task, solo=self._model_user is None):
            raise BadConfig(f"task {task.id!r}: {reason}")
        self.log: list[Utterance | RecordedCall] = []
        self._open(task)
        self.databases = self._case.databases()
        policy = self._case.environment.get_policy()
        text = (
            SERVE.format(policy=policy)
            if self._model_user
            else SOLO.format(policy=policy, ticket=task.data["row"]["ticket"])
        )
        return text + "".join(f"\n\n{line}" for line in _initial_messages(task.data["row"]))

    def load(self, payload: object) -> None:
        super().load(payload)
        self._open(self.task)

    def _open(self, task: Task) -> None:
        """Replay the episode's log in the genuine environment and offer its tools.

        Raises:
            BadConfig: a tool has the same name as an attribute of the environment.
        """
        if self._genuine is None or self._genuine.row != task.data["row"]:
            self._genuine = Case(self.bench.folder, task.data["row"], solo=self._model_user is None)
        self._case.open(self.log)
        self.tools.clear()  # updated in place
        if clashes := sorted(set(self._case.tools) & {*dir(Tau2Desk), *self.__dict__}):
            raise BadConfig(
                f"tau2-bench has a tool {clashes[0]!r}, which is a name of every environment here: it cannot be called"
            )
        self.tools.update(self._own_tools | self._case.tools)

    @property
    def _case(self) -> Case:
        assert self._genuine is not None, "begin and load open it"
        return self._genuine

    # Tools

    @tool
    def say(self, text: str) -> str | Outcome:
        """Say something to the customer."""
        if not text.strip():
            return self.invalid("You said nothing. Write what the customer should hear: say[How can I help?].")
        self.log.append(Utterance("assistant", text))
        return "Noted." if self._model_user is None else self._hear()

    @tool
    def done(self) -> Outcome:
        """End the conversation, when everything is settled."""
        return self._judged("The conversation is over.")

    def __getattr__(self, name: str) -> Callable[..., str | Outcome]:
        """Return a tool of the domain: `step` calls tools as methods of the environment.

        Raises:
            AttributeError: the domain has no such tool.
        """
        if name.startswith("_") or name not in self.__dict__.get("tools", {}):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return partial(self._operate, name)

    def _operate(self, name: str, /, **arguments: object) -> str | Outcome:
        if reason := refusal(name, arguments):
            return self.invalid(reason)
        called = self._call("assistant", name, arguments)
        text = called.answer
        if len(text) > LONGEST_RESULT:
            text = f"{text[:LONGEST_RESULT]}… ({len(text) - LONGEST_RESULT} more characters)"
        return self.invalid(text) if called.error else text

    def _call(self, who: str, name: str, arguments: Mapping[str, object]) -> RecordedCall:
        called = self._case.call(who, name, arguments)
        self.log.append(called)
        self.databases = self._case.databases()
        return called

    def _hear(self) -> str | Outcome:
        """Let the model answer as the customer; return the answer, or the verdict if it ends the conversation."""
        assert self._model_user is not None, "without a model there is only the ticket"
        answer = reply(self._model_user, self._case, self.log, self.seed, partial(self._call, "user"))
        self.log.append(Utterance("user", answer))
        if any(stop in answer for stop in STOPS):
            return self._judged("The customer has ended the conversation.")
        return f"Customer: {answer}"

    def _judged(self, text: str) -> Outcome:
        try:
            parts = self._case.verdict(self.log)
        except (ValueError, LookupError) as error:  # an assertion about something missing
            return self.lose(f"{text} The database cannot be judged: {error}.")
        scores = ", ".join(f"{name} {value:g}" for name, value in parts.items())
        outcome = self.win if all(value == 1 for value in parts.values()) else self.lose
        ended = outcome(f"{text} {scores}.")
        ended.measures = {name.lower(): value for name, value in parts.items()}
        return ended

    # Framework hooks

    def state(self) -> object:
        return self.databases, self._case.progress(self.log), self.log if self._model_user else ()

    def oracle(self) -> Iterator[str]:
        """Yield the task's remaining actions, then the required messages, then `done`."""
        while True:
            yield self._next()

    def _next(self) -> str:
        criteria: dict[str, Any] = self.task.data["criteria"]
        actions: list[dict[str, Any]] = criteria.get("actions") or []
        required: list[str] = criteria.get("communicate_info") or []
        counts = Counter(spelled(entry.name, entry.arguments) for entry in self.log if isinstance(entry, RecordedCall))
        for action in actions:
            call = spelled(action["name"], action["arguments"])
            if not counts[call]:
                return call
            counts[call] -= 1
        messages = [entry.text for entry in self.log if isinstance(entry, Utterance) and entry.who == "assistant"]
        missing = [info for info in required if info not in messages]
        return spelled("say", {"text": missing[0]}) if missing else "done[]"

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return {"nothing": lambda _: "done[]"}


def _initial_messages(row: Mapping[str, object]) -> list[str]:
    """Return a task's initial messages for the agent, without the customer's own calls."""
    lines: list[str] = []
    for message in history(row):
        if message["role"] == "tool" and message.get("requestor", "assistant") == "assistant":
            lines.append(str(message.get("content")))
        elif message["role"] == "user" and message.get("content"):
            lines.append(f"Customer: {message['content']}")
        elif message["role"] == "assistant":
            calls: list[dict[str, Any]] = message.get("tool_calls") or []
            lines += [f"> {spelled(call['name'], call['arguments'])}" for call in calls]
            lines += [f"> {spelled('say', {'text': text})}" for text in [message.get("content")] if text]
    return lines
