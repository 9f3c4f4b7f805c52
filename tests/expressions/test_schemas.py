"""Types of JSON Schemas."""

import pytest

from stepfast.workflows.expressions import (
    BOOL,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    ListType,
    MapType,
    RecordType,
    UnionType,
    type_of_schema,
)


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"type": "string", "format": "date-time"}, STRING),
        ({"type": "integer"}, INT),
        ({"type": "number"}, UnionType((INT, DOUBLE))),
        ({"type": "boolean"}, BOOL),
        ({"type": "null"}, NULL),
        ({"type": ["string", "null"]}, UnionType((STRING, NULL))),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, UnionType((STRING, NULL))),
        ({"oneOf": [{"type": "string"}, {"type": "string"}]}, STRING),
        ({"anyOf": [{"type": "string"}, {}]}, DYN),
        ({"allOf": [{"type": "string"}]}, STRING),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, DYN),
        ({"enum": ["a", "b"]}, STRING),
        ({"enum": ["a", 1]}, UnionType((STRING, INT))),
        ({"const": True}, BOOL),
        ({"type": "array", "items": {"type": "integer"}}, ListType(INT)),
        ({"type": "array"}, ListType(DYN)),
        ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, ListType(INT)),
        ({"type": "array", "prefixItems": [{"type": "integer"}]}, ListType(DYN)),
        ({"type": "object"}, MapType(DYN)),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, MapType(INT)),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            RecordType({"a": STRING}, frozenset({"a"}), open=True),
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
            RecordType({"a": STRING}),
        ),
        ({"$ref": "#/$defs/Name", "$defs": {"Name": {"type": "string"}}}, STRING),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "string"}}}, STRING),
        ({"$ref": "#/$defs/Missing"}, DYN),
        ({"$ref": "https://example.com/schema"}, DYN),
        ({"properties": {"a": {"type": "string"}}}, DYN),
        ({}, DYN),
        (True, DYN),
        ("nonsense", DYN),
        ({"type": 5}, DYN),
        ({"type": "unheard of"}, DYN),
        ({"type": "object", "properties": 5, "required": 5}, MapType(DYN)),
    ],
)
def test_a_schema_says_what_its_values_are(schema, meant):
    assert type_of_schema(schema) == meant


def test_an_object_that_does_not_speak_of_other_keys_is_closed_where_the_caller_knows_so():
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}}
    assert type_of_schema(schema, closed=True) == RecordType({"a": RecordType({"b": DYN})})


def test_a_schema_that_refers_to_itself_is_known_one_level_deep():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}}}
    found = type_of_schema({"$ref": "#/$defs/Node", "$defs": {"Node": node}})
    assert found == RecordType({"next": DYN, "n": INT}, open=True)


def test_a_schema_of_any_depth_is_read():
    schema: dict[str, object] = {"type": "integer"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}
    assert isinstance(type_of_schema(schema), ListType)
