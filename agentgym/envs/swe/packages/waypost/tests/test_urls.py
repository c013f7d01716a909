import pytest
from waypost import Url, best_language, best_type, join, normalize, parse_accept, parse_query


def test_parse():
    url = Url.parse("HTTPS://ann@Example.org:8080/a/b?x=1#top")
    assert url == Url("https", "ann", "example.org", 8080, "/a/b", "x=1", "top")
    assert str(url) == "https://ann@example.org:8080/a/b?x=1#top"


@pytest.mark.parametrize("text", ["/a?b#c", "mailto:ann@b.org", "//host/x", "?q=1", "", "http://h"])
def test_text_comes_back(text):
    assert str(Url.parse(text)) == text


@pytest.mark.parametrize("text", ["http://a b", "http://h:70000/"])
def test_no_address(text):
    with pytest.raises(ValueError, match="no "):
        Url.parse(text)


def test_origin():
    assert Url.parse("http://h/x").origin() == ("http", "h", 80)
    assert Url.parse("http://h:81/x").origin() == ("http", "h", 81)
    assert Url.parse("gopher://h").origin() == ("gopher", "h", None)


def test_query():
    assert parse_query("a=1&b=x+y&a=%26&c") == [("a", "1"), ("b", "x y"), ("a", "&"), ("c", "")]
    assert parse_query("?a=1&&b=2=3") == [("a", "1"), ("b", "2=3")]


def test_with_query():
    url = Url.parse("/x?a=1&b=2")
    assert str(url.with_query(a=5)) == "/x?b=2&a=5"
    assert str(url.with_query(a=None)) == "/x?b=2"
    assert str(url.with_query(flag=True)) == "/x?a=1&b=2&flag"


BASE = "http://a/b/c/d?q"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("g", "http://a/b/c/g"),
        ("./g", "http://a/b/c/g"),
        ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d?y"),
        ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d?q#s"),
        ("", "http://a/b/c/d?q"),
        (".", "http://a/b/c/"),
        ("..", "http://a/b/"),
        ("../g", "http://a/b/g"),
        ("../..", "http://a/"),
        ("../../../g", "http://a/g"),
        ("https://x/../y", "https://x/y"),
    ],
)
def test_join(reference, expected):
    assert join(BASE, reference) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTP://Example.org:80", "http://example.org/"),
        ("https://h:80/", "https://h:80/"),
        ("http://h/a/./b/../c", "http://h/a/c"),
        ("http://h/?b=2&a=1", "http://h/?a=1&b=2"),
        ("http://h/%3a%2F", "http://h/%3A%2F"),
        ("http://h/x#part", "http://h/x"),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected


def test_accept():
    assert parse_accept("a;q=0.5, B, c;q=0, d;q=0.5") == [("b", 1.0), ("a", 0.5), ("d", 0.5)]
    assert parse_accept("a;q=7, b;q=x, ,c;level=1;q=0.2") == [("a", 1.0), ("c", 0.2)]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", "text/html"),
        ("text/html", "text/html"),
        ("application/json", "application/json"),
        ("text/*;q=0.5, application/json", "application/json"),
        ("*/*", "text/html"),
        ("image/png", None),
        ("text/*, text/html;q=0.1, application/json;q=0.5", "application/json"),
        ("*/*;q=0.9, text/html;q=0.2", "application/json"),
    ],
)
def test_best_type(header, expected):
    assert best_type(header, ["text/html", "application/json"]) == expected


def test_best_type_of_nothing():
    assert best_type("*/*", []) is None
    assert best_type("", []) is None


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("de", "de"),
        ("en-GB", "en"),
        ("fr, de;q=0.5", "de"),
        ("pt", "pt-BR"),
        ("*", "en"),
        ("fr", None),
        ("PT-br, de", "pt-BR"),
    ],
)
def test_best_language(header, expected):
    assert best_language(header, ["en", "de", "pt-BR"]) == expected


def test_best_language_prefers_exact_matches():
    assert best_language("en-GB", ["en-US", "en-GB"]) == "en-GB"
    assert best_language("fr", ["en"], default="en") == "en"
