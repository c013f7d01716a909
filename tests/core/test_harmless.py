"""The plainest value that a schema takes."""

import pytest

from agentgym.core.harmless import harmless

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
