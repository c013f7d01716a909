"""Data of one split alone: it is played where it is asked for, and no other stands in for the training split."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import agentgym
from agentgym import UnknownName
from agentgym.cli import main
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.run.stages import FreshRun, Stages

QUESTION = {"id": "q", "question": "Who?", "golden_answers": ["Ann"]}


def questions(folder: Path) -> dict[str, str]:
    (folder / "musique").mkdir()
    (folder / "musique" / "dev.jsonl").write_text(json.dumps(QUESTION) + "\n")
    (folder / "corpus.jsonl").write_text(json.dumps({"id": "0", "contents": '"Ann"\nAnn it is.'}) + "\n")
    return {"corpus": str(folder / "corpus.jsonl"), "questions": str(folder / "musique")}


def spider(folder: Path) -> dict[str, str]:
    (folder / "database" / "a").mkdir(parents=True)
    with closing(sqlite3.connect(folder / "database" / "a" / "a.sqlite")) as database, database:
        database.execute("create table t (name text, x int)")
        database.executemany("insert into t values (?, ?)", [("a", 3), ("b", 5), ("c", 8)])
    row = {"db_id": "a", "question": "Whose x is 5?", "query": "select name from t where x = 5"}
    (folder / "dev.json").write_text(json.dumps([row]))
    return {"data": str(folder)}


@pytest.mark.parametrize(
    ("name", "write"), [("rlvr/Search-v0", questions), ("rlvr/SearchR1-v0", questions), ("rlvr/SQL-v0", spider)]
)
def test_a_folder_may_have_only_the_split_that_is_asked_for(name: str, write, tmp_path: Path) -> None:
    options = write(tmp_path)
    env = agentgym.make(name, **options)
    assert list(env.splits) == ["dev", "all"] and env.size("dev") == 1
    flags = [word for key, value in options.items() for word in (f"--env.{key}", value)]
    assert (
        main(["eval", name, "--policy", "oracle", "--split", "dev", "--quiet", "--out", str(tmp_path / "out"), *flags]) == 0
    )
    with pytest.raises(UnknownName, match=r"'train'. Known: all, dev"):
        env.reset(seed=0)
    with pytest.raises(UnknownName, match="'train'"):
        agentgym.make(name, split="train", **options)
    config = TrainConfig(env=name, env_options=options)
    with pytest.raises(UnknownName, match=r"\(train_split\): 'train'. Known: all, dev"):  # and not `dev` in its place
        _ = FreshRun(config, Stages(config)).envs
