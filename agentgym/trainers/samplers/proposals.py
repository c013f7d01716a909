"""Task samplers with proposed tasks: the policy is trained both to propose tasks and to solve them."""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Protocol, runtime_checkable

from agentgym.core.seeding import generator
from agentgym.core.tasks import Data, Task
from agentgym.episodes.episode import Episode
from agentgym.errors import BadConfig
from agentgym.rollout.draw import Draw
from agentgym.trainers.samplers.interface import GroupOutcome, Sampler, TaskSource, sampler
from agentgym.trainers.seam import Within

CAPACITY, EXAMPLES = 200, 2
"""Maximum number of stored proposals, and number of stored proposals that a proposer sees as examples."""


@runtime_checkable
class ProposalEnv(Protocol):
    """An environment in which the policy proposes tasks of another environment; a valid proposal is a success."""

    def proposed(self, final_observation: str) -> Data | None:
        """Return the proposed task's data, read from an episode's final observation; None if no proposal was accepted."""
        ...

    def conditioned(self, task: Task, past: Sequence[Data]) -> Task:
        """Return `task`, which asks for a proposal, with earlier proposals as examples in its text."""
        ...


@runtime_checkable
class GatedProposalEnv(Protocol):
    """A proposing environment that can test if a question can be answered from the documents that its proposer found."""

    def gate(self, data: Data) -> Task:
        """Return the task of answering a proposed question from the documents that its proposer found."""
        ...


class SelfProposed(Sampler):
    """Lets `proposers` of a step's groups propose tasks; the other groups solve these tasks and the environment's own.

    A run has two environments: one that proposes (`ProposalEnv`) and one that solves. Proposals are played first, with
    `attempts` episodes per proposing task. Each valid new proposal becomes a task to solve, until the step has enough
    groups. If there are too few, the environment's own tasks fill the step, so no proposer can stall it. The solvers'
    results determine the reward of a proposal. An invalid or repeated proposal is paid `invalid`. A proposal is not
    trained on if it was not played, or if its check or all of its solvers ended in infrastructure errors.
    """

    def __init__(
        self,
        sources: Sequence[TaskSource],
        *,
        proposers: Annotated[int, Within(1)] = 1,
        attempts: Annotated[int, Within(2)] = 4,
        invalid: Annotated[float, Within(-1, 0)] = 0.0,
    ) -> None:
        by_kind = {True: list[TaskSource](), False: list[TaskSource]()}
        for source in sources:
            by_kind[isinstance(source.env.unwrapped, ProposalEnv)].append(source)
        if [len(by_kind[kind]) for kind in (True, False)] != [1, 1]:
            raise BadConfig(
                f"a sampler of proposals has {len(by_kind[True])} environments that propose and {len(by_kind[False])} that "
                "solve; expected one of each: two [[envs]] tables, such as rlvr/CodeProposer-v0 and rlvr/CodePuzzle-v0"
            )
        [self.proposer], [self.solver] = by_kind[True], by_kind[False]
        if not isinstance(self.proposer.env.unwrapped, self.kind):
            raise BadConfig(
                f"{self.proposer.name} proposes tasks, and cannot try them by what their proposer found; "
                "use sampler 'absolute_zero', or propose in rlvr/SearchProposer-v0"
            )
        self.proposers, self.attempts, self.invalid = proposers, attempts, invalid
        self.places = {"proposer": 0, "solver": 0}
        self.tasks_made = 0
        self.past: list[Data] = []
        self.known: list[str] = []
        self.tasks: dict[str, Task] = {}
        """Tasks made in all rounds of the current step, by id."""
        self.step = -1
        self.waiting: list[tuple[Episode, str | None]] = []
        """This process's proposals, each with the id of its task; the id is empty if the task is not played, None if
        the proposal is invalid."""

    kind: ClassVar[type] = ProposalEnv
    """Protocol that the proposing environment has to implement."""

    @abstractmethod
    def worth(self, rate: float) -> float:
        """Return the reward of a proposal whose task was solved at this success rate."""

    async def checked(self, proposals: list[Data], step: int, run: Any) -> Sequence[bool | None]:
        """Return, for each valid proposal, True if it may be played, else False; None if its check ended in a fault."""
        return [True] * len(proposals)

    async def draw(self, step: int, number: int, *, run: Any) -> list[Draw]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Let the policy propose tasks, and return the tasks to solve: accepted proposals, then the environment's own."""
        proposing = [self._proposing(step) for _ in range(min(self.proposers, number - 1))]
        if step != self.step:
            self.step, self.tasks = step, {}
        self.tasks |= {draw.task.id: draw.task for draw in proposing}
        played: list[Episode] = await run.rollouts.collect(run.share(proposing), step)
        order = {run.rollouts.group_id(draw, f"{step + 1}/"): place for place, draw in enumerate(proposing)}
        solving = [
            (order[e.group_id], e.attempt, self._proposed(e.final_observation) if e.success else None)
            for e in played
            if not e.fault
        ]
        every = sorted(run.gather(solving), key=lambda entry: entry[:2])
        ids = await self._tasks_of(every, step, number - len(proposing), run)
        self.waiting = [(e, ids[order[e.group_id], e.attempt]) for e in played if not e.fault]
        draws = [Draw(self.tasks[id], env=self.solver.name) for id in ids.values() if id]
        own = number - len(proposing) - len(draws)
        places = range(self.places["solver"], self.places["solver"] + max(own, 0))
        self.places["solver"] += len(places)
        return [*draws, *self.solver.at(places, "train")]

    def _proposing(self, step: int) -> Draw:
        """Return the next proposing task, with earlier proposals as examples."""
        place, self.places["proposer"] = self.places["proposer"], self.places["proposer"] + 1
        [draw] = self.proposer.at([place], "train")
        rng = generator("examples", self.proposer.seed, place)
        examples = [self.past[int(n)] for n in rng.permutation(len(self.past))[:EXAMPLES]]
        env: Any = self.proposer.env.unwrapped
        task = replace(env.conditioned(draw.task, examples), id=f"propose/{step}/{place}")
        return replace(draw, task=task, env=self.proposer.name, attempts=self.attempts)

    def _proposed(self, final_observation: str) -> Data | None:
        env: Any = self.proposer.env.unwrapped
        return env.proposed(final_observation)

    async def _tasks_of(
        self, every: Sequence[tuple[int, int, Data | None]], step: int, room: int, run: Any
    ) -> dict[tuple[int, int], str | None]:
        """Return the task id of each proposal ("" if it is not played, None if it is invalid), equal in all processes.

        `every` lists the proposals of all processes as (group, attempt, data); the returned keys are (group, attempt).
        `room` is the maximum number of tasks to make of them.
        """
        ids: dict[tuple[int, int], str | None] = {entry[:2]: None for entry in every}
        fresh: list[tuple[tuple[int, int], str, Data]] = []
        for *place, data in every:
            key = "" if data is None else hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
            if data is not None and key not in self.known:
                self.known = [*self.known, key][-CAPACITY:]
                fresh.append(((place[0], place[1]), key, data))
        allowed = await self.checked([data for *_, data in fresh], step, run)
        for (place, key, data), passes in zip(fresh, allowed, strict=True):
            if passes is None:
                ids[place], self.known = "", [other for other in self.known if other != key]
            elif passes:
                played = sum(bool(id) for id in ids.values()) < room
                ids[place] = f"proposed/{step}/{self.tasks_made}" if played else ""
                if played:
                    self.tasks_made += 1
                    self.past = [*self.past, data][-CAPACITY:]
                    instruction = str(data.get("question", "Solve the puzzle."))
                    self.tasks[f"{ids[place]}"] = Task(
                        instruction, data, f"{ids[place]}", "train", self.solver.env.difficulty
                    )
        return ids

    def completed(self, groups: Sequence[GroupOutcome]) -> list[Episode]:
        """Return this process's proposals, rewarded by their solvers' results; proposals without results are left out."""
        rates = {group.task_id: sum(group.successes) / len(group.successes) for group in groups if group.successes}
        episodes: list[Episode] = []
        for episode, id in self.waiting:
            if id is None or id in rates:
                amount = self.invalid if id is None else self.worth(rates[id])
                episode.pay_last(amount, {"proposal": amount})
                episodes.append(episode)
        self.waiting = []
        return episodes

    def task(self, task_id: str) -> Task | None:
        """Return the task with this id if it was made in this step, as a proposal or to ask for proposals; else None."""
        return self.tasks.get(task_id)

    def measures(self, step: int) -> dict[str, float]:
        """Return the number of proposals so far that became tasks."""
        return {"tasks_proposed": self.tasks_made}

    def state_dict(self) -> dict[str, object]:
        """Return the positions in the streams and the proposals."""
        return {"places": self.places, "tasks_made": self.tasks_made, "past": json.dumps(self.past), "known": self.known}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self.places, self.tasks_made = dict(state["places"]), int(state["tasks_made"])
        self.past, self.known = json.loads(state["past"]), list(state["known"])


@sampler("absolute_zero", requires=("proposals",))
class AbsoluteZero(SelfProposed):
    """Lets the policy propose and solve puzzles; a proposal with success rate r is paid 1 - r, or 0 if r is 0 or 1.

    Source: Absolute Zero, arXiv 2505.03335, its learnability reward. Proposals of three types (deduction, abduction,
    induction) are validated by running them twice in a sandbox. Use credit `task_relative`, the paper's advantage
    estimator.

    Differences from the paper: it estimates r by separate rollouts and trains solvers on a sample of a buffer of
    proposals; here the trained solvers give r. Its format penalties are the option `invalid`. Its induction tasks start
    from a program in the buffer; here the proposer writes the program too. The buffer is used only for examples; the
    environment's own tasks, not earlier proposals, fill a step.
    """

    def worth(self, rate: float) -> float:
        """Return a proposal's reward: 1 - rate, or 0 if no solver or every solver succeeded."""
        return 1 - rate if 0 < rate < 1 else 0.0


@sampler("search_self_play", requires=("proposals",))
class SearchSelfPlay(SelfProposed):
    """Lets the policy write questions from its searches and answer them; a question with success rate r is paid 1 - r.

    Source: Search Self-play, arXiv 2510.18821. A question is valid if the policy answers it correctly without
    searching, given the documents that its proposer retrieved. These answers are not trained on. A question that fails
    this check is paid `invalid`.

    Differences from the paper: it fills a step with valid questions by more proposals or a buffer of earlier ones; here
    the environment's own tasks fill the step. Here a single answer decides the check. The paper trains the solver by
    GRPO and the proposer by REINFORCE; here one credit trains both, and `task_relative` with `norm="mean"` is REINFORCE
    with a baseline.
    """

    kind: ClassVar[type] = GatedProposalEnv

    def worth(self, rate: float) -> float:
        """Return a question's reward, 1 - rate, where `rate` is the success rate of its solvers."""
        return 1 - rate

    async def checked(self, proposals: list[Data], step: int, run: Any) -> Sequence[bool | None]:
        """Return, for each question, True if the policy answers it from the proposer's documents.

        False if the answer is wrong; None after a fault.
        """
        env: Any = self.proposer.env.unwrapped
        tasks = [replace(env.gate(data), id=f"check/{step}/{self.tasks_made}/{n}") for n, data in enumerate(proposals)]
        draws = [Draw(task, env=self.proposer.name, attempts=1) for task in tasks]
        played: list[Episode] = await run.rollouts.collect(run.share(draws), step)
        passed: dict[str, bool | None] = dict(run.gather([(e.task_id, e.success) for e in played]))
        return [passed.get(task.id) for task in tasks]
