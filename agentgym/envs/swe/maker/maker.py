"""The maker of tasks from a repository: it tries bugs one by one and keeps those that make valid tasks."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from agentgym.envs.swe.maker.candidates import Candidate, combined, reverted, single
from agentgym.envs.swe.maker.code import Splice
from agentgym.envs.swe.maker.edits import edits_between
from agentgym.envs.swe.maker.issue import gives_away, write_issue
from agentgym.envs.swe.maker.journal import Journal
from agentgym.envs.swe.maker.survey import Survey, survey
from agentgym.envs.swe.maker.trial import Workbench, repaired, try_bug
from agentgym.envs.swe.tasks.instance import Instance, Repository, edited
from agentgym.envs.swe.tasks.pytest_run import PytestSandbox
from agentgym.envs.swe.tasks.source import digest
from agentgym.errors import BadData

MOST_IN_ONE_PLACE = 4
"""Maximum number of tasks with bugs in the same functions."""


@dataclass(frozen=True)
class MakerOptions:
    """Options of the maker."""

    count: int = 50
    """Number of tasks to make; fewer if no more are found."""
    combined: float = 0.2
    """Share of tasks with several bugs at once."""
    bugs: int = 2
    """Number of bugs in a task with several bugs."""
    attempts: int = 20
    """Maximum number of bugs tried per task to make."""
    seed: int = 0
    split: str = "train"
    mutate: bool = True
    """Use mutations; without them, bugs come only from the older version."""


@dataclass
class MakerResult:
    """The tasks made, the survey of the repository's tests, and counts of the rejected bugs."""

    instances: list[Instance] = field(default_factory=list[Instance])
    survey: Survey = field(default_factory=lambda: Survey((), (), 0, 0.0, False))
    rejected: Counter[str] = field(default_factory=Counter[str])
    """Number of rejected bugs, by reason."""


class Maker:
    """Makes tasks from one repository.

    `repository` is (name, source, files). `open_sandbox` and `close_sandbox` manage the sandboxes that run tests, `say`
    receives progress messages, and `journal` is the path of the log of verdicts.
    """

    def __init__(
        self,
        repository: tuple[str, str, Mapping[str, bytes]],
        plan: MakerOptions,
        *,
        open_sandbox: Callable[[], PytestSandbox],
        close_sandbox: Callable[[PytestSandbox], None],
        workers: int = 1,
        journal: Path,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name, self.source, self.tree = repository
        self.plan, self.say, self.workers = plan, say, workers
        self.tasks = MakerResult()
        self._bench = lambda: Workbench(open_sandbox, close_sandbox)
        self._benches: dict[int, Workbench] = {}
        self._journal_path = journal
        self._accepted: list[Candidate] = []
        self._seen: set[tuple[frozenset[str], tuple[str, ...]]] = set()
        self._places: Counter[tuple[str, ...]] = Counter()
        self._noticed: dict[tuple[str, Splice], tuple[str, ...]] = {}
        """(path, splice) of each accepted single mutation -> the tests that fail with it."""

    def make(self, older: Mapping[str, bytes] | None = None) -> MakerResult:
        """Make the tasks and return them; reversions to `older`, an older version of the repository, are tried first.

        Raises:
            BadData: the repository's tests are unusable, or no task was found.
        """
        bench = self._bench()
        try:
            self.tasks.survey = survey(self.name, self.tree, (bench.sandbox(0), bench.sandbox(1)), self.say)
        finally:
            bench.close()
        tests = self.tasks.survey
        self.repository = Repository(self.name, self.source, digest(self.tree), self.plan.split, tests.tests, tests.conftest)
        old = {} if older is None else {"older": digest(older)}
        settings = {"digest": self.repository.digest, "tests": list(tests.tests), **asdict(self.plan), **old}
        journal = Journal(self._journal_path, settings)
        done = False
        try:
            self._try_all(journal, older)
            done = True
        finally:
            journal.close(done=done)
        if not self.tasks.instances:
            why = ", ".join(f"{count} because {reason}" for reason, count in self.tasks.rejected.most_common(4))
            raise BadData(
                f"{self.name}: none of {sum(self.tasks.rejected.values())} bugs made a task: {why or 'nothing to change'}"
            )
        return self.tasks

    def _try_all(self, journal: Journal, older: Mapping[str, bytes] | None) -> None:
        plan = self.plan
        several = round(plan.count * plan.combined) if plan.mutate else 0
        firsts = [reverted(self.tree, older)] if older is not None else []
        singles = chain(*firsts, *([single(self.tree, plan.seed)] if plan.mutate else []))
        pool = ThreadPoolExecutor(self.workers, "swe-make")
        try:
            self._consume(pool, singles, plan.count - several, journal)
            self._consume(pool, combined(self._accepted, plan.bugs, plan.seed), plan.count, journal)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            for bench in self._benches.values():
                bench.close()

    def _consume(self, pool: ThreadPoolExecutor, candidates: Iterator[Candidate], count: int, journal: Journal) -> None:
        """Process verdicts in candidate order, so that the tasks do not depend on the number of threads."""
        left: deque[tuple[Candidate, Future[dict[str, Any]]]] = deque()
        attempts = self.plan.attempts * max(count, 1)
        try:
            for candidate in candidates:
                if len(self.tasks.instances) >= count or attempts <= 0:
                    break
                if self._places[candidate.places] >= MOST_IN_ONE_PLACE:
                    continue
                attempts -= 1
                known = journal.verdicts.get(candidate.key)
                left.append((candidate, pool.submit(self._verdict, candidate, known)))
                while left and len(left) > 2 * self.workers:
                    self._take(*left.popleft(), count, journal)
            while left:
                self._take(*left.popleft(), count, journal)
        finally:
            for _, future in left:
                future.cancel()

    def _take(self, candidate: Candidate, future: Future[dict[str, Any]], count: int, journal: Journal) -> None:
        verdict = future.result()
        journal.keep(candidate.key, verdict)
        if len(self.tasks.instances) >= count:
            return
        if verdict["rejected"]:
            self.tasks.rejected[verdict["rejected"]] += 1
        else:
            self._accept(candidate, verdict)
        self.say(
            f"{len(self.tasks.instances)} of {self.plan.count} tasks, {sum(self.tasks.rejected.values())} bugs rejected"
        )

    def _accept(self, candidate: Candidate, verdict: Mapping[str, Any]) -> None:
        instance = self._instance(candidate, verdict["fail_to_pass"], verdict["issue"])
        key = (frozenset(instance.fail_to_pass), candidate.places)
        if key in self._seen:
            self.tasks.rejected["another bug in the same place fails the same tests"] += 1
            return
        if self._places[candidate.places] >= MOST_IN_ONE_PLACE:
            self.tasks.rejected["there are enough bugs in that place"] += 1
            return
        self._seen.add(key)
        self._places[candidate.places] += 1
        self._accepted.append(candidate)
        if len(candidate.parts) == 1:
            self._noticed[candidate.parts[0].path, candidate.parts[0].splice] = instance.fail_to_pass
        self.tasks.instances.append(instance)

    def _instance(self, candidate: Candidate, fail_to_pass: list[str], issue: str) -> Instance:
        tests = self.tasks.survey.tests
        return Instance(
            id=f"{self.name}-{candidate.key[:10]}",
            repository=self.repository,
            issue=issue,
            bug=edits_between(self.tree, {**self.tree, **candidate.files}),
            fail_to_pass=tuple(fail_to_pass),
            pass_to_pass=tuple(test for test in tests if test not in set(fail_to_pass)),
            kind=candidate.kind,
            difficulty=2 * (candidate.bugs - 1) + (len(fail_to_pass) <= 2),
            seconds=self.tasks.survey.seconds,
        )

    # Run in the threads

    def _verdict(self, candidate: Candidate, known: dict[str, object] | None) -> dict[str, object]:
        if known is not None:
            return {name: value for name, value in known.items() if name != "key"}
        tests = self.tasks.survey
        bench = self._benches.setdefault(threading.get_ident(), self._bench())
        trial = try_bug(bench, {**self.tree, **candidate.files}, tests, candidate.kind)
        if trial.rejected:
            return {"rejected": trial.rejected}
        described = self._described_tests(candidate, trial.fail_to_pass)
        if not described:
            return {"rejected": "one of its bugs hides another"}
        issue = write_issue(self.tree, described, trial.messages, tests.tests)
        changed = {path: (self.tree[path].decode(), content.decode()) for path, content in candidate.files.items()}
        if not issue or gives_away(issue, trial.fail_to_pass, changed):
            return {"rejected": "every hint about it would give it away"}
        instance = self._instance(candidate, list(trial.fail_to_pass), issue)
        if edited(self.tree, instance.bug) != {**self.tree, **candidate.files}:
            return {"rejected": "its edits do not lead to it"}
        wrong = repaired(bench, instance, tests)
        return {"rejected": wrong, "fail_to_pass": list(trial.fail_to_pass), "issue": issue}

    def _described_tests(self, candidate: Candidate, failing: tuple[str, ...]) -> list[str]:
        """Return the failing tests.

        With several bugs, the list begins with one test per bug that fails with this bug and with none of the others;
        the list is empty if a bug has no such test.
        """
        own = [set(self._noticed.get((part.path, part.splice), ())) & set(failing) for part in candidate.parts]
        if len(own) < 2:
            return list(failing)
        alone = [mine.difference(*(other for other in own if other is not mine)) for mine in own]
        if not all(alone):
            return []
        firsts = [next(test for test in failing if test in mine) for mine in alone]
        return [*firsts, *(test for test in failing if test not in firsts)]
