"""Episodes and turns as tables: the numbers of an evaluation's folder in pandas, and the same columns in Parquet."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx2", reason="the extra `api` is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")
import loopback
import pandas

from agentgym.cli import main
from agentgym.episodes.episode import Episode, Turn
from agentgym.errors import BadConfig
from agentgym.evaluate import Price, to_pandas

USER = [{"role": "user", "content": "?"}]
COUNTED = {"prompt_tokens": 1000, "completion_tokens": 200}


def reply(finish: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": "7"}
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": COUNTED}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("frames")
    (there / "prices.toml").write_text('["m"]\ninput = 1\noutput = 10\n')
    with loopback.faulty([], then=reply("length")) as (_, url):
        command = ["eval", "guessnumber", "--model", f"chat:{url}#m", "--tasks", "2", "--horizon", "3"]
        assert main([*command, "--out", str(there / "e"), "--prices", str(there / "prices.toml")]) == 0
    return there / "e"


def test_a_folder_gives_tokens_seconds_finish_and_cost(folder: Path) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    episodes, turns = to_pandas(folder), to_pandas(folder, "turns")
    assert len(episodes) == 2 and len(turns) == episodes["turns"].sum() == summary["latency"]["requests"]
    for frame in (episodes, turns):
        assert frame["cost"].sum() == pytest.approx(summary["cost"]["total"]) and set(frame["finish"]) == {"length"}
        assert frame["input_tokens"].sum() == summary["usage"]["input"]
        assert frame["output_tokens"].sum() == summary["usage"]["output"]
        assert (frame["request_seconds"] > 0).all() and (frame["seconds"] >= frame["request_seconds"]).all()
    assert turns["cost"].iloc[0] == pytest.approx(0.003)  # 1,000 at 1 and 200 at 10 for a million


@pytest.mark.parametrize("form", ["episodes", "turns"])
def test_parquet_has_the_same_columns(form: Any, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    assert main(["export", str(folder), "--as", form, "--out", str(out)]) == 0
    stored, frame = pandas.read_parquet(out), to_pandas(folder, form)
    assert {*frame.columns} <= {*stored.columns}
    for name in ("cost", "finish", "input_tokens", "seconds"):
        assert stored[name].tolist() == frame[name].tolist()


def test_what_nobody_knows_is_missing_and_calls_are_counted_once() -> None:
    counted = {"prompt_tokens": 9, "completion_tokens": 2, "call": 0}
    turns = [Turn("o", messages=USER, extra=counted, seconds=2.0), Turn("o", messages=USER, extra={"call": 1}, seconds=1.0)]
    episodes = [Episode("e", "t", "g", 0, turns=turns), Episode("e", "u", "g", 0, turns=[Turn("o", action="look")])]
    frame = to_pandas(episodes, "turns", Price(1_000_000, 0))
    assert frame["input_tokens"].tolist()[0] == 9 and frame["input_tokens"].isna().tolist() == [False, True, True]
    frame = to_pandas(episodes)
    assert frame["cost"].isna().all() and frame["seconds"].tolist() == [3.0, 0.0] and frame["finish"].tolist()[0] == "stop"
    with pytest.raises(BadConfig, match="form of a table"):
        to_pandas(episodes, "steps")  # type: ignore[arg-type]
