"""GSM8K- and MATH-style problems: files, folders, data sets, and what is wrong with them."""

import gzip
import json

import pytest

from agentgym.core.actions import spell
from agentgym.envs.math import Math
from agentgym.envs.math.files import load
from agentgym.envs.math.rows import boxed
from agentgym.errors import BadConfig, BadData, UnknownName
from agentgym.rewards.expressions import installed
from agentgym.tasks.reading import Reading

needs_math = pytest.mark.skipif(not installed(), reason="needs the extra `math`")
GSM8K = [
    {"question": "Tom has 20 boxes of 21 pens. How many?", "answer": "20 * 21 = <<20*21=420>>420\n#### 420"},
    {"question": "A house costs $1,234,000. And with 1,000 more?", "answer": "Add.\n#### 1,235,000"},
    {"question": "It falls by 7 from 3.", "answer": "#### -4"},
]
MATH = [
    {"problem": "Simplify $\\sqrt{8}$.", "solution": "So $\\boxed{4}$, no: $\\boxed{2\\sqrt{2}}$.", "level": "Level 3",
     "type": "Algebra"},
    {"problem": "Half of a third?", "solution": "$\\boxed{\\frac{1}{6}}$", "level": "Level 1", "type": "Algebra"},
    {"problem": "x?", "solution": "$\\boxed{\\left\\{1, \\frac{2}{3}\\right\\}}$.", "level": "Level ?", "type": "Algebra"},
    {"problem": "Old style?", "solution": "thus $\\boxed 7$.", "level": "Level 2", "type": "Geometry"},
]  # fmt: skip


def lines(path, records):
    text = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def test_gsm8k_lines(tmp_path) -> None:
    env = Math(data=lines(tmp_path / "test.jsonl", GSM8K), split="test")
    tasks = env.tasks(3)
    assert [(task.id, task.split, task.data["answer"]) for task in tasks] == [
        ("test/0", "test", "420"),
        ("test/1", "test", "1,235,000"),
        ("test/2", "test", "-4"),
    ]
    for task, answer in zip(tasks, ("420", "1235000", "$-4$"), strict=True):
        observation, _ = env.reset(options={"task": task})
        assert observation.startswith(task.data["problem"]) and "one number" in observation
        assert env.step(spell("answer", answer))[1] == 1.0
    env.reset(options={"task": "test/1"})
    assert env.step("answer[1,235]")[1:3] == (0.0, True)
    assert env.size() == 3 and env.numbered(4) == tasks[1]
    with pytest.raises(NotImplementedError, match="use oracle"):
        next(env.expert())


@needs_math
@pytest.mark.parametrize("name", ["MATH.jsonl", "MATH.jsonl.gz", "MATH.json"])
def test_math_lines_and_lists(tmp_path, name) -> None:
    path = lines(tmp_path / name, MATH)
    if name.endswith("json"):
        (tmp_path / name).write_text(json.dumps(MATH))
    env = Math(data=path, split="all")
    answers = [task.data["answer"] for task in env.tasks(4)]
    assert answers == ["2\\sqrt{2}", "\\frac{1}{6}", "\\left\\{1, \\frac{2}{3}\\right\\}", "7"]
    assert [task.difficulty for task in env.tasks(4)] == [3, 1, 0, 2]
    for task, answer in zip(env.tasks(4), ("sqrt(8)", "1/6", "\\{2/3, 1\\}", "7"), strict=True):
        env.reset(options={"task": task})
        assert env.step(spell("answer", answer))[1] == 1.0, answer


@needs_math
def test_math_folders_keep_their_splits(tmp_path) -> None:
    for number, record in enumerate(MATH):
        path = tmp_path / ("train" if number < 3 else "test") / record["type"].lower() / f"{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=2))
    env = Math(data=str(tmp_path), split="train")
    assert [task.id for task in env.tasks(3)] == ["train/algebra/0", "train/algebra/1", "train/algebra/2"]
    assert [task.id for task in Math(data=str(tmp_path), split="test").tasks(1)] == ["test/geometry/3"]
    assert env.splits == {"train": 0.75, "valid": 0.0, "test": 0.25, "all": 0.0}
    with pytest.raises(BadConfig, match="no problem of split 'valid'"):
        Math(data=str(tmp_path), split="valid").tasks(1)


def test_data_sets_by_name_or_folder(tmp_path) -> None:
    datasets = pytest.importorskip("datasets", reason="needs the library `datasets`")
    lines(tmp_path / "gsm" / "train.jsonl", GSM8K)
    lines(tmp_path / "gsm" / "test.jsonl", GSM8K[:1])
    datasets.disable_progress_bars()
    env = Math(data=f"datasets:{tmp_path / 'gsm'}", split="test")
    assert [task.data["answer"] for task in env.tasks(1)] == ["420"]
    assert Math(data=f"datasets:{tmp_path / 'gsm'}").size() == 3


def test_a_file_without_splits_is_split_by_ids(tmp_path) -> None:
    path = lines(tmp_path / "problems.jsonl", [{"question": f"{n}?", "answer": f"#### {n}"} for n in range(300)])
    sizes = {split: Math(data=path, split=split).size() for split in ("train", "valid", "test", "all")}
    assert sizes["all"] == 300 == sizes["train"] + sizes["valid"] + sizes["test"]
    assert sizes["train"] > 200 and sizes["valid"] > 10 and sizes["test"] > 10


def test_a_relative_path_is_looked_for_in_the_data_folder(tmp_path, monkeypatch) -> None:
    lines(tmp_path / "gsm" / "train.jsonl", GSM8K)
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    assert Math(data="gsm/train.jsonl").size() == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\\boxed{5}", "5"),
        ("a \\boxed{1} b \\boxed{\\frac{1}{\\sqrt{2}}} c", "\\frac{1}{\\sqrt{2}}"),
        ("\\fbox{7}", "7"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("\\boxed 5$.", "5"),
        ("\\boxed{5", None),
        ("no box", None),
        ("\\boxed{" + "{" * 5000, None),
    ],
)
def test_boxes(text, found) -> None:
    assert boxed(text) == found


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "holds no problem"),
        ([{"question": "?", "answer": "so ####"}], "line 1: nothing stands after the last ####"),
        ([{"question": " ", "answer": "#### 1"}], "line 1: question (or problem) is ' '; expected text"),
        ([GSM8K[0], {"question": "?"}], "line 2: the keys are ['question']; expected for example"),
        ([{"problem": "?", "solution": "no box"}], "the solution has no \\boxed{…}"),
        ([{**GSM8K[0], "id": 1}, {**GSM8K[1], "id": 1}], "line 2: the id '1' was given before"),
        ([{**GSM8K[0], "split": "all"}], "split 'all' is the name for everything"),
        ([[1, 2], {}], "expected a JSON object"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path, records, message) -> None:
    with pytest.raises(BadData) as error:
        load(lines(tmp_path / "problems.jsonl", records), Reading(strict=True))
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"{nonsense\n{}", b"\xff\xfe", b"[1, 2"])
def test_broken_files(tmp_path, content) -> None:
    (tmp_path / "problems.jsonl").write_bytes(content)
    with pytest.raises(BadData, match=r"problems\.jsonl"):
        load(str(tmp_path / "problems.jsonl"))
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 1000)[:-20])
    with pytest.raises(BadData, match="damaged or cut short"):
        load(str(tmp_path / "cut.jsonl.gz"))


def test_missing_files_and_names(tmp_path) -> None:
    with pytest.raises(BadData, match="say 'datasets:openai/gsm8k'"):
        load("openai/gsm8k")
    with pytest.raises(BadData, match="folder without files"):
        load(str(tmp_path))
    env = Math(data=lines(tmp_path / "train.jsonl", GSM8K))
    with pytest.raises(UnknownName, match="Did you mean 'train/1'"):
        env.find("train/11")
    with pytest.raises(UnknownName):
        Math(data=str(tmp_path / "train.jsonl"), split="dev")


def test_folders_of_links_are_read(tmp_path):
    real, folder = tmp_path / "real", tmp_path / "linked"
    (real / "test").mkdir(parents=True)
    (real / "test" / "a.jsonl").write_text('{"problem": "1 + 1?", "answer": "2"}\n')
    folder.mkdir()
    (folder / "test").symlink_to(real / "test")
    (folder / "test" / "back").symlink_to(folder)  # no circle
    assert [task.split for task in Math(data=str(folder), split="test").tasks(1)] == ["test"]
