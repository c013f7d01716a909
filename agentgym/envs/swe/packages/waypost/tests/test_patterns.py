import pytest
from waypost import Pattern, PatternError


@pytest.mark.parametrize(
    ("pattern", "path", "values"),
    [
        ("/", "/", {}),
        ("/users", "/users", {}),
        ("/users/{id:int}", "/users/12", {"id": 12}),
        ("/users/{id:int}", "/users/-3", {"id": -3}),
        ("/{name}", "/ann%20b", {"name": "ann b"}),
        ("/price/{p:float}", "/price/1.50", {"p": 1.5}),
        ("/post/{s:slug}", "/post/a-long-title", {"s": "a-long-title"}),
        ("/files/{path:rest}", "/files/a/b.txt", {"path": "a/b.txt"}),
        ("/{a}-{b:int}", "/x-3", {"a": "x", "b": 3}),
        ("/v1.0/x", "/v1.0/x", {}),
    ],
)
def test_match(pattern, path, values):
    assert Pattern(pattern).match(path) == values


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("/users", "/users/1"),
        ("/users/{id:int}", "/users/x"),
        ("/users/{id:int}", "/users/"),
        ("/{name}", "/a/b"),
        ("/post/{s:slug}", "/post/a--b"),
        ("/files/{path:rest}", "/files/"),
        ("/v1.0/x", "/v1a0/x"),
        ("/price/{p:float}", "/price/1"),
    ],
)
def test_no_match(pattern, path):
    assert Pattern(pattern).match(path) is None


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("users", "begins with /"),
        ("/{a:date}", "no converter 'date'"),
        ("/{a}/{a}", "occurs twice"),
        ("/{a:rest}/b", "must be the last part"),
        ("/{a", "not closed"),
        ("/{a}}", "not closed"),
    ],
)
def test_bad_patterns(pattern, said):
    with pytest.raises(PatternError, match=said):
        Pattern(pattern)


def test_build():
    assert Pattern("/users/{id:int}/{tab}").build(id=3, tab="a b/c") == "/users/3/a%20b%2Fc"
    assert Pattern("/files/{path:rest}").build(path="a/b c") == "/files/a/b%20c"


@pytest.mark.parametrize(
    ("values", "said"),
    [({}, "needs a value for 'id'"), ({"id": "x"}, "'x' is no int"), ({"id": 1, "more": 2}, "has no 'more'")],
)
def test_build_refuses(values, said):
    with pytest.raises(PatternError, match=said):
        Pattern("/users/{id:int}").build(**values)


def test_rank_prefers_what_is_fixed():
    patterns = ["/{rest:rest}", "/users/{name}", "/users/{id:int}", "/users/me", "/users/{s:slug}"]
    ranked = sorted((Pattern(one) for one in patterns), key=lambda pattern: pattern.rank)
    assert [pattern.text for pattern in ranked] == [
        "/users/me",
        "/users/{id:int}",
        "/users/{s:slug}",
        "/users/{name}",
        "/{rest:rest}",
    ]
