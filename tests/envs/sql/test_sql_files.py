"""Spider and BIRD in the layout they are published in, written small."""

import json
import sqlite3

import pytest

import agentgym
from agentgym.core.actions import spell
from agentgym.envs.sql.files import ordered
from agentgym.envs.sql.variants import variant
from agentgym.errors import BadConfig, BadData, Fault, UnknownName

SINGERS = """
PRAGMA foreign_keys = OFF;
CREATE TABLE "singer" ("Singer_ID" int, "Name" text, "Age" int, PRIMARY KEY ("Singer_ID"));
CREATE TABLE "concert" ("concert_ID" int, "Singer_ID" int, "Year" text, PRIMARY KEY ("concert_ID"),
  FOREIGN KEY ("Singer_ID") REFERENCES "singer"("Singer_ID"));
"""


def make_singers(path, shift=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(SINGERS)
    for i in range(1, 31):
        connection.execute("INSERT INTO singer VALUES (?, ?, ?)", (i, f"Name {i % 11}", 20 + (i * 7 + shift) % 30))
        connection.execute("INSERT INTO concert VALUES (?, ?, ?)", (i, 1 + (i * 3) % 20, str(2014 + i % 3)))
    connection.commit()
    connection.close()
    return path


def spider(folder, questions=None, suite=0):
    """Write a copy of Spider: dev.json with the keys it has, tables.json, database/NAME/NAME.sqlite."""
    asked = questions or [
        ("How many singers are there?", "SELECT count(*) FROM singer"),
        ("Show name and age of all singers older than 40.", "SELECT name, age FROM singer WHERE age  >  40"),
        ("List names from the oldest.", "SELECT name FROM singer ORDER BY age DESC, singer_id"),
        (
            "Which singers have a concert?",
            "SELECT DISTINCT T1.name FROM singer AS T1 JOIN concert AS T2 ON T1.singer_id = T2.singer_id",
        ),
    ]
    records = [
        {"db_id": "singers", "query": sql, "query_toks": sql.split(), "question": q, "question_toks": q.split(), "sql": {}}
        for q, sql in asked
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dev.json").write_text(json.dumps(records), encoding="utf-8")
    (folder / "tables.json").write_text("[]", encoding="utf-8")
    make_singers(folder / "database" / "singers" / "singers.sqlite")
    for number in range(suite):
        make_singers(folder / "database" / "singers" / f"singers_v{number}.sqlite", shift=number + 1)
    return folder


def bird(folder):
    """Write a copy of BIRD: dev.json with evidence and SQL, dev_databases/NAME/NAME.sqlite, dev_gold.sql."""
    records = [
        {
            "question_id": 0,
            "db_id": "singers",
            "question": "What share of singers is old?",
            "evidence": "old refers to Age > 40",
            "SQL": "SELECT CAST(SUM(CASE WHEN `Age` > 40 THEN 1 ELSE 0 END) AS REAL) / COUNT(*) FROM singer",
            "difficulty": "moderate",
        },
        {
            "question_id": 1,
            "db_id": "singers",
            "question": "Years since the first concert?",
            "evidence": "",
            "SQL": "SELECT strftime('%Y', CURRENT_TIMESTAMP) - MIN(Year) FROM concert",
            "difficulty": "simple",
        },
    ]
    folder.mkdir(parents=True)
    (folder / "dev.json").write_text(json.dumps(records), encoding="utf-8")
    (folder / "dev_gold.sql").write_text("", encoding="utf-8")
    make_singers(folder / "dev_databases" / "singers" / "singers.sqlite")
    return folder


def answer(env, number, sql):
    env.reset(seed=0, options={"task": number})
    return env.step(f"answer[{sql}]")


def test_spider_is_played(tmp_path):
    env = agentgym.make("rlvr/SQL-v0", data=str(spider(tmp_path / "spider")), split="dev")
    assert env.size() == 4 and env.find("dev/2").data["ordered"] and not env.find("dev/3").data["ordered"]
    for number in range(4):
        env.reset(seed=0, options={"task": number})
        assert 'CREATE TABLE "singer"' in env.step("schema[]")[0]
        assert env.step(next(env.oracle()))[1] == 1.0
    assert answer(env, 0, "SELECT 30")[1] == 0.0  # right on the whole database, wrong on a part of it
    assert answer(env, 1, "SELECT age, name FROM singer WHERE age > 40")[1] == 1.0  # any order of columns, as its test suite
    assert answer(env, 1, "SELECT name, age FROM singer WHERE age > 41 ORDER BY age")[1] == 0.0
    assert answer(env, 2, "SELECT name FROM singer ORDER BY age")[1] == 0.0


IN = "name FROM singer WHERE singer_id IN (SELECT singer_id FROM concert)"
JOIN = "name FROM singer AS T1 JOIN concert AS T2 ON T1.singer_id = T2.singer_id"


def test_spiders_own_rule_drops_distinct_and_a_stricter_one_keeps_it(tmp_path):
    """Its evaluation (exec_eval.py of 2022-08-02) compares both queries without DISTINCT: 30 rows of the join, 20 of IN."""
    folder = str(spider(tmp_path / "spider"))
    published = agentgym.make("rlvr/SQL-v0", data=folder, split="dev")
    strict = agentgym.make("rlvr/SQL-v0", data=folder, split="dev", comparison="strict")
    for sql, of_spider, ours in (
        (f"SELECT T1.{JOIN}", 1.0, 0.0),
        (f"SELECT DISTINCT T1.{JOIN}", 1.0, 1.0),
        (f"SELECT {IN}", 0.0, 0.0),
        (f"SELECT DISTINCT {IN}", 0.0, 1.0),
    ):
        assert (answer(published, 3, sql)[1], answer(strict, 3, sql)[1]) == (of_spider, ours), sql
    with pytest.raises(UnknownName, match="loose"):
        agentgym.make("rlvr/SQL-v0", data=str(tmp_path / "spider"), comparison="loose")
    with pytest.raises(BadConfig, match="leave it out"):
        agentgym.make("rlvr/SQL-v0", comparison="strict")


def test_spider_counts_order_where_the_gold_query_says_order_by_anywhere(tmp_path):
    gold = "SELECT name, age FROM singer WHERE age > (SELECT age FROM singer ORDER BY age LIMIT 1)"
    folder = str(spider(tmp_path / "spider", [("q", gold), ("ties", "SELECT name FROM singer ORDER BY age > 30")]))
    published = agentgym.make("rlvr/SQL-v0", data=folder, split="dev", variants=0)
    strict = agentgym.make("rlvr/SQL-v0", data=folder, split="dev", variants=0, comparison="strict")
    turned = gold.replace("FROM singer WHERE", "FROM (SELECT * FROM singer ORDER BY singer_id DESC) WHERE")
    assert (answer(published, 0, turned)[1], answer(strict, 0, turned)[1]) == (0.0, 1.0)
    ties = "SELECT name FROM singer ORDER BY age > 30, singer_id DESC"  # as right an order of the ties as the gold query's
    assert (answer(published, 1, ties)[1], answer(strict, 1, ties)[1]) == (0.0, 0.0)
    assert answer(published, 0, gold.replace("age > (", "age > ("))[1] == 1.0
    assert answer(published, 0, gold.replace(">", "> ="))[1] == 0.0  # it runs: as `>=`


def test_birds_own_rule_is_of_sets(tmp_path):
    folder = bird(tmp_path / "dev")
    questions = json.loads((folder / "dev.json").read_text())
    golds = ["SELECT name FROM singer ORDER BY age, singer_id", "SELECT name, age FROM singer", "SELECT 0.1 + 0.2"]
    for number, gold in enumerate(golds):
        questions.append({**questions[0], "question_id": 10 + number, "SQL": gold})
    (folder / "dev.json").write_text(json.dumps(questions))
    published = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", variants=0)
    strict = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", variants=0, comparison="strict")
    for task, sql, of_bird, ours in (
        ("10", "SELECT name FROM singer", 1.0, 0.0),  # no order
        ("10", "SELECT DISTINCT name FROM singer", 1.0, 0.0),  # no repetition
        ("10", "SELECT name FROM singer WHERE singer_id > 11", 1.0, 0.0),  # the same eleven names
        ("10", "SELECT name FROM singer WHERE singer_id > 22", 0.0, 0.0),
        ("11", "SELECT age, name FROM singer", 0.0, 0.0),  # columns have an order
        ("12", "SELECT 0.3", 0.0, 1.0),  # floats to the last digit
    ):
        assert (answer(published, task, sql)[1], answer(strict, task, sql)[1]) == (of_bird, ours), (task, sql)


def test_alone_the_published_database_decides(tmp_path):
    env = agentgym.make("rlvr/SQL-v0", data=str(spider(tmp_path / "spider")), split="dev", variants=0)
    assert answer(env, 0, "SELECT 30")[1] == 1.0


def test_a_test_suite_beside_the_database_is_used(tmp_path):
    env = agentgym.make("rlvr/SQL-v0", data=str(spider(tmp_path / "spider", suite=2)), split="dev")
    assert len(list(env.library.hidden(env.find("dev/1")))) == 2  # ages differ there
    assert len(list(env.library.hidden(env.find("dev/0")))) == 4  # all have 30 singers: variants are tried besides
    env.reset(seed=0, options={"task": 1})
    shown = env.step("query[SELECT name, age FROM singer WHERE age > 40]")[0]
    assert shown.endswith("rows)")
    assert answer(env, 1, "SELECT name, age FROM singer WHERE age > 40")[1] == 1.0
    ages = "SELECT name, age FROM singer WHERE singer_id IN (SELECT singer_id FROM singer WHERE age > 41)"
    assert answer(env, 1, ages)[1] == 0.0


def test_bird_is_played_with_its_evidence(tmp_path):
    env = agentgym.make("rlvr/SQL-v0", data=str(bird(tmp_path / "dev_20240627")), split="dev")
    observation, _ = env.reset(seed=0, options={"task": "0"})
    assert "Question: What share of singers is old?\nEvidence: old refers to Age > 40\n" in observation
    assert env.task.difficulty == 1
    assert answer(env, 0, "SELECT AVG(Age > 40) FROM singer")[1] == 1.0
    assert answer(env, 0, "SELECT AVG(Age >= 40) FROM singer")[1] == 0.0
    assert answer(env, 1, "SELECT 2024 - MIN(Year) FROM concert")[1] == 1.0  # the clock stands still
    assert env.size() == 2 and list(env.splits) == ["dev", "all"]


def test_files_keep_the_contract(tmp_path):
    from agentgym.contract import check

    folder = spider(tmp_path / "spider")
    checks = ["same again", "same elsewhere", "equal keys", "oracle solves", "oracle recovers", "snapshots elsewhere"]
    report = check(
        "rlvr/SQL-v0", data=str(folder), split="dev", checks=[*checks, "nasty actions", "info schema", "splits are disjoint"]
    )
    assert report.ok, str(report)


def test_variants_keep_references_whole(tmp_path):
    path = make_singers(tmp_path / "singers.sqlite")
    before = path.read_bytes()
    sizes = set()
    for number in range(2):
        made = variant(path, number)
        assert made is not None
        copy = sqlite3.connect(":memory:")
        copy.deserialize(made)
        rows = copy.execute("SELECT COUNT(*) FROM singer").fetchone()[0]
        assert 15 <= rows < 30
        assert copy.execute("PRAGMA foreign_key_check").fetchall() == []
        assert copy.execute(
            "SELECT COUNT(*) FROM concert WHERE Singer_ID NOT IN (SELECT Singer_ID FROM singer)"
        ).fetchone() == (0,)
        sizes.add(tuple(copy.execute("SELECT Singer_ID FROM singer")))
    assert len(sizes) == 2 and path.read_bytes() == before


def test_references_that_cannot_be_followed_make_no_variant(tmp_path):
    path = tmp_path / "odd.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE a (x int); CREATE TABLE b (x int REFERENCES a(x)); INSERT INTO b VALUES (1)")
    connection.close()
    assert variant(path, 0) is None


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM t order  by a LIMIT 3", True),
        ("SELECT a FROM t WHERE b = (SELECT b FROM t ORDER BY c LIMIT 1)", False),
        ("SELECT RANK() OVER (ORDER BY a) FROM t", False),
        ("SELECT a FROM t WHERE b = 'in order by name (first'", False),
        ("SELECT a FROM t WHERE b = ')' ORDER BY a", True),
    ],
)
def test_order_is_asked_for_outside_of_brackets(sql, expected):
    assert ordered(sql) is expected


def test_damaged_databases_end_one_episode(tmp_path):
    folder = spider(tmp_path / "spider")
    good = folder / "database" / "singers" / "singers.sqlite"
    bad = folder / "database" / "broken" / "broken.sqlite"
    bad.parent.mkdir()
    whole = bytearray(good.read_bytes())
    whole[4096:12288] = b"\x5a" * 8192  # header and schema are fine, the pages behind them are not
    bad.write_bytes(whole)
    worse = folder / "database" / "worse" / "worse.sqlite"
    worse.parent.mkdir()
    worse.write_bytes(b"<html>404</html>" * 500)
    records = json.loads((folder / "dev.json").read_text())
    records += [{**records[0], "db_id": "broken"}, {**records[0], "db_id": "worse"}]
    (folder / "dev.json").write_text(json.dumps(records))
    env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")
    env.reset(seed=0, options={"task": 4})
    _, _, terminated, truncated, info = env.step("query[SELECT * FROM singer, concert]")
    assert (terminated, truncated, info["success"], info["reason"]) == (False, True, None, "crash")
    assert "broken.sqlite is damaged" in info["error"]
    with pytest.raises(Fault, match=r"worse\.sqlite.*not a database"):
        env.reset(seed=0, options={"task": 5})
    assert answer(env, 0, "SELECT count(*) FROM singer")[1] == 1.0
    episodes = agentgym.collect(
        agentgym.OracleAgent(), "rlvr/SQL-v0", tasks=env.tasks(6), env_options={"data": str(folder), "split": "dev"}
    )
    ends = {episode.task_id: (episode.success, episode.reason) for episode in episodes}
    assert ends == {f"dev/{i}": (True, "success") for i in range(4)} | {f"dev/{i}": (None, "crash") for i in (4, 5)}


def test_views_and_virtual_tables_that_cannot_be_read_do_not_end_an_episode(tmp_path):
    folder = spider(tmp_path / "spider")
    connection = sqlite3.connect(folder / "database" / "singers" / "singers.sqlite")
    connection.executescript(
        "CREATE VIEW broken AS SELECT gone FROM nowhere; CREATE VIRTUAL TABLE notes USING fts5(text);"
        "CREATE VIEW dated AS SELECT strftime('%Y', '2020-01-01') AS year FROM singer;"
        + "".join(f"CREATE TABLE filler{i} (a{'x' * 40} int);" for i in range(80))
    )
    connection.close()
    for show_schema in (False, True):
        env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", show_schema=show_schema)
        env.reset(seed=0, options={"task": 0})
        assert "broken" in env.step("schema[]")[0]
        assert "not allowed" in env.step("query[SELECT * FROM notes]")[0]
        assert "no such table: sinners. Did you mean singer?" in env.step("query[SELECT 1 FROM sinners]")[0]
        assert env.step("query[SELECT DISTINCT year FROM dated]")[0] == "year\n2020\n(1 row)"


def test_a_gold_query_that_fails_is_a_fault(tmp_path):
    folder = spider(tmp_path / "spider", [("Broken?", "SELECT nothing FROM singer")])
    env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")
    _, _, _, truncated, info = answer(env, 0, "SELECT 1")
    assert truncated and info["success"] is None and "the gold query fails" in info["error"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[{]", "line 1"),
        ("{}", "expected a list"),
        ("[]", "no question"),
        ("[3]", "question 0: '3'; expected an object"),
        ('[{"db_id": "singers", "question": "x"}]', "no query, only db_id, question"),
        ('[{"db_id": "../singers", "question": "x", "query": "SELECT 1"}]', "plain name"),
        ('[{"db_id": "nobody", "question": "x", "query": "SELECT 1"}]', "no database 'nobody'"),
    ],
)
def test_bad_files_say_where(tmp_path, content, words):
    folder = spider(tmp_path / "spider")
    (folder / "dev.json").write_text(content)
    with pytest.raises(BadData, match=words):
        agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")


def test_folders_without_questions_and_splits_that_are_not_there(tmp_path, monkeypatch):
    with pytest.raises(BadData, match="no questions of Spider or BIRD"):
        agentgym.make("rlvr/SQL-v0", data=str(tmp_path))
    spider(tmp_path / "spider")
    with pytest.raises(LookupError, match="dev"):
        agentgym.make("rlvr/SQL-v0", data=str(tmp_path / "spider"), split="test")
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    assert agentgym.make("rlvr/SQL-v0", data="spider/dev.json", split="dev").size() == 4
    with pytest.raises((BadData, BadConfig)):
        agentgym.make("rlvr/SQL-v0", data="spider/none.json", split="dev")


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
    asked = [("What is one?", "SELECT 1 FROM singer WHERE age > 500 AND age < 400"), POINTS[0]]
    folder = spider(tmp_path / "spider", asked)
    with pytest.warns(UserWarning, match="1 of 2 questions of split 'dev' are not played"):
        env = agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev")
        assert env.size() == 1 and env.tasks(1)[0].id == "dev/1"
    with pytest.raises(BadData, match="a constant would be as good"):
        env.find("dev/0")
    assert agentgym.make("rlvr/SQL-v0", data=str(folder), split="dev", variants=0).size() == 2
    alone = spider(tmp_path / "alone", asked[:1])
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
