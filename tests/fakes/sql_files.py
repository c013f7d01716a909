"""Small copies of Spider and BIRD in the layout they are published in."""

import json
import sqlite3

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
    rows = questions or [
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
        for q, sql in rows
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
