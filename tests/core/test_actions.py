"""Calls in three spellings, and what is wrong with everything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.actions import Call, Tool, example, parse_call, spell, tool


class Env:
    @tool
    def search(self, query: str) -> str:
        """Search the library.

        Not part of the description.
        """
        return query

    @tool
    def move(self, row: int, column: int, fast: bool = False) -> str:
        """Move
        there."""
        return f"{row} {column} {fast}"

    @tool
    def weigh(self, grams: float) -> str:
        """Weigh."""
        return str(grams)

    @tool
    def submit(self) -> str:
        """Submit."""
        return ""


TOOLS = {name: vars(Env)[name].__tool__ for name in ("search", "move", "weigh", "submit")}


def test_the_schema_comes_from_the_method():
    move = TOOLS["move"]
    assert move.description == "Move there." and TOOLS["search"].description == "Search the library."
    assert move.schema() == {
        "type": "function",
        "function": {
            "name": "move",
            "description": "Move there.",
            "parameters": {
                "type": "object",
                "properties": {"row": {"type": "integer"}, "column": {"type": "integer"}, "fast": {"type": "boolean"}},
                "required": ["row", "column"],
            },
        },
    }


def test_a_parameter_must_be_a_scalar():
    with pytest.raises(TypeError, match="parameter 'x' is annotated <class 'list'>; expected str, int, float or bool"):

        @tool
        def bad(self, x: list) -> str: ...


@pytest.mark.parametrize(
    ("action", "call"),
    [
        ("search[who?]", Call("search", {"query": "who?"})),
        ("  <search>who?</search>\n", Call("search", {"query": "who?"})),
        ('{"name": "search", "arguments": {"query": "who?"}}', Call("search", {"query": "who?"})),
        ("search[a]b]", Call("search", {"query": "a]b"})),
        ("search[ kept \n as it is ]", Call("search", {"query": " kept \n as it is "})),
        ("<search>a</search>b</search>", Call("search", {"query": "a</search>b"})),
        ("search[]", Call("search", {"query": ""})),
        ("search[<search>x</search>]", Call("search", {"query": "<search>x</search>"})),
        ("submit[]", Call("submit", {})),
        ("<submit> </submit>", Call("submit", {})),
        ('{"name": "submit"}', Call("submit", {})),
        ('{"name": "move", "arguments": {"row": 1, "column": 2}}', Call("move", {"row": 1, "column": 2})),
        (
            '{"name": "move", "arguments": {"row": 1, "column": 2, "fast": true}}',
            Call("move", {"row": 1, "column": 2, "fast": True}),
        ),
        ("weigh[2.5]", Call("weigh", {"grams": 2.5})),
        ("weigh[2]", Call("weigh", {"grams": 2})),
    ],
)
def test_one_call_is_understood(action, call):
    assert parse_call(action, TOOLS) == call


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("", "'' is not a tool call. Write one call, for example search[query]."),
        ("search for who", "'search for who' is not a tool call"),
        ("search[a] search[b", "is not a tool call"),
        ("please search[a]", "is not a tool call"),
        ("<search>a</find>", "is not a tool call"),
        ("find[a]", "there is no tool 'find'. The tools are: search, move, weigh, submit."),
        ("submit[now]", "submit takes no argument. Write submit[]."),
        ("move[1]", 'move takes 2 arguments. Write JSON: {"name": "move", "arguments": {"row": 1, "column": 1}}.'),
        ("weigh[much]", "argument 'grams' of weigh must be of type number"),
        ('{"name": "search"}', "search needs the argument 'query'"),
        ('{"name": "search", "arguments": {"query": 3}}', "argument 'query' of search must be of type string"),
        ('{"name": "search", "arguments": {"query": "a", "k": 1}}', "search has no argument 'k'"),
        ('{"name": "search", "arguments": ["a"]}', "arguments of search must be an object"),
        ('{"name": "move", "arguments": {"row": true, "column": 2}}', "argument 'row' of move must be of type integer"),
        ('{"name": 3}', "there is no tool '3'"),
        ('{"name": "search", ', "the call is not valid JSON (Expecting property name"),
        ("{" * 100_000, "the call is not valid JSON"),
        ("x" * 500, "..."),
        ('{"name": "search", "arguments": {"query": "a\\ud83d"}}', "argument 'query' of search has half a character"),
        ("search[\ud83d]", "argument 'query' of search has half a character"),
        ("weigh[NaN]", "argument 'grams' of weigh has"),
        ("weigh[1e999]", "argument 'grams' of weigh has"),
        ('{"name": "weigh", "arguments": {"grams": -Infinity}}', "a number that is not finite"),
    ],
)
def test_anything_else_is_answered_with_what_is_right(action, says):
    answer = parse_call(action, TOOLS)
    assert isinstance(answer, str) and says in answer and len(answer) < 300


@given(st.text(max_size=40))
def test_any_body_survives_bracket_tag_and_json(body):
    expected = Call("search", {"query": body})
    assert parse_call(spell("search", body), TOOLS) == expected
    assert parse_call(f"<search>{body}</search>", TOOLS) == expected
    assert parse_call(json.dumps({"name": "search", "arguments": {"query": body}}), TOOLS) == expected


@given(
    st.text(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x)).map(json.dumps)
)
def test_no_text_raises(action):
    assert isinstance(parse_call(action, TOOLS), str | Call)


def test_a_schema_without_one_type_takes_what_it_is_given():
    several = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    properties = {"a": several, "b": {"type": ["string", "null"]}, "c": {"type": "array"}, "d": {"type": "string"}}
    tools = {"put": Tool("put", "Put.", {"type": "object", "properties": properties, "required": ["a"]})}
    for arguments in ({"a": 3}, {"a": None, "b": None}, {"a": 3, "c": [True], "b": "x", "d": "y"}):
        assert parse_call(json.dumps({"name": "put", "arguments": arguments}), tools) == Call("put", arguments)
    assert "'d' of put must be of type string" in str(parse_call('{"name": "put", "arguments": {"a": 1, "d": 2}}', tools))
    assert "'c' of put must be of type array" in str(parse_call('{"name": "put", "arguments": {"a": 1, "c": {}}}', tools))
    assert parse_call('put[{"x": [1]}]', tools) == Call("put", {"a": {"x": [1]}})
    assert parse_call("put[none of these]", tools) == Call("put", {"a": "none of these"})


def test_examples_of_parameters_that_are_no_scalars():
    properties = {"items": {"type": "array"}, "maybe": {"type": ["string", "null"]}}
    one = Tool("put", "Put.", {"type": "object", "properties": properties, "required": ["items"]})
    assert example(one) == '{"name": "put", "arguments": {"items": ["…"]}}'
    both = Tool("put", "Put.", {"type": "object", "properties": properties, "required": ["items", "maybe"]})
    parsed = parse_call('{"name": "put", "arguments": {"items": []}}', {"put": both})
    assert (
        parsed == "put needs the argument 'maybe'. Write " + '{"name": "put", "arguments": {"items": ["…"], "maybe": "…"}}.'
    )
    assert parse_call("put[x]", {"put": one}) == f"argument 'items' of put must be of type array. Write {example(one)}."


def test_args_of_the_docstring_describe_the_parameters():
    @tool
    def pay(self, amount: float, to: str, note: str = "", fast: bool = False) -> str:
        """Pay
        somebody.

        The bank asks nothing.

        Args:
            amount (float): How much,
                in crowns: at most 100.
            to: Who
                is paid.

            note: What for.

        Returns:
            What: the bank says.
        """

    assert pay.__tool__.description == "Pay somebody."
    assert pay.__tool__.properties == {
        "amount": {"type": "number", "description": "How much, in crowns: at most 100."},
        "to": {"type": "string", "description": "Who is paid."},
        "note": {"type": "string", "description": "What for."},
        "fast": {"type": "boolean"},
    }

    @tool
    def look(self, where: str):
        """Args: here or there, whatever comes."""

    assert look.__tool__.description == "Args: here or there, whatever comes."
    assert look.__tool__.properties == {"where": {"type": "string"}}


def test_args_of_another_parameter_are_refused():
    with pytest.raises(TypeError, match=r"Args of its docstring names 'amonut'; parameters: amount"):

        @tool
        def pay(self, amount: float):
            """Pay.

            Args:
                amonut: How much.
            """
