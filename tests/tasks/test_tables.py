"""Files that people have: tables, and texts with a byte order mark."""

import gzip
import json

import pytest

from agentgym.envs.math.files import load as load_math
from agentgym.envs.search.files import load_lines
from agentgym.errors import BadData
from agentgym.tasks.lines import decoded, objects

BOM = "\ufeff"
CORPUS = '{"id": "1", "title": "Emma", "text": "A novel by Jane Austen."}\n'


def written(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return str(path)


@pytest.mark.parametrize("name", ["q.csv", "q.csv.gz"])
@pytest.mark.parametrize("mark", ["", BOM])
def test_a_table_is_read_by_its_header(name, mark, tmp_path):
    path = written(tmp_path / name, mark + 'question,answer\r\n"Who, then?",Ann\r\n\r\n"two\nlines",\r\n')
    assert [row for _, row in objects(path)] == [{"question": "Who, then?", "answer": "Ann"}, {"question": "two\nlines"}]


@pytest.mark.parametrize("text", ["question,answer\na,b,c\n", 'question,answer\n"a,b\n'])
def test_a_broken_table_says_where(text, tmp_path):
    with pytest.raises(BadData, match=r"q\.csv, line "):
        list(objects(written(tmp_path / "q.csv", text)))


@pytest.mark.parametrize(
    ("name", "text", "answers"),
    [
        ("q.jsonl", BOM + '{"question": "Who?", "golden_answers": ["Ann"]}', ["Ann"]),
        ("q.jsonl", '{"question": "Who?", "answers": ["Ann", "Anna"]}', ["Ann", "Anna"]),
        ("q.jsonl.gz", BOM + '{"question": "Who?", "answer": "Ann"}', ["Ann"]),
        ("q.csv", BOM + "question,answer\nWho?,Ann\n", ["Ann"]),
        ("q.csv", 'question,answers\nWho?,"[""Ann"", ""Anna""]"\n', ["Ann", "Anna"]),
        ("q.csv", "question,answer\nWho?,[Ann]\n", ["[Ann]"]),
    ],
)
def test_questions_of_search(name, text, answers, tmp_path):
    library = load_lines(written(tmp_path / "c.jsonl", BOM + CORPUS), written(tmp_path / name, text))
    assert [task.data["answers"] for task in library.tasks] == [answers]


def test_an_error_shows_what_a_question_looks_like(tmp_path):
    corpus = written(tmp_path / "c.jsonl", CORPUS)
    with pytest.raises(BadData, match=r'line 1: no golden_answers, .*"answer": "Jane Austen".* question,answer'):
        load_lines(corpus, written(tmp_path / "q.jsonl", '{"question": "Who?", "reply": "Ann"}'))
    with pytest.raises(BadData, match=r"line 2: the keys are \['q'\]; expected for example .*question,answer"):
        load_math(written(tmp_path / "m.csv", "q\n1\n"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.jsonl", BOM + '{"question": "2+3?", "answer": 5}'),
        ("m.json", BOM + '[{"problem": "2+3?", "answers": ["5"]}]'),
        ("m.csv", "question,answer\n2+3?,5\n"),
        ("m.csv.gz", BOM + "problem,answer\n2+3?,5\n"),
    ],
)
def test_problems_of_math(name, text, tmp_path):
    task = load_math(written(tmp_path / name, text)).tasks[0]
    assert (task.data["problem"], task.data["answer"], task.data["form"]) == ("2+3?", "5", "number")


VALUES = ['{"a": 1}', '{"a": NaN}', "[1]", "3", '"x"', "{", "", "{}}", '{"a": 1} {"b": 2}', '{"a": "\\ud800"}', "\ufeff{}"]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("around", ["{}", " {}", "{}\n", "{}\r\n", "{} \t\n", "{}\x0b\n", "\n{}"])
def test_a_line_is_read_as_the_standard_library_reads_it(value, around):
    line = around.format(value) if "{}" not in value else around.replace("{}", value)
    try:
        expected = repr(json.loads(line))
    except ValueError as error:
        with pytest.raises(json.JSONDecodeError) as raised:
            decoded(line)
        assert str(raised.value) == str(error)
    else:
        assert repr(decoded(line)) == expected
