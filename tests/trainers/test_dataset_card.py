"""Tables of episodes as datasets: one type a column in pandas and `datasets`, and a card that says what is in them."""

from pathlib import Path

import pytest

import agentgym
from agentgym.cli import main
from agentgym.errors import BadConfig
from agentgym.trainers.dataset_card import push


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    for split in ("train", "test"):
        agentgym.collect(agentgym.ExpertAgent(), "rlvr/GuessNumber-v0", split=split, tasks=2, out=folder / "episodes.jsonl")
    agentgym.collect(agentgym.RandomAgent(), "rlvr/Household-v0", tasks=1, horizon=2, out=folder / "episodes.jsonl")
    return folder / "episodes.jsonl"


def export(played: Path, folder: Path, *more: str) -> Path:
    out = folder / "data.parquet"
    assert main(["export", str(played), "--as", "episodes", "--out", str(out), *more]) == 0
    return out


def test_a_card_says_what_how_and_contamination(played: Path, tmp_path: Path) -> None:
    export(played, tmp_path, "--card", str(tmp_path / "README.md"))
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("---\nsize_categories:\n- n<1K\n")
    assert "5 rows of the form `episodes` from 5 episodes, 4 of them successes" in text
    assert "| rlvr/GuessNumber-v0 | test | 2 |" in text and "| rlvr/Household-v0 | train | 1 |" in text
    assert "**2 episodes are from held-out splits.**" in text and "5 different tasks" in text
    assert f"agentgym export --as episodes` of agentgym {agentgym.__version__}" in text
    export(played, tmp_path, "--split", "train", "--card", str(tmp_path / "README.md"))
    assert "No episode is of a split called test or valid." in (tmp_path / "README.md").read_text()


def test_pandas_and_datasets_read_columns_of_one_type(played: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets, of the extra `train`, is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    out = export(played, tmp_path)
    table = pandas.read_parquet(out)
    assert {str(kind) for kind in table.dtypes} <= {"object", "str", "float64", "int64", "uint64", "bool"}
    for name in table.columns:
        assert len({type(value) for value in table[name] if value is not None}) <= 1, name
    read = datasets.load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.num_rows == 5 and read[0]["success"] is True
    assert agentgym.Episode.from_json(read[4]["episode"]).env == "rlvr/Household-v0"


def test_a_hub_that_cannot_be_written_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadConfig, match="me/x could not be written"):
        push("me/x", tmp_path / "data.parquet", "", private=True)
    assert main(["export", "x.jsonl", "--out", str(tmp_path / "data.parquet"), "--private"]) == 2
    assert "--private goes with --push" in capsys.readouterr().err
