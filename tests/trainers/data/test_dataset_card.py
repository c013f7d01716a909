"""Tables of episodes as datasets: one type a column in pandas and `datasets`, and a card that says what is in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recording_hub import hub

import agentgym
from agentgym.cli import main
from agentgym.errors import BadConfig
from agentgym.trainers.data.dataset_card import push


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played")
    for split in ("train", "test"):
        agentgym.collect(agentgym.ExpertAgent(), "rlvr/GuessNumber-v0", split=split, tasks=2, out=folder / "episodes.jsonl")
    household = {"split": "valid_unseen", "tasks": 1, "horizon": 2}
    agentgym.collect(agentgym.RandomAgent(), "rlvr/Household-v0", **household, out=folder / "episodes.jsonl")
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
    assert "| rlvr/GuessNumber-v0 | test | 2 |" in text and "| rlvr/Household-v0 | valid_unseen | 1 |" in text
    assert "**3 episodes are from held-out splits.**" in text and "5 different tasks" in text
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
        assert len({type(value) for value in table[name][table[name].notna()]}) <= 1, name
    read = datasets.load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert read.num_rows == 5 and read[0]["success"] is True
    assert agentgym.Episode.from_json(read[4]["episode"]).env == "rlvr/Household-v0"


def test_the_real_client_uploads_card_and_splits(played: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub, of the extra `train`, is not installed")
    datasets = pytest.importorskip("datasets", reason="datasets, of the extra `train`, is not installed")
    folder, out = tmp_path / "hub", tmp_path / "data.parquet"
    command = [sys.executable, "-m", "agentgym", "export", str(played), "--as", "episodes", "--out", str(out)]
    with hub(folder) as server:
        own = {
            "HF_ENDPOINT": server.url,
            "HF_TOKEN": "hf_secret",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HOME": str(tmp_path / "home"),
        }
        own |= {"HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
        words = [*command, "--push", "me/episodes", "--private"]
        done = subprocess.run(words, env=os.environ | own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[0] == f"{server.url}/datasets/me/episodes"
    assert [(one["name"], one["type"], one["visibility"]) for one in server.made] == [("episodes", "dataset", "private")]
    assert {token for method, _, token in server.requests if method == "POST"} == {"Bearer hf_secret"}
    uploaded = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    assert uploaded == ["README.md", *(f"data/{split}.parquet" for split in ("test", "train", "valid_unseen"))]
    text = (folder / "README.md").read_text()
    assert "| rlvr/GuessNumber-v0 | test | 2 |" in text and "**3 episodes are from held-out splits.**" in text
    read = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))  # by the card, as from the hub
    rows = {name: (part.num_rows, *set(part["split"])) for name, part in read.items()}
    assert rows == {"train": (2, "train"), "test": (2, "test"), "valid_unseen": (1, "valid_unseen")}
    whole = datasets.load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert sorted(whole["episode"]) == sorted(line for part in read.values() for line in part["episode"])


def test_a_hub_that_cannot_be_written_is_told_in_a_sentence(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadConfig, match="me/x could not be written"):
        push("me/x", export(played, tmp_path), "", private=True)
    assert main(["export", "x.jsonl", "--out", str(tmp_path / "data.parquet"), "--private"]) == 2
    assert "--private goes with --push" in capsys.readouterr().err
