"""Documents and questions from files: small made-up ones with every kind of corruption, and the genuine sample."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.search import Search
from agentgym.envs.search.files import load_hotpot, load_lines
from agentgym.errors import BadConfig, BadData, UnknownName
from agentgym.retrieval.documents import Document, words
from agentgym.retrieval.memory import Corpus
from agentgym.tasks.reading import Reading

CONTEXT = [["Ada", ["Ada wrote notes. ", "She lived in London."]], ["Babbage", ["He built engines."]], ["Cat", ["A pet."]]]
STRICT = Reading(strict=True)
QUESTION: dict[str, Any] = {
    "_id": "q1",
    "question": "Who built engines?",
    "answer": "Babbage",
    "supporting_facts": [["Babbage", 0], ["Ada", 1], ["Babbage", 1]],
    "context": CONTEXT,
}
COLUMNS = {"title": [title for title, _ in CONTEXT], "sentences": [sentences for _, sentences in CONTEXT]}


def hotpot(folder: Path, *records: Any, name: str = "hotpot.json") -> str:
    (folder / name).write_text(json.dumps(list(records)))
    return str(folder / name)


def lines(folder: Path, corpus: str, questions: str) -> tuple[str, str]:
    (folder / "c.jsonl").write_text(corpus)
    (folder / "q.jsonl").write_text(questions)
    return str(folder / "c.jsonl"), str(folder / "q.jsonl")


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"context": COLUMNS, "supporting_facts": {"title": ["Babbage", "Ada"], "sent_id": [0, 1]}},
        {"context": repr(COLUMNS), "supporting_facts": repr({"title": ["Babbage", "Ada"], "sent_id": [0, 1]})},
        {"context": repr(CONTEXT), "supporting_facts": repr([("Babbage", 0), ("Ada", 1)])},
    ],
    ids=["lists", "columns", "literals of columns", "literals of lists"],
)
def test_hotpot_in_all_its_forms(tmp_path: Path, form: dict[str, Any]) -> None:
    library = load_hotpot(hotpot(tmp_path, {**QUESTION, **form}))
    assert [(d.title, d.text) for d in library.corpus.documents] == [
        ("Ada", "Ada wrote notes. She lived in London."),
        ("Babbage", "He built engines."),
        ("Cat", "A pet."),
    ]
    (task,) = library.tasks
    assert task.id == "q1" and task.data == {
        "question": "Who built engines?",
        "answers": ["Babbage"],
        "evidence": ["1", "0"],
    }


def test_the_corpus_is_the_union_of_all_paragraphs(tmp_path: Path) -> None:
    other = {**QUESTION, "_id": "q2", "context": [*CONTEXT[:2], ["Dog", ["Barks."]]], "supporting_facts": [["Dog", 0]]}
    library = load_hotpot(hotpot(tmp_path, QUESTION, other))
    assert [d.title for d in library.corpus.documents] == ["Ada", "Babbage", "Cat", "Dog"]
    assert library.by_id["q2"].data["evidence"] == ["3"]


def test_hotpot_in_json_lines_and_without_ids(tmp_path: Path) -> None:
    plain = {key: value for key, value in QUESTION.items() if key not in ("_id", "supporting_facts")}
    (tmp_path / "dev.jsonl").write_text(f"{json.dumps(plain)}\n\n{json.dumps(plain)}\n")
    library = load_hotpot(str(tmp_path / "dev.jsonl"))
    assert [(task.id, task.data["evidence"]) for task in library.tasks] == [("dev/0", []), ("dev/1", [])]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"question": ""}, r"question 1: question is ''; expected text"),
        ({"answer": {}}, r"answer is empty; expected a list of texts"),
        ({"context": None}, r"context is 'None'; expected a list"),
        ({"context": "__import__('os').abort()"}, r"not a Python literal; expected a list"),
        ({"context": "[['Ada', ['cut"}, r"not a Python literal"),
        ({"context": "(" * 5000}, r"not a Python literal"),
        ({"context": "-" * 200_000 + "1"}, r"not a Python literal"),
        ({"context": "1" * 1_000_001}, r"at most 1000000"),
        ({"context": [["Ada"]]}, r"expected a list of \[title"),
        ({"context": [["Ada", "one string"]]}, r"context holds 'Ada'"),
        ({"context": {"title": ["Ada"], "sentences": []}}, r"context is"),
        ({"supporting_facts": [["Nobody", 0]]}, r"'Nobody' is not among the titles"),
        ({"supporting_facts": 3}, r"supporting_facts is '3'"),
        ({"supporting_facts": [[1, 2]]}, r"a title in supporting_facts"),
        ({"_id": ["x"]}, r"_id is"),
        ({"split": "all"}, r"split 'all' is the name for the whole file"),
    ],
)
def test_bad_hotpot_records_are_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadData, match=words) as error:
        load_hotpot(hotpot(tmp_path, {**QUESTION, **change}), STRICT)
    assert str(tmp_path / "hotpot.json") in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'[{"question": "a",\n "answer": ', "line 2: Expecting value"),
        (b"", "line 1: Expecting value"),
        (b"[]", "holds no question"),
        (b"3", "a JSON int; expected a list"),
        (b"[3]", "question 1: '3'; expected an object"),
        (b'["\xff"]', "in UTF-8"),
        (b"[" * 100_000, "expected a JSON list"),
    ],
)
def test_bad_hotpot_files(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(BadData, match=words):
        load_hotpot(str(tmp_path / "x.json"))


def test_an_id_given_twice(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="question 2: the id 'q1' was given before"):
        load_hotpot(hotpot(tmp_path, QUESTION, QUESTION), STRICT)


CORPUS = '{"id": "0", "contents": "\\"Ada\\"\\nAda wrote notes."}\n{"id": 1, "title": "Babbage", "text": "Built engines."}\n'
ASKED = '{"id": "a", "question": "Who wrote notes?", "golden_answers": ["Ada", "Lovelace"], "supporting_titles": ["Ada"]}\n'


def test_json_lines_in_both_layouts(tmp_path: Path) -> None:
    env = Search(**dict(zip(("corpus", "questions"), lines(tmp_path, CORPUS, ASKED), strict=True)), split="all")
    assert env.tasks(1)[0].data == {"question": "Who wrote notes?", "answers": ["Ada", "Lovelace"], "evidence": ["0"]}
    observation, _ = env.reset(options={"task": "a"})
    assert "collection of 2 documents" in observation
    listed, _, _, _, info = env.step("search[notes]")
    assert listed == 'Doc 1(Title: "Ada") Ada wrote notes.' and info["metrics"]["evidence"] == 1.0
    assert env.step("open[babbage]")[0] == "Babbage\nBuilt engines."
    assert env.step("answer[The Lovelace]")[1] == 1.0
    with pytest.raises(UnknownName, match="no question 'b'"):
        env.find("b")
    with pytest.raises(NotImplementedError, match="oracle"):
        next(env.expert())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: Expecting property name"),
        ('{"id": "7", "contents": "\\"T\\"\\ntext"', "line 2: Expecting"),
        ("[1]", "line 2: '[1]'; expected a JSON object"),
        ('{"contents": "x"}', "line 2: id is 'None'; expected a text or a whole number"),
        ('{"id": "7"}', "line 2: a document with the keys ['id']; expected"),
        ('{"id": "7", "title": "T"}', "expected {\"id\", \"contents\"} or"),
        ('{"id": "7", "contents": 3}', "line 2: contents is '3'; expected text"),
        ('{"id": "0", "contents": "x"}', "line 2: the id '0' was given before"),
    ],
)  # fmt: skip
def test_bad_corpus_lines(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(BadData) as error:
        load_lines(*lines(tmp_path, CORPUS.split("\n")[0] + "\n" + line + "\n", ASKED))
    assert words in str(error.value) and "c.jsonl" in str(error.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"id": "b", "golden_answers": ["x"]}', "line 2: no question, only golden_answers, id; expected for example"),
        ('{"id": "b", "question": "q"}', "line 2: no golden_answers, answers or answer; expected for example"),
        ('{"id": "b", "question": "q", "golden_answers": []}', "line 2: golden_answers is empty"),
        ('{"quest": "q", "answer": "x"}', 'line 2: no question, only answer, quest; expected for example {"question": "Who'),
        ('{"id": "b", "question": "q", "golden_answers": [""]}', "expected a list of texts"),
        ('{"id": "b", "question": "q", "golden_answers": "x"}', "expected a list of texts"),
        ('{"id": "a", "question": "q", "golden_answers": ["x"]}', "line 2: the id 'a' was given before"),
        ('{"question": "q", "golden_answers": ["x"], "supporting_titles": ["Zoo"]}', "'Zoo' is the title of no document"),
        ('{"question": "q", "golden_answers": ["x"], "split": 3}', "split is '3'; expected text"),
    ],
)
def test_bad_question_lines(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(BadData) as error:
        load_lines(*lines(tmp_path, CORPUS, ASKED + line), STRICT)
    assert words in str(error.value) and "q.jsonl" in str(error.value)


def test_empty_and_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadData, match="holds no document"):
        load_lines(*lines(tmp_path, "\n", ASKED))
    with pytest.raises(BadData, match="holds no question"):
        load_lines(*lines(tmp_path, CORPUS, ""))
    with pytest.raises(BadData, match=r"no file 'nowhere.json'.*AGENTGYM_DATA"):
        Search(data="nowhere.json")
    hotpot(tmp_path, QUESTION, name="mine.json")
    monkeypatch.setenv("AGENTGYM_DATA", str(tmp_path))
    assert len(load_hotpot("mine.json").tasks) == 1


def test_compressed_and_damaged_files(tmp_path: Path) -> None:
    _, questions = lines(tmp_path, CORPUS, ASKED)
    packed = gzip.compress((CORPUS * 1).encode())
    (tmp_path / "c.jsonl.gz").write_bytes(packed)
    assert load_lines(str(tmp_path / "c.jsonl.gz"), questions).corpus.size == 2
    for name, content in (("cut", packed[:-12]), ("flipped", packed[:15] + b"\xff\xff\xff" + packed[18:]), ("no", b"plain")):
        (tmp_path / f"{name}.gz").write_bytes(content)
        with pytest.raises(BadData, match="damaged or cut short"):
            load_lines(str(tmp_path / f"{name}.gz"), questions)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    assert len(load_hotpot(hotpot(tmp_path, QUESTION)).tasks) == 1
    assert len(load_hotpot(hotpot(tmp_path, QUESTION, {**QUESTION, "_id": "q2"})).tasks) == 2


def test_lone_surrogates_become_characters(tmp_path: Path) -> None:
    corpus, questions = lines(
        tmp_path, '{"id": "0", "contents": "T\\ud800\\nx \\udfff y"}\n', ASKED.replace('["Ada"]', "[]")
    )
    document = load_lines(corpus, questions).corpus.documents[0]
    (document.title + document.text).encode()


def test_splits_of_files(tmp_path: Path) -> None:
    many = "".join(json.dumps({"question": f"q{i}", "golden_answers": ["x"]}) + "\n" for i in range(200))
    corpus, questions = lines(tmp_path, CORPUS, many)
    sizes: dict[str, list[str]] = {}
    for split in ("train", "valid", "test", "all"):
        env = Search(corpus=corpus, questions=questions, split=split)
        tasks = env.library.of_split(split) if env.library else []
        sizes[split] = [task.id for task in tasks]
        assert all(env.split_of(task) == task.split for task in tasks)
        assert env.tasks(3) == tasks[:3]
    assert sorted(sizes["train"] + sizes["valid"] + sizes["test"]) == sorted(sizes["all"]) and len(sizes["all"]) == 200
    assert 140 < len(sizes["train"]) < 180
    with pytest.raises(BadConfig, match="201 were asked for"):
        Search(corpus=corpus, questions=questions, split="all").tasks(201)

    named = "".join(
        json.dumps({"question": f"q{i}", "golden_answers": ["x"], "split": s}) + "\n" for i, s in enumerate("aab")
    )
    (tmp_path / "named.jsonl").write_text(named)
    env = Search(corpus=corpus, questions=str(tmp_path / "named.jsonl"), split="a")
    assert list(env.splits) == ["a", "b", "all"] and len(env.tasks(2)) == 2
    with pytest.raises(UnknownName, match="no split of Search 'train'"):
        Search(corpus=corpus, questions=str(tmp_path / "named.jsonl")).reset()
    corpus, questions = lines(tmp_path, CORPUS, ASKED)
    empty = next(s for s in ("train", "valid", "test") if s != load_lines(corpus, questions).tasks[0].split)
    with pytest.raises(BadConfig, match="split 'all' is the whole file"):
        Search(corpus=corpus, questions=questions, split=empty).reset()


def test_titles_that_several_documents_share() -> None:
    corpus = Corpus([Document("a", "Same", "one red"), Document("b", "Same", "two"), Document("c", "Other", "red red")])
    one, two, three = corpus.documents
    assert corpus.titled("same") == [one, two] and corpus.titled("b") == corpus.titled("zz") == []
    assert corpus.find("b") == two and corpus.find("zz") is None
    assert found(corpus, "red", 3) == ["c", "a"] and found(corpus, "Same", 5) == ["b", "a"]  # shorter first
    assert not corpus.unique(one) and corpus.unique(three)
    assert found(Corpus([Document("a", "?", "!")]), "red", 3) == []


def found(corpus: Corpus, query: str, count: int) -> list[str]:
    return [hit.document.id for hit in corpus.search([query], count)[0]]


def test_the_best_of_many_documents_is_what_a_full_sort_gives() -> None:
    corpus = Corpus([Document(str(i), f"t{i}", "red " * (i % 7) + "blue") for i in range(5000)])
    index, vocabulary = corpus._indexes[0]
    scores = index.get_scores_from_ids([vocabulary["red"], vocabulary["blue"]])
    best = sorted(range(5000), key=lambda n: (-scores[n], n))
    assert found(corpus, "red blue", 20) == [str(n) for n in best[:20]]
    assert found(corpus, "red blue", 9000) == [str(n) for n in best]
    assert words("It's naïve, isn't it?") == ["it", "s", "naïve", "isn", "t", "it"]


def genuine() -> str:
    shared = os.environ.get("AGENTGYM_SHARED")
    folder = Path(shared) if shared else Path(__file__).parents[4] / "shared"
    return str(folder / "data" / "hotpotqa_dev_distractor_100.json")


@pytest.mark.skipif(not Path(genuine()).is_file(), reason="the sample of HotpotQA is not beside the checkout")
def test_the_genuine_sample() -> None:
    env = Search(data=genuine(), split="all")
    tasks = env.tasks(100)
    assert len(tasks) == 100 and env.library is not None and env.library.corpus.size == 991
    assert tasks[0].data["question"] == "Were Scott Derrickson and Ed Wood of the same nationality?"
    evidence = 0.0
    for task in tasks:
        assert len(task.data["evidence"]) == 2
        env.reset(options={"task": task})
        evidence += env.step(f"search[{task.instruction}]")[4]["metrics"]["evidence"]
        for action in list(env.oracle()):
            last = env.step(action)
        assert last[1] == 1.0 and last[4]["metrics"]["evidence"] == 1.0
    assert evidence > 50  # the question alone finds more than half of the paragraphs
