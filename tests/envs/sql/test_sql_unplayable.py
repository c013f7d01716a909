"""Questions of SQL files that are not played: guessed without looking, decided by nothing, or under rules of their own."""

import json
import sqlite3

import pytest
from sql_files import answer, spider

import agentgym
from agentgym.core.actions import spell
from agentgym.errors import BadData

POINTS = [(f"How old is singer {i}?", f"SELECT age FROM singer WHERE singer_id = {i}") for i in range(1, 31)] + [
    (f"When was concert {i}?", f"SELECT year FROM concert WHERE concert_id = {i}") for i in range(1, 31)
]
RARE = [
    ("Who is older than 200?", "SELECT name FROM singer WHERE age > 200"),
    ("Who is called Nobody?", "SELECT singer_id FROM singer WHERE name = 'Nobody'"),
    ("Who was born like X?", "SELECT name FROM singer WHERE name LIKE '%Zork%'"),
    ("How many singers are older than 200?", "SELECT count(*) FROM singer WHERE age > 200"),
    ("How many concerts in 1901?", "SELECT count(*) FROM concert WHERE year = '1901'"),
    (
        "How many concerts in 1901 by singers above 90?",
        "SELECT count(*) FROM concert AS T2 JOIN singer AS T1 ON T1.singer_id = T2.singer_id "
        "WHERE T2.year = '1901' AND T1.age > 90",
    ),
    ("Average age of the old?", "SELECT avg(age) FROM singer WHERE age BETWEEN 150 AND 160"),
]


def constant(path, gold):
    """Return a query that says the shown result without asking anything."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(gold).fetchall()
    literals = [", ".join("NULL" if v is None else repr(v) for v in row) for row in rows]
    return " UNION ALL ".join(f"SELECT {row}" for row in literals) or "SELECT 1 WHERE 0"


def test_no_constant_answers_a_question_of_a_file(tmp_path):
    folder = spider(tmp_path / "spider", POINTS + RARE)
    path = folder / "database" / "singers" / "singers.sqlite"
    env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")
    assert env.size() == len(POINTS + RARE)
    won = {name: 0 for name in ("constant", "empty", "zero", "null")}
    for number, (_, gold) in enumerate(POINTS + RARE):
        won["constant"] += answer(env, number, constant(path, gold))[1]
        won["empty"] += answer(env, number, "SELECT 1 WHERE 0")[1]
        won["zero"] += answer(env, number, "SELECT 0")[1]
        won["null"] += answer(env, number, "SELECT NULL")[1]
        assert answer(env, number, gold)[1] == 1.0
    assert won == {"constant": 0, "empty": 0, "zero": 0, "null": 0}


def test_a_question_that_no_contents_change_is_not_played(tmp_path):
    questions = [("What is one?", "SELECT 1 FROM singer WHERE age > 500 AND age < 400"), POINTS[0]]
    folder = spider(tmp_path / "spider", questions)
    with pytest.warns(UserWarning, match="1 of 2 questions of split 'dev' are not played"):
        env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")
        assert env.size() == 1 and env.tasks(1)[0].id == "dev/1"
    with pytest.raises(BadData, match="a constant would be as good"):
        env.find("dev/0")
    assert agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", variants=0).size() == 2
    alone = spider(tmp_path / "alone", questions[:1])
    with pytest.raises(BadData, match="none of 1 questions"), pytest.warns(UserWarning):
        agentgym.make("rlvr/SQL-v0", data=str(alone), split="dev").tasks(1)


OTHERS = {
    "WikiSQL": {"phase": 1, "table_id": "1-2", "question": "Who?", "sql": {"sel": 0, "conds": [], "agg": 0}},
    "Spider 2": {"instance_id": "local1", "db": "singers", "question": "Who?", "external_knowledge": None},
    "KaggleDBQA": {"db_id": "Pesticide", "query": "SELECT 1", "question": "Who?"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_sets_with_rules_of_their_own_are_refused_by_name(tmp_path, name):
    folder = spider(tmp_path)
    (folder / "dev.json").write_text(json.dumps([OTHERS[name]]))
    with pytest.raises(BadData, match=f"is a file of {name}"):
        agentgym.make("rlvr/SQL-v0", data=str(folder))
    (folder / "dev.json").unlink()
    (folder / "dev.jsonl").write_text(json.dumps(OTHERS[name]) + "\n" + json.dumps(OTHERS[name]) + "\n")
    with pytest.raises(BadData, match=f"is a file of {name}"):
        agentgym.make("rlvr/SQL-v0", data=str(folder))


def test_a_bad_question_is_left_out_and_counted_and_unread_text_refused(tmp_path):
    folder = spider(tmp_path)
    rows = json.loads((folder / "dev.json").read_text())
    rows[1]["question"], rows[0]["context"] = "", "Singers are people."
    (folder / "dev.json").write_text(json.dumps(rows))
    with pytest.warns(UserWarning, match=r"1 of 4 rows are not played.*question 1"):
        env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", variants=0)
    assert env.find("dev/0").instruction == "Singers are people.\n\nHow many singers are there?"
    with pytest.raises(BadData, match="question 1: question is ''"):
        agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", strict=True)
    rows[2]["legend"] = "Names are short."
    (folder / "dev.json").write_text(json.dumps(rows))
    with pytest.raises(BadData, match="column 'legend'"):
        agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")


def test_a_gold_query_too_long_without_distinct_is_compared_as_written(tmp_path):
    many = ", ".join(["singer AS a", *(f"singer AS {name}" for name in "bcde")])  # 30 ** 5 rows, 30 of them different
    folder = spider(tmp_path, [("Ages?", f"SELECT DISTINCT a.singer_id FROM {many}")])
    env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", variants=0)
    for sql, success in (("SELECT singer_id FROM singer", True), ("SELECT age FROM singer", False)):
        env.reset(seed=0)
        info = env.step(spell("answer", sql))[4]
        assert info["success"] is success and env.health_check() is None
