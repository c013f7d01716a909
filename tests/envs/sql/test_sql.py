"""The environment of SQL: generated questions, their answers, and who plays."""

import ast
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from by_check import few, holds

import agentgym
from agentgym.contract import CHECKS, check
from agentgym.contract.solutions import finish, from_text
from agentgym.core.seeding import generator
from agentgym.envs.sql import generate
from agentgym.envs.sql.contents import content, tables_of
from agentgym.envs.sql.database import Database
from agentgym.envs.sql.families import FAMILIES, query
from agentgym.envs.sql.schemas import SCHEMAS
from agentgym.envs.sql.words import read


def make(**options):
    return agentgym.make("rlvr/SQL-v0", **options)


def play(env, task, *actions):
    env.reset(seed=0, options={"task": task})
    return [env.step(action) for action in actions][-1]


def generated(difficulty, n=12, **options):
    return make(difficulty=difficulty, **options).tasks(n)


def test_there_are_ten_schemas_whose_tables_can_be_made():
    assert len(SCHEMAS) == 10
    for name, schema in SCHEMAS.items():
        assert (
            len(schema.tables) == 4 and sum(column.kind == "reference" for t in schema.tables for column in t.columns) >= 3
        )
        database = Database(content(name, 3, 30, "plain"))
        for table in schema.tables:
            rows = database.run(f"SELECT * FROM {table.name}").rows
            assert len(rows) >= 6
            for at, column in enumerate(table.columns, 1):
                values = [row[at] for row in rows]
                assert (None in values) <= column.nullable
                if column.kind == "category":
                    assert set(values) - {None} <= set(column.values)
                if column.counts:
                    assert all(column.low <= value <= column.high for value in values if value is not None)
                if column.target:
                    keys = {row[0] for row in database.run(f"SELECT id FROM {column.target}").rows}
                    assert set(values) - {None} <= keys


def test_contents_have_what_makes_questions_hard():
    database = Database(content("library", 5, 40, "upper"))
    names = [row[0] for row in database.run("SELECT name FROM authors").rows]
    assert max(Counter(names).values()) > 1, "no two names alike"
    assert any(name + "s" in names for name in names), "no names that differ by a letter"
    assert database.run("SELECT COUNT(*) FROM books WHERE rating IS NULL").rows[0][0] > 0
    assert database.run("SELECT COUNT(*) FROM members WHERE id NOT IN (SELECT member_id FROM loans)").rows[0][0] > 0
    assert {row[0] for row in database.run("SELECT genre FROM books").rows} <= {
        "CRIME",
        "POETRY",
        "TRAVEL",
        "SCIENCE",
        "HISTORY",
        "ROMANCE",
    }
    assert content("library", 5, 40, "upper") == content.__wrapped__("library", 5, 40, "upper")
    assert [table.name for table in tables_of("library", "books")] == ["books"]
    assert Database(content("library", 5, 40, "plain", "books")).run("SELECT * FROM books").columns == (
        "id", "title", "genre", "year", "pages", "price", "rating",
    )  # fmt: skip


@pytest.mark.parametrize("difficulty", [0, 1, 2, 4, 7])
def test_wrong_queries_lose_and_the_right_one_wins(difficulty):
    env = make(difficulty=difficulty)
    for task in env.tasks(6):
        assert len(task.data["wrong"]) >= 2
        assert play(env, task, f"answer[{task.data['gold']}]")[1:3] == (1.0, True), task.data["question"]
        for wrong in task.data["wrong"]:
            _, reward, terminated, _, info = play(env, task, f"answer[{wrong}]")
            assert (reward, terminated, info["success"]) == (0.0, True, False), (task.data["question"], wrong)


def test_the_result_itself_is_no_answer():
    env = make(difficulty=2)
    for task in env.tasks(12):
        rows = Database(generate.instances(task.data)[0]).run(task.data["gold"]).rows
        values = ", ".join("(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows)
        env.reset(seed=0, options={"task": task})
        constant = f"answer[VALUES {values}]" if not task.data["ordered"] else f"answer[SELECT * FROM (VALUES {values})]"
        assert env.step(constant)[4]["success"] is False
        assert env.info()["metrics"]["f1"] == 1.0  # on the shown database it is all right


def test_one_column_more_or_in_another_order_is_another_answer():
    env = make(family="groups", difficulty=2)
    task = env.tasks(1)[0]
    gold = task.data["gold"]
    inner = gold.replace(", COUNT(*)", " AS a, COUNT(*) AS b", 1)
    assert play(env, task, f"answer[SELECT a, b FROM ({inner})]")[1] == 1.0
    assert play(env, task, f"answer[SELECT b, a FROM ({inner})]")[1] == 0.0
    assert play(env, task, f"answer[SELECT a, b, b FROM ({inner})]")[1] == 0.0


def test_order_counts_where_it_was_asked_for():
    env = make(family="top", difficulty=1)
    for task in env.tasks(3):
        assert task.data["ordered"]
        column = task.data["gold"].split()[1]
        reverse = (
            f"SELECT {column} FROM (SELECT {column}, ROW_NUMBER() OVER () AS n FROM ({task.data['gold']})) ORDER BY n DESC"
        )
        assert play(env, task, f"answer[{reverse}]")[1] == 0.0
    free = make(family="list", difficulty=0)
    task = free.tasks(1)[0]
    assert play(free, task, f"answer[{task.data['gold']} ORDER BY 1 DESC]")[1] == 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_tasks_and_is_read_back(family):
    level = FAMILIES[family].level
    for task in make(family=family, difficulty=level).tasks(4):
        schema = SCHEMAS[task.data["schema"]]
        frame = read(task.data["question"], schema)
        assert frame is not None and frame.family == family
        assert query(frame, schema) == task.data["meaning"]


def test_hand_counted_answers():
    """Queries of frames over rows made by hand, against results worked out by hand."""
    database = sqlite3.connect(":memory:")
    script, _, questions = (Path(__file__).parent / "sql_questions.txt").read_text(encoding="utf-8").partition("\n\n")
    database.executescript(script)
    lines = questions.splitlines()
    assert len(lines) == 2 * 21
    for question, written in zip(lines[::2], lines[1::2], strict=True):
        rows = ast.literal_eval(written)
        frame = read(question, SCHEMAS["library"])
        assert frame is not None, question
        exact = FAMILIES[frame.family].ordered
        for way in ("DROP INDEX IF EXISTS other", "CREATE INDEX other ON books (year, title DESC)"):
            database.execute(way)  # the order in which SQLite visits rows says nothing
            database.execute("PRAGMA reverse_unordered_selects = " + ("0" if "DROP" in way else "1"))
            found = database.execute(query(frame, SCHEMAS["library"])).fetchall()
            assert (found if exact else sorted(found, key=str)) == (rows if exact else sorted(rows, key=str)), question


def test_splits_ask_different_questions():
    questions_by_split = {}
    for split in ("train", "valid", "test"):
        for task in make(split=split, preset="tiny").tasks(30):
            assert questions_by_split.setdefault((task.data["schema"], task.data["meaning"]), split) == split


def test_tools_answer_and_help():
    env = make(difficulty=2)
    task = env.tasks(1)[0]
    observation, info = env.reset(seed=0, options={"task": task})
    assert observation.startswith(f"Question: {task.data['question']}\n") and "CREATE" not in observation
    schema = env.step("schema[]")[0]
    table = tables_of(task.data["schema"])[0]
    assert f"CREATE TABLE {table.name} (" in schema and schema.count("CREATE TABLE") == 4
    text = env.step(f"query[SELECT id FROM {table.name} ORDER BY id]")[0]
    assert text.splitlines()[0] == "id" and text.splitlines()[-1].endswith("rows)")
    observation, _, terminated, _, info = env.step(f"answer[SELECT {table.columns[0].name}x FROM {table.name}]")
    assert not terminated and not info["valid"]
    assert f"Did you mean {table.columns[0].name}?" in observation
    assert "Did you mean" in env.step(f"query[SELECT 1 FROM {table.name}s]")[0]
    assert 'near "x": syntax error' in env.step("query[SELECT 1 FRM x]")[0]
    assert "a single read-only query" in env.step("query[DROP TABLE x]")[0]
    many = env.step("query[WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM t) SELECT x FROM t]")[0]
    assert many.endswith("(the first 20 of more than 1000 rows)") and len(many.splitlines()) == 22
    odd = env.step("query[SELECT NULL, 1.5, x'00ff', 'a' || char(10) || char(27) || 'b', printf('%1900d', 1)]")[0]
    assert odd.splitlines()[1].startswith("NULL | 1.5 | x'00ff' | a\\x0a\\x1bb | ") and len(odd) < 9000
    assert env.step("query[SELECT 1 WHERE 0]")[0].endswith("(0 rows)")


def test_tiny_shows_what_is_needed_at_once():
    env = make(preset="tiny")
    task = env.tasks(1)[0]
    observation, _ = env.reset(seed=0, options={"task": task})
    table = SCHEMAS[task.data["schema"]].by_name[task.data["table"]].alone()
    question, overview = observation.splitlines()
    assert question == f"Question: {task.data['question']}"
    assert overview.startswith(f"{table.name} ") and all(f"{column.name} " in overview for column in table.columns)


@pytest.mark.parametrize("options", [{"preset": "tiny"}, {"difficulty": 1}, {"difficulty": 3}, {"difficulty": 6}])
def test_oracle_and_expert_win_and_shortcuts_do_not(options):
    env = make(split="test", **options)
    tasks = env.tasks(5)
    policies = {
        "oracle": (lambda environment, *_: next(environment.oracle()), 1.0),
        "expert": (lambda environment, *_: next(environment.expert()), 1.0),
        **{name: (from_text(shortcut), 0.0) for name, shortcut in env.shortcuts().items()},
    }
    for name, (policy, rate) in policies.items():
        won = 0
        for task in tasks:
            _, info = env.reset(seed=0, options={"task": task})
            finish(env, policy, info)
            won += env.success is True
        assert won == rate * len(tasks), name


def test_the_expert_looks_how_categories_are_spelled():
    env = make(difficulty=1, family="count")
    looked = 0
    for task in env.tasks(30):
        env.reset(seed=0, options={"task": task})
        actions = []
        while env.success is None:
            actions.append(next(env.expert()))
            env.step(actions[-1])
        assert env.success is True
        looked += any(action.startswith("query[SELECT DISTINCT") for action in actions)
    assert looked > 3


def test_options_are_checked():
    for options in ({"family": "cont"}, {"rows_shown": 0}, {"variants": -1}, {"data": "/nowhere"}):
        with pytest.raises((ValueError, LookupError)):
            make(**options)


def test_tiny_keeps_the_contract_on_one_task():
    under_test = few("rlvr/SQL-v0", preset="tiny")
    for name in CHECKS:
        holds(under_test, name, not_checked=("admissible is valid",))


@pytest.mark.slow
def test_tiny_keeps_the_contract():
    report = check("rlvr/SQL-v0", preset="tiny")
    assert report.ok, str(report)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"preset": "tiny"}, *({"difficulty": d} for d in (0, 1, 2, 3, 4, 6))])
def test_oracle_and_expert_win_on_many(options):
    env = make(split="test", **options)
    for task in env.tasks(200):
        for policy in (env.oracle, env.expert):
            env.reset(seed=0, options={"task": task})
            while env.success is None:
                env.step(next(policy()))
            assert env.success is True, task.data["question"]


def test_drawing_is_a_function_of_the_seed():
    assert generate.draw(generator("a"), 3, "") == generate.draw(generator("a"), 3, "")
