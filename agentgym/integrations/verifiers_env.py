"""A taskset of verifiers as an agentgym environment: `agentgym.make("verifiers:NAME")`.

The taskset's `Env.run` runs in a thread, with a client in place of a model: messages to the client become observations,
and our actions become its replies. A plain taskset has one turn: the prompt, and the reply. Tasksets that need a container
or tool servers are refused.
"""

# verifiers is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUnknownParameterType=false

import asyncio
import itertools
import queue
import re
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, ClassVar, cast

import verifiers.v1 as vf
from verifiers.v1.agent import Segment
from verifiers.v1.graph import prepare_turn
from verifiers.v1.state import state_cls
from verifiers.v1.trace import AgentInfo, Trace, TraceTask
from verifiers.v1.types import Response
from verifiers.v1.utils import loaders

from agentgym import registry
from agentgym.core.declared import Declarations
from agentgym.core.env import TextEnv
from agentgym.core.harmless import TEXTS
from agentgym.core.outcome import Outcome
from agentgym.core.tasks import Task
from agentgym.core.verdicts import amounts
from agentgym.errors import RULED_OUT, BadConfig, Fault, Reason

FORMS = ("{}", "<answer>{}</answer>", "\\boxed{{{}}}", "#### {}", "Answer: {}", "[{}]")
"""Formats in which reward functions look for an answer, in addition to tags that the prompt mentions."""
SECONDS = 60.0
"""Seconds that the taskset's code may take between two turns."""


def registered(name: str) -> str:
    """Return the environment id of a taskset, and register it on the first call."""
    return registry.register_foreign("verifiers", name, f"{__name__}:VerifiersEnv", taskset=name)


class VerifiersEnv(TextEnv):
    """A taskset of verifiers. An episode succeeds if the weighted sum of its rewards reaches `success_at`."""

    task_settings: ClassVar[tuple[str, ...]] = ("listed", "success_at", "answer_fields")
    caller_settings: ClassVar[tuple[str, ...]] = ("taskset", "taskset_options")
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    taskset: str = ""
    """Id of the taskset (its package's name)."""
    taskset_options: Mapping[str, object] = {}
    listed: int = 1000
    """Maximum number of tasks to read; a taskset may be endless."""
    success_at: float = 1.0
    answer_fields: tuple[str, ...] = (
        "answer", "answers", "solution", "target", "expected", "reference", "ground_truth", "gold",
    )  # fmt: skip
    """Names of task fields that may contain the answer, for the oracle and `agentgym check`; missing fields are skipped."""
    declared = Declarations(random_bound=1.0)  # nobody has declared one
    horizon: int = 50
    blocking = True
    snapshot_kind = "replay"
    splits: ClassVar[Mapping[str, float]] = {"all": 1.0}  # pyright: ignore[reportIncompatibleVariableOverride]
    split = "all"

    def setup(self) -> None:
        """Load the taskset and read its tasks.

        Raises:
            BadConfig: no taskset is named, or it is empty, needs several agents, or needs a container or tool servers.
        """
        if not self.taskset:
            raise BadConfig("say which taskset: taskset='NAME'")
        kind = loaders.environment_class(self.taskset)
        config = loaders.env_config_type(self.taskset).model_validate(
            {"taskset": {"id": self.taskset, **self.taskset_options}}
        )
        seats = [name for name in type(config).model_fields if isinstance(getattr(config, name), vf.AgentConfig)]
        if len(seats) > 1:
            raise BadConfig(
                f"the taskset {self.taskset} has the seats {', '.join(seats)}; one agent can take one seat alone"
            )
        self.game: Any = kind(config)
        self.theirs: list[Any] = list(itertools.islice(self.game.taskset, self.listed))
        needy = next((task for task in self.theirs if task.NEEDS_CONTAINER), None)
        if needy is not None or type(self.game.taskset).toolsets(config.taskset):
            raise BadConfig(f"the taskset {self.taskset} needs its own runtime (a container, or tool servers)")
        if not self.theirs:
            raise BadConfig(f"the taskset {self.taskset} has no tasks; taskset_options are its configuration")
        self._accepted: list[str] = []  # the last reply that the taskset accepted
        self.declared = replace(self.declared, answers=("hidden",) if any(map(self._answers, self.theirs)) else ())

    def size(self, split: str | None = None) -> int | None:
        """Return the number of tasks read."""
        return len(self.theirs)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return task `number` of the taskset, modulo the number of tasks read."""
        place = number % len(self.theirs)
        task = self.theirs[place]
        answers = self._answers(task)
        hidden = [answer for answer in answers if len(answer) >= 3]  # a shorter one is in many questions by accident
        data = {"place": place, "hash": task.hash, "answers": answers, "hidden": hidden}
        return Task(task.data.name or "", data, f"all/0/{place}", "all")

    def _answers(self, task: Any) -> list[str]:
        """Return the values of a task's `answer_fields` as text."""
        own = {name: getattr(task.data, name, None) for name in self.answer_fields if name not in vf.TaskData.model_fields}
        texts = [value for value in own.values() if isinstance(value, str | int | float) and not isinstance(value, bool)]
        return [str(value).strip() for value in texts if str(value).strip()]

    def begin(self, task: Task) -> str:
        """Start the taskset's run in its thread and return its first message as the observation."""
        self.run = _Run(self.game, self.theirs[task.data["place"]])
        self.actions: list[str] = []
        return self._seen().text

    def act(self, action: str) -> Outcome:
        """Pass a reply to the waiting client; return the next message, or the final outcome."""
        self.actions.append(action)
        self.run.replies.put(action)
        try:
            outcome = self._seen()
        except Fault as fault:
            self._judge(fault)
            return self.lose("The environment fails on this reply, and on no harmless one.")
        self._accepted = [action]
        return outcome

    def _judge(self, fault: Fault) -> None:
        """After an error, replay the turns with harmless replies to find out if the reply or the taskset caused the error.

        Raises:
            Fault: every replay fails as well.
        """
        ruled_out = fault
        for text in (*TEXTS, *self._accepted):
            try:
                self._replayed(text)
                return
            except Fault as error:
                ruled_out = error
                if error.reason == Reason.TIMEOUT:  # the other texts would take as long
                    break
        raise Fault(f"{RULED_OUT}{ruled_out}", reason=ruled_out.reason) from fault

    def _replayed(self, text: str) -> None:
        """Replay the turns so far in a new run, with `text` as every reply.

        Raises:
            Fault: the taskset fails.
        """
        run = _Run(self.game, self.theirs[self.task.data["place"]])
        try:
            for _ in self.actions:
                if run.next()[0] != "asked":
                    return
                run.replies.put(text)
            run.next()
        finally:
            run.end()

    def _seen(self) -> Outcome:
        kind, value = self.run.next()
        if kind == "asked":
            return Outcome(value)
        trace: Any = value
        paid = {name: reward for name, reward in trace.rewards.items() if reward is not None}
        source = f"the rewards of {self.taskset}"
        try:
            scores = amounts({name: reward.score for name, reward in paid.items()}, source)
            rewards = amounts({name: score * paid[name].weight for name, score in scores.items()}, source)
        except TypeError as error:
            raise Fault(str(error)) from None
        total = sum(rewards.values())
        lines = "\n".join(f"{name}: {value:g}" for name, value in rewards.items()) or "No reward."
        return self.win(lines) if total >= self.success_at else self.lose(lines)

    def oracle(self) -> Iterator[str]:
        """Yield the reference answer in a format that the task's rewards accept; single-turn tasks only.

        Raises NotImplementedError if no format succeeds.
        """
        tags = [f"<{tag}>{{}}</{tag}>" for tag in dict.fromkeys(re.findall(r"<(\w+)>", self.observation))]
        forms = [form.format(answer) for answer in self.task.data["answers"] for form in (*tags, *FORMS)]
        for form in forms if not self.actions else []:
            if self._scores(form):
                yield form
                return
        raise NotImplementedError(f"task {self.task.id} has no answer that its rewards take in one reply")

    def _scores(self, reply: str) -> bool:
        """Return True if a reply succeeds as the first turn of a new run."""
        run = _Run(self.game, self.theirs[self.task.data["place"]])
        try:
            if run.next()[0] != "asked":
                return False
            run.replies.put(reply)
            kind, trace = run.next()
            return kind == "over" and trace.reward >= self.success_at
        except Fault:
            return False
        finally:
            run.end()

    def validated(self, task: Task) -> bool | None:
        """Return the result of the task's own `validate`; None if the task defines none, or if it needs a runtime."""
        theirs = self.theirs[task.data["place"]]
        if type(theirs).validate is vf.Task.validate:
            return None
        try:
            return asyncio.run(asyncio.wait_for(theirs.validate(None), SECONDS))
        except AttributeError:  # raised on the missing runtime
            return None

    def forget(self) -> None:
        """Forget the episode, and release the waiting client without a reply."""
        self.close()
        super().forget()

    def save(self) -> list[str]:
        """Return the actions so far."""
        return list(self.actions)

    def load(self, payload: object) -> None:
        """Replay saved actions in a new run."""
        self.forget()
        self.begin(self.task)
        for action in cast("list[str]", payload):
            self.act(action)

    def close(self) -> None:
        """End the run of the taskset if it waits for a reply."""
        if "run" in self.__dict__:
            self.run.end()


class _Run:
    """A taskset's `Env.run` in its own thread, with one queue for requests to us and one for our replies."""

    def __init__(self, game: Any, task: Any) -> None:
        self.game, self.task = game, task
        self.events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.replies: queue.Queue[str | None] = queue.Queue()
        config = next(iter(game._agent_specs.values()))
        self.trace: Any = Trace(
            task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=AgentInfo(config=config),
        )
        self.messages: list[Any] = []
        self.told_end = False
        threading.Thread(target=self._play, name="verifiers", daemon=True).start()

    def _play(self) -> None:
        try:
            asyncio.run(self.game.run(self.task, _Seats(self)))
            self.events.put(("over", self.trace))
        except BaseException as error:  # passed to the environment, which raises a fault
            self.events.put(("failed", error))

    def next(self) -> tuple[str, Any]:
        """Return `("asked", text)` for the next request, or `("over", trace)` at the end.

        Raises:
            Fault: the taskset's code fails or takes too long.
        """
        try:
            kind, value = self.events.get(timeout=SECONDS)
        except queue.Empty:
            raise Fault(f"the environment of verifiers took longer than {SECONDS:g} s", reason=Reason.TIMEOUT) from None
        if kind == "failed":
            raise Fault(f"the environment of verifiers failed: {value!r:.300}") from value
        return kind, value

    def end(self) -> None:
        """End the thread by leaving its pending request without a reply."""
        self.replies.put(None)


class _Seats:
    """Agents of a run: any attribute is an agent that our client plays."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def __getattr__(self, name: str) -> "_Seat":
        if name.startswith("_"):
            raise AttributeError(name)
        return _Seat(self._run)


class _Seat:
    def __init__(self, run: _Run) -> None:
        self._run = run
        self.trace = run.trace

    @asynccontextmanager
    async def interaction(self, task: Any, **_: object) -> AsyncGenerator["_Seat"]:
        """Open a conversation with the client; when it closes, compute the task's own rewards."""
        yield self
        await task.score(self.trace, None)

    async def run(self, task: object, **_: object) -> Any:
        """Play a single-turn task: send its prompt and receive the reply."""
        async with self.interaction(task):
            await self.turn()
        return self.trace

    async def turn(self, message: Any = None) -> Segment:
        """Send a message to the client and return the reply as a segment.

        Raises:
            RuntimeError: the episode has ended, and the caller has been told so before.
        """
        run, data = self._run, self._run.task.data
        opening = not run.messages
        if opening and data.system_prompt:
            run.messages.append(vf.SystemMessage(content=data.system_prompt))
        if opening and data.prompt is not None:
            run.messages += [vf.UserMessage(content=data.prompt)] if isinstance(data.prompt, str) else list(data.prompt)
        if message is not None:
            run.messages += [vf.UserMessage(content=message)] if isinstance(message, str) else list(message)
        unseen = itertools.takewhile(lambda answer: answer.role != "assistant", reversed(run.messages))
        run.events.put(("asked", "\n\n".join(reversed([str(answer.content) for answer in unseen]))))
        reply = await asyncio.to_thread(run.replies.get)
        if reply is None:
            run.replies.put(None)  # for a caller that asks again
            if run.told_end:
                raise RuntimeError("the episode was ended")
            run.told_end = True
            return Segment(messages=[], terminated=True)
        answer = vf.AssistantMessage(content=reply)
        response = Response(id="", created=int(time.time()), model="agentgym", message=answer, finish_reason="stop")
        prepare_turn(run.trace, list(run.messages)).commit(response)
        run.messages.append(answer)
        return Segment(messages=[answer])
