"""The plainest value that a schema takes."""

import pytest

from agentgym.core.harmless import MOST, controls, harmless

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer", "minimum": 2}, "y": {"type": "number"}},
    "required": ["x"],
}
LOOP = {"$ref": "#/$defs/Node", "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (POINT, {"x": 2}),
        ({}, ""),
        ({"type": "string", "minLength": 2}, "  "),
        ({"type": ["integer", "null"]}, 0),
        ({"enum": ["up", "down"]}, "up"),
        ({"const": "step"}, "step"),
        ({"type": "boolean", "default": True}, True),
        ({"type": "boolean"}, False),
        ({"type": "array", "items": POINT, "minItems": 1}, [{"x": 2}]),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"$ref": "#/$defs/P", "$defs": {"P": POINT}}, {"x": 2}),
        ({"type": "object", "properties": 3, "required": "x"}, {}),
        ({"type": "string", "minLength": 1e300}, ""),
    ],
)
def test_the_plainest_value(schema, value):
    assert harmless(schema) == value


def test_a_schema_without_end_has_one():
    assert "next" in harmless(LOOP)


def test_the_controls_of_a_service_try_every_choice():
    fields = {
        "kind": {"enum": ["go", "look"]},
        "where": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}], "default": None},
        "fast": {"type": "boolean"},
    }
    schema = {"type": "object", "properties": fields, "required": ["kind"], "$defs": {"P": POINT}}
    found = controls(schema)
    assert found[:2] == [{"kind": "go"}, {"kind": "go", "where": None, "fast": False}]
    for wanted in ({"kind": "look"}, {"kind": "go", "where": {"x": 2}}, {"kind": "go", "fast": True}):
        assert wanted in found
    assert controls({}) == [{}] and controls({"properties": 3, "required": "x"}) == [{}]
    many = {"properties": {f"n{n}": {"enum": list(range(100))} for n in range(100)}}
    assert len(controls(many)) == MOST
