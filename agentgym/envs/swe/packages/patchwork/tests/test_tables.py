import pytest
from patchwork import ConfigError, TableError, dump_ini, load_ini, read_table, write_table
from patchwork.config import merge_config
from patchwork.tables import read_rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a,b\n1,2\n", [["a", "b"], ["1", "2"]]),
        ("a,b\n1,2", [["a", "b"], ["1", "2"]]),
        ("a,\n,b\n", [["a", ""], ["", "b"]]),
        ('"a,b",c\n', [["a,b", "c"]]),
        ('"say ""hi""",x\n', [['say "hi"', "x"]]),
        ('"two\nlines",x\n', [["two\nlines", "x"]]),
        ("a,b\r\n1,2\r\n", [["a", "b"], ["1", "2"]]),
        ('"a"\r\n"b"\r\n', [["a"], ["b"]]),
        ("\n\na\n\n", [["a"]]),
        ('""\n', [[""]]),
        ('a"b,c\n', [['a"b', "c"]]),
        ("", []),
    ],
)
def test_rows(text, rows):
    assert read_rows(text) == rows


def test_other_separators():
    assert read_rows("a;b,c\n", separator=";") == [["a", "b,c"]]
    assert read_rows("'a,b',c\n", quote="'") == [["a,b", "c"]]


def test_quotes_must_close():
    with pytest.raises(TableError, match="never closed") as error:
        read_rows('a\nb,"c\nd\n')
    assert error.value.line == 2


def test_nothing_follows_a_closing_quote():
    with pytest.raises(TableError, match="after a closing quote") as error:
        read_rows('"a\nb"\nx,"c"d\n')
    assert error.value.line == 3


def test_table():
    assert read_table("name,age\nann,3\nbo,\n") == [{"name": "ann", "age": "3"}, {"name": "bo", "age": ""}]
    assert read_table("") == []


def test_types():
    assert read_table("n,x\n1,2.5\n,1\n", types={"n": int, "x": float, "z": int}) == [
        {"n": 1, "x": 2.5},
        {"n": None, "x": 1.0},
    ]


def test_tables_need_whole_rows():
    with pytest.raises(TableError, match="line 3: 1 fields; expected 2"):
        read_table("a,b\n1,2\n3\n")


def test_tables_need_names_that_differ():
    with pytest.raises(TableError, match="same name"):
        read_table("a,a\n1,2\n")


def test_write():
    records = [{"a": 1, "b": 'x,"y"'}, {"a": None, "b": ""}]
    assert write_table(records) == 'a,b\n1,"x,""y"""\n,""\n'


def test_write_some_columns():
    assert write_table([{"a": 1, "b": 2}], columns=["b", "c"]) == "b,c\n2,\n"
    assert write_table([{"a": "x;y", "b": "x,y"}], separator=";") == 'a;b\n"x;y";x,y\n'


def test_spaces_at_the_ends_are_kept():
    assert read_rows(write_table([{"a": " x "}])) == [["a"], [" x "]]
    assert write_table([{"a": " x "}]) == 'a\n" x "\n'


CONFIG = """
top = 1  # not in a section
[server]
Port = 8080
host = "a # b"
debug = yes
ratio = 0.5
tags = [a, 2, "c"]
url = http://${host}:${port}/
[client]
port = ${server.port}
note = first
  second
"""


def test_load():
    assert load_ini(CONFIG) == {
        "": {"top": 1},
        "server": {
            "port": 8080,
            "host": "a # b",
            "debug": True,
            "ratio": 0.5,
            "tags": ["a", 2, "c"],
            "url": "http://a # b:8080/",
        },
        "client": {"port": 8080, "note": "first\nsecond"},
    }


def test_sections_go_on():
    assert load_ini("[a]\nx = 1\n[b]\n[a]\ny = 2\n") == {"a": {"x": 1, "y": 2}, "b": {}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("off", False), ("None", None), ("-3", -3), ("1e3", 1000.0), ('"12"', "12"), ("[]", []), ("a;b", "a;b"), ("a ;b", "a")],
)
def test_values(text, value):
    assert load_ini(f"x = {text}") == {"": {"x": value}}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("x = 1\n[a\n", 2, "not closed"),
        ("nothing\n", 1, "KEY = VALUE"),
        (" x\n", 1, "nothing to go on"),
        ("x = 1\n\n  more\n", 3, "nothing to go on"),
        ("a = 1\nx = ${b}\n", 2, "stands for nothing"),
        ("= 1\n", 1, "KEY = VALUE"),
    ],
)
def test_bad_config(text, line, said):
    with pytest.raises(ConfigError, match=said) as error:
        load_ini(text)
    assert error.value.line == line


def test_dump_is_read_back():
    config = {"": {"a": 1}, "b": {"t": True, "n": None, "s": "12", "l": [1, "x"], "c": "a;b", "plain": "word"}}
    assert load_ini(dump_ini(config)) == config
    assert dump_ini({"b": {"t": True, "plain": "word"}}) == "[b]\nt = true\nplain = word\n"


def test_merge_config():
    first, second = {"a": {"x": 1, "y": 2}}, {"a": {"y": 3}, "b": {"z": 4}}
    assert merge_config(first, second) == {"a": {"x": 1, "y": 3}, "b": {"z": 4}}
    assert first == {"a": {"x": 1, "y": 2}}
