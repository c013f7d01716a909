"""Spider and BIRD in the layout they are published in, written small."""

import json
import sqlite3

import pytest
from sql_files import answer, bird, make_singers, spider

import agentgym
from agentgym.envs.sql.files import ordered
from agentgym.envs.sql.variants import variant
from agentgym.errors import BadConfig, BadData, Fault, UnknownName


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
    observation = env.step("query[SELECT name, age FROM singer WHERE age > 40]")[0]
    assert observation.endswith("rows)")
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
