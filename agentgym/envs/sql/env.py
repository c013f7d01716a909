"""The environment: a question, a read-only database, and one query as the answer."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar, cast

import numpy as np

from agentgym.core.actions import spell, tool
from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task, TextEnv
from agentgym.core.hints import guidance
from agentgym.core.seeding import generator
from agentgym.core.tasks import DRAWS
from agentgym.envs.sql import generate, hints, shortcuts, show
from agentgym.envs.sql.database import Database, QueryError, Result
from agentgym.envs.sql.families import FAMILIES
from agentgym.envs.sql.files import Questions, load
from agentgym.envs.sql.judge import RULES, comparison, holds_on, results
from agentgym.envs.sql.reader import next_action, slip
from agentgym.errors import BadConfig, BadData, Fault, UnknownName, no_such
from agentgym.rewards.sql_result import f1
from agentgym.tasks.reading import reading

Saved = tuple[str, dict[str, str], tuple[str, float] | None]
"""Snapshot: the schema as shown, query -> result as shown, and the submitted (query, F1) if any."""


class SQL(TextEnv):
    """Answer questions about a database with one SQL query.

    By default, schema, rows and question are generated. `split_key` is the schema and the query, so no question of `valid`
    or `test` occurs in `train`, on any database. Difficulty d uses question families of levels d - 2 to d (from d = 4 on, 2
    to 4): 0 has one table; 1 NULL, dates and order; 2 joins and groups; 3 subqueries; 4 windows. Tables have about
    8 + 4 d to 20 + 10 d rows, the number of conditions grows with d, and from d = 1 on, stored categories may have another
    letter case than in the question. `data` is a copy of Spider or BIRD (see `agentgym.envs.sql.files`).

    Reward: 1 for a query whose result equals the gold query's result on the visible database and on hidden databases with
    the same schema and other contents, else 0. Metrics: `f1` of the rows on the visible database, and `format` (1 for an
    answer whose query runs); both are 0 until such an answer.
    """

    horizon = 12
    hardest = 100
    difficulty = 2
    task_settings: ClassVar[tuple[str, ...]] = (
        "family",
        "show_schema",
        "rows_shown",
        "variants",
        "comparison",
        "strict",
        "ignore",
    )
    caller_settings: ClassVar[tuple[str, ...]] = ("data",)
    settings: ClassVar[tuple[str, ...]] = (*caller_settings, *task_settings)
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "tiny": {"difficulty": 0, "family": "one_table", "show_schema": True, "horizon": 3}
    }
    data: str | None = None
    """Folder of Spider or BIRD, or one of its files of questions; None: generated questions."""
    family: str = ""
    """Family of generated questions, or `one_table`: the simplest families, on one table; empty: all of the difficulty."""
    show_schema: bool = False
    """Show tables and columns in the first observation."""
    rows_shown: int = 20
    """Maximum number of rows of a result in an observation."""
    variants: int = 2
    """Number of generated databases with other contents on which answers to a file's questions are tested.

    They are used if no other published database changes the result of a question's gold query; a question is skipped if
    no generated database changes it, either. 0: test answers only on the published databases.
    """
    comparison: str = "published"
    """Comparison of answers to a file's questions: `published`, as in the data set's own evaluation, or `strict`.

    `strict` is the comparison for generated questions: DISTINCT and repeated rows count, and the order of rows counts if
    the gold query orders them.
    """
    strict: bool = False
    """Refuse a file with a bad row; by default bad rows are skipped, and a warning counts them."""
    ignore: Sequence[str] = ()
    """Columns to ignore; a file with text in any other unknown column is refused."""
    declared = Declarations(random_bound=0.01, expert_bound=0.95, answers=("gold",))

    def check_options(self) -> None:
        for name, least in (("rows_shown", 1), ("variants", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadConfig(f"{name} of SQL is {value!r}; expected an integer from {least}")
        if self.comparison not in RULES:
            raise UnknownName(no_such("comparison of SQL", self.comparison, RULES))
        if self.comparison == "strict" and self.data is None:
            raise BadConfig("comparison is 'strict' without data: generated questions are always compared so; leave it out")
        if self.family and self.family != "one_table" and self.family not in FAMILIES:
            raise UnknownName(no_such("family of SQL", self.family, ("one_table", *FAMILIES)))
        self.library: Questions | None = None
        self.blocking = self.data is not None  # a query on a large file may take seconds
        if self.data is not None:
            self.library = load(self.data, self.variants, self.comparison, reading(self.strict, self.ignore))
            self.splits = self.library.splits
        super().check_options()

    def setup(self) -> None:
        self._open: Database | None = None
        self._schema = ""
        self._seen: dict[str, str] = {}
        self._answer: tuple[str, float] | None = None

    # Tasks

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a question of any split."""
        return self._drawn(rng, difficulty, None)

    def split_key(self, task: Task) -> object:
        """Return the schema and query of a generated question, or the id of a file's question."""
        return (task.data["schema"], task.data["meaning"]) if "meaning" in task.data else task.id

    def split_of(self, task: Task) -> str:
        """Return the split: for a generated question by the hash of `split_key`, for a file's question as in the file."""
        return super().split_of(task) if "meaning" in task.data else task.split

    def content_key(self, task: Task) -> object:
        """Return the schema and query of a generated question, or the words and the database of a file's question."""
        return self.split_key(task) if "meaning" in task.data else (task.data["database"], task.data["question"])

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return the task with this number: generated, or from the file, where numbers wrap around at the end."""
        split, difficulty = self._split_for(number, split), self.difficulty if difficulty is None else difficulty
        if self.library is not None:
            tasks = self.library.of_split(split)
            return tasks[number % len(tasks)]
        task = self._drawn(generator("SQL", self.family, split, difficulty, number), difficulty, split)
        return dataclasses.replace(task, id=f"{split}/{difficulty}/{number}", split=split)

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        if self.library is None:
            return super().find(task_id)
        return self.library.find(task_id)

    def size(self, split: str | None = None) -> int | None:
        """Return the number of the file's questions in a split; None for generated questions."""
        return None if self.library is None else len(self.library.of_split(split or self.split))

    def _drawn(self, rng: np.random.Generator, difficulty: int, split: str | None) -> Task:
        """Return a random question of a split (None: any), with databases that distinguish right from wrong queries.

        Raises:
            BadConfig: no such question was found.
        """
        for _ in range(DRAWS):
            data = generate.draw(rng, difficulty, self.family)
            if data is None or (split is not None and self.split_of(Task(data=data)) != split):
                continue
            whole = generate.seeded(data, rng)
            if whole is not None:
                return Task(instruction=whole["question"], data=whole, difficulty=difficulty)
        raise BadConfig(
            f"SQL at difficulty {difficulty} found no question of family {self.family or 'any'!r} in {DRAWS} draws: "
            "choose another family or difficulty"
        )

    # The episode

    def begin(self, task: Task) -> str:
        self._close()
        self._schema, self._seen, self._answer = "", {}, None
        lines = [f"Question: {task.data['question']}"]
        if task.data.get("evidence"):
            lines.append(f"Evidence: {task.data['evidence']}")
        if "path" in task.data:
            show.tables(self._database)  # detects a damaged file before the episode starts
        if self.show_schema:
            self._schema = show.overview(self._database)
            lines.append(self._schema)
        else:
            lines.append(
                f"Answer it with one SQL query on the SQLite database {task.data.get('schema') or task.data['database']}."
            )
            lines.append("Inspect its schema, try queries, then give the final query as the answer.")
        if not task.data.get("spelled", True):
            lines.append(CAPITALS)
        return "\n".join(lines)

    @property
    def _database(self) -> Database:
        """The visible database, opened on demand."""
        if self._open is None:
            data = self.task.data
            self._open = _opened(Path(data["path"]) if "path" in data else generate.instances(data)[0])
        return self._open

    def _others(self) -> Iterator[Database]:
        """Yield the hidden databases; only one is open at a time."""
        if self.library is not None:
            contents: Iterable[bytes | Path] = self.library.hidden(self.task)
        else:
            contents = generate.instances(self.task.data)[1:]
        for content in contents:
            with closing(_opened(content)) as database:
                yield database

    def health_check(self) -> None:
        """Raise Fault if a database is damaged, or if the gold query fails on a database."""
        for database in (self._database, *self._others()):
            results(database, "SELECT 1", self.task.data, self.comparison)
            for name in show.tables(database):
                with suppress(QueryError):  # a view, a virtual table, or too large a table
                    database.run(f"SELECT COUNT(*) FROM {show.quoted(name)} NOT INDEXED")

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @tool
    def schema(self) -> str | Outcome:
        """Show the tables of the database with their columns."""
        self._schema = show.statements(self._database)
        return self._schema

    @tool
    def query(self, sql: str) -> str | Outcome:
        """Run a read-only SQL query and show the first rows of its result."""
        try:
            result = self._database.run(sql, first=show.COUNTED)
        except QueryError as error:
            return self._wrong(error)
        self._seen[sql] = show.table(result, self.rows_shown)
        return self._seen[sql]

    @tool
    def answer(self, sql: str) -> Outcome:
        """Give the final SQL query; its result must answer the question. This ends the episode."""
        try:
            result, gold = results(self._database, sql, self.task.data, self.comparison)
        except QueryError as error:
            return self._wrong(error)
        self._answer = sql, f1(result.rows, gold.rows)
        return self.win("The answer is correct.") if self._right(sql, result, gold) else self.lose("The answer is wrong.")

    def _right(self, sql: str, result: Result, gold_result: Result) -> bool:
        data = self.task.data
        rule = comparison(data, self.comparison)
        if not rule.same(result, gold_result):
            return False
        return holds_on(self._others(), sql, data, self.comparison, rule)

    def _wrong(self, error: QueryError) -> Outcome:
        return self.invalid(f"Error: {show.explained(str(error), self._database)}")

    def state(self) -> object:
        return bool(self._schema), sorted(self._seen), self._answer

    def measures(self) -> dict[str, float]:
        return {
            "f1": 0.0 if self._answer is None else self._answer[1],
            "format": 0.0 if self._answer is None else 1.0,
        }

    def save(self) -> Saved:
        return self._schema, dict(self._seen), self._answer

    def load(self, payload: object) -> None:
        self._close()
        self._schema, seen, self._answer = cast("Saved", payload)
        self._seen = dict(seen)

    # Policies

    def oracle(self) -> Iterator[str]:
        """Answer with the gold query."""
        yield spell("answer", self.task.data["gold"])

    def expert(self) -> Iterator[str]:
        """Parse the schema, the question and stored values, and write the query; only for generated questions."""
        if self.library is not None:
            raise NotImplementedError("the expert reads generated questions only; for files use oracle()")
        while True:
            spelled = self.task.data["spelled"]  # the first observation says so
            yield next_action(self.task.data["question"], self._schema, self._seen, spelled=spelled)

    def mistake(self, rng: np.random.Generator) -> str | None:
        """Return an answer with a plausible wrong query; None for a file's question, or before the schema was shown."""
        return None if self.library is not None else slip(self.task.data["question"], self._schema, rng)

    def ballot(self, answer: str) -> str | None:
        """Return a query's result on the visible database, so that equivalent queries agree; None if the query fails."""
        try:
            result = self._database.run(answer)
        except QueryError:
            return None
        return repr(sorted(map(repr, result.rows)))

    def hint(self, level: float) -> str:
        """Return hints that grow with `level` (0 to 1): the gold query's tables, joins and clauses; at 1, the query."""
        gold = self.task.data["gold"]
        return guidance(hints.steps(gold), level, lambda: f"A query that answers the question:\n{gold}", [gold])

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        return shortcuts.shortcuts()


def _opened(content: bytes | Path) -> Database:
    try:
        return Database(content)
    except BadData as error:
        raise Fault(str(error)) from error


CAPITALS = "Category values may be capitalized differently in the database."
