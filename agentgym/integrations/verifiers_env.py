"""A taskset of verifiers as an agentgym environment: `agentgym.make("verifiers:NAME")`.

Its own `Env.run` runs in a thread with a client that waits for our actions; the messages to that client are the
observations. A plain taskset has one turn: the prompt, and the reply. Tasksets that need a separate machine (a runtime,
tool servers) are refused.
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
"""Forms in which rewards look for an answer, beside the tags that the prompt names."""
SECONDS = 60.0
"""Time limit of the environment's own code between two turns."""


def registered(name: str) -> str:
    """Return the id of a taskset, which is registered when it is first asked for."""
    return registry.register_foreign("verifiers", name, f"{__name__}:VerifiersEnv", taskset=name)


class VerifiersEnv(TextEnv):
    """A taskset of verifiers, with the options of its configuration. Success: its weighted rewards reach `success_at`."""

    task_settings: ClassVar[tuple[str, ...]] = ("listed", "success_at", "answer_fields")
    caller_settings: ClassVar[tuple[str, ...]] = ("taskset", "taskset_options")
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    taskset: str = ""
    """Id of the taskset's package."""
    taskset_options: Mapping[str, object] = {}
    listed: int = 1000
    """Tasks read, of a taskset without end."""
    success_at: float = 1.0
    answer_fields: tuple[str, ...] = (
        "answer", "answers", "solution", "target", "expected", "reference", "ground_truth", "gold",
    )  # fmt: skip
    """Fields of a task that hold its answer, for the oracle and `agentgym check`; those that exist."""
    declared = Declarations(random_bound=1.0)  # nobody has declared one
    horizon: int = 50
    blocking = True
    snapshot_kind = "replay"
    splits: ClassVar[Mapping[str, float]] = {"all": 1.0}  # pyright: ignore[reportIncompatibleVariableOverride]
    split = "all"

    def setup(self) -> None:
        """Load the tasks.

        Raises:
            BadConfig: the taskset is not named or empty, has several seats, or needs a runtime.
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
        self._accepted: list[str] = []  # the last reply that the taskset took
        self.declared = replace(self.declared, answers=("hidden",) if any(map(self._answers, self.theirs)) else ())

    def size(self, split: str | None = None) -> int | None:
        """Return how many tasks were read."""
        return len(self.theirs)

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task at that place."""
        place = number % len(self.theirs)
        task = self.theirs[place]
        answers = self._answers(task)
        hidden = [answer for answer in answers if len(answer) >= 3]  # a shorter one is in many a question by accident
        data = {"place": place, "hash": task.hash, "answers": answers, "hidden": hidden}
        return Task(task.data.name or "", data, f"all/0/{place}", "all")

    def _answers(self, task: Any) -> list[str]:
        """Return the answers that a task's own fields hold."""
        own = {name: getattr(task.data, name, None) for name in self.answer_fields if name not in vf.TaskData.model_fields}
        texts = [value for value in own.values() if isinstance(value, str | int | float) and not isinstance(value, bool)]
        return [str(value).strip() for value in texts if str(value).strip()]

    def begin(self, task: Task) -> str:
        """Start the environment's own run; its first message is the observation."""
        self.run = _Run(self.game, self.theirs[task.data["place"]])
        self.actions: list[str] = []
        return self._seen().text

    def act(self, action: str) -> Outcome:
        """Pass a reply to the waiting client."""
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
        """Replay the turns with harmless replies after an error, to tell the agent's error from the taskset's.

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
                if error.reason == Reason.TIMEOUT:  # the others would take as long
                    break
        raise Fault(f"{RULED_OUT}{ruled_out}", reason=ruled_out.reason) from fault

    def _replayed(self, text: str) -> None:
        """Say one text in every turn so far.

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
        """Say the reference answer in the form that the task's own rewards take; of tasks of one turn."""
        tags = [f"<{tag}>{{}}</{tag}>" for tag in dict.fromkeys(re.findall(r"<(\w+)>", self.observation))]
        forms = [form.format(answer) for answer in self.task.data["answers"] for form in (*tags, *FORMS)]
        for form in forms if not self.actions else []:
            if self._scores(form):
                yield form
                return
        raise NotImplementedError(f"task {self.task.id} has no answer that its rewards take in one reply")

    def _scores(self, reply: str) -> bool:
        """Return whether a reply succeeds in a separate episode."""
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
        """Return the result of the task's own `validate`; None if it defines none, or if that needs a runtime."""
        theirs = self.theirs[task.data["place"]]
        if type(theirs).validate is vf.Task.validate:
            return None
        try:
            return asyncio.run(asyncio.wait_for(theirs.validate(None), SECONDS))
        except AttributeError:  # of the runtime that is not there
            return None

    def forget(self) -> None:
        """Forget the episode, and tell a waiting client that no reply will come."""
        self.close()
        super().forget()

    def save(self) -> list[str]:
        """Return the conversation so far."""
        return list(self.actions)

    def load(self, payload: object) -> None:
        """Replay a saved conversation."""
        self.forget()
        self.begin(self.task)
        for action in cast("list[str]", payload):
            self.act(action)

    def close(self) -> None:
        """End a run that waits."""
        if "run" in self.__dict__:
            self.run.end()


class _Run:
    """Their `Env.run` in its own thread, and the two queues between it and us."""

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
        except BaseException as error:  # told to the environment, which makes it a fault
            self.events.put(("failed", error))

    def next(self) -> tuple[str, Any]:
        """Return the next request, or the trace at the end.

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
        """Let its thread end."""
        self.replies.put(None)


class _Seats:
    """The agents of a run: our client plays all of them, under any name."""

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
        """Open the exchange; the task's own rewards are computed when it closes."""
        yield self
        await task.score(self.trace, None)

    async def run(self, task: object, **_: object) -> Any:
        """Play a task of one turn: its prompt, and a reply."""
        async with self.interaction(task):
            await self.turn()
        return self.trace

    async def turn(self, message: Any = None) -> Segment:
        """Ask, and return the reply.

        Raises:
            RuntimeError: the episode was ended.
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
            run.replies.put(None)  # for one who asks again
            if run.told_end:
                raise RuntimeError("the episode was ended")
            run.told_end = True
            return Segment(messages=[], terminated=True)
        answer = vf.AssistantMessage(content=reply)
        response = Response(id="", created=int(time.time()), model="agentgym", message=answer, finish_reason="stop")
        prepare_turn(run.trace, list(run.messages)).commit(response)
        run.messages.append(answer)
        return Segment(messages=[answer])
