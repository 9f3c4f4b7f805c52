"""JSON Schemas: what is one, and what fits it."""

from __future__ import annotations

import re

import pytest

from stepfast.workflows import schemas
from stepfast.workflows.schemas import faults_of_form, faults_of_schema, misfits

# A text that Python's own search would look through in 2 ** 60 ways.
BOMB, VICTIM = "^(a+)+$", "a" * 60 + "!"


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"pattern": BOMB}, VICTIM, ((), f"'{VICTIM}' does not match '{BOMB}'")),
        ({"propertyNames": {"pattern": BOMB}}, {VICTIM: 1}, ((), f"'{VICTIM}' does not match '{BOMB}'")),
        (
            {"patternProperties": {BOMB: {"type": "integer"}}, "additionalProperties": False},
            {"aa": 1, VICTIM: 1},
            ((), f"Additional properties are not allowed ('{VICTIM}' was unexpected)"),
        ),
        (
            {"patternProperties": {BOMB: {"type": "integer"}}, "additionalProperties": {"type": "string"}},
            {"aa": 1, VICTIM: 1},
            ((VICTIM,), "1 is not of type 'string'"),
        ),
        ({"patternProperties": {BOMB: {"type": "integer"}}}, {"aa": "x"}, (("aa",), "'x' is not of type 'integer'")),
    ],
)
def test_a_pattern_takes_no_longer_than_the_text_is_long(schema, value, fault):
    assert misfits(schema, value) == [fault]


def test_without_our_own_search_the_pattern_is_left_to_python(monkeypatch):
    class Asked(Exception):
        pass

    def search(pattern, text):
        raise Asked(pattern)

    monkeypatch.setattr(schemas, "_read_pattern", lambda pattern: None)
    monkeypatch.setattr(re, "search", search)
    assert "Asked" in misfits({"pattern": BOMB}, VICTIM)[0][1]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "b"}, "abc"),
        ({"pattern": "b"}, 5),
        ({"pattern": r"^(?!x)a"}, "abc"),
        ({"patternProperties": {"^x-": {}}, "additionalProperties": False}, {"x-a": 1}),
        ({"patternProperties": {"^x-": {}}, "properties": {"a": {}}, "additionalProperties": False}, {"a": 1}),
        ({"patternProperties": {"a": {}}}, [1]),
        ({"additionalProperties": False}, "text"),
        (True, {"any": "thing"}),
    ],
)
def test_what_fits_has_no_faults(schema, value):
    assert misfits(schema, value) == []


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ({"pattern": "(?=a)b"}, ("pattern",), "the pattern is not one of RE2"),
        ({"items": {"pattern": "("}}, ("items", "pattern"), "is not closed"),
        ({"patternProperties": {"(?!a)": {}}}, ("patternProperties", "(?!a)"), "the pattern is not one of RE2"),
        (
            {"patternProperties": {"a": {}}, "unevaluatedProperties": False},
            ("unevaluatedProperties",),
            "use `additionalProperties`",
        ),
        ({"$ref": "#/nowhere"}, ("$ref",), "leads to nothing"),
        ({"type": "text"}, ("type",), "is not valid"),
        ("text", (), "it must be a map"),
    ],
)
def test_what_cannot_be_held_to_is_a_fault_with_its_path(schema, path, message):
    ((found, told),) = faults_of_schema(schema)
    assert found == path
    assert message in told


def test_a_property_may_be_called_like_a_word_of_schemas():
    assert faults_of_schema({"properties": {"pattern": {"type": "string"}, "$ref": {}}}) == []


def test_the_form_alone_says_nothing_of_patterns_and_references():
    assert faults_of_form({"pattern": "(?=a)b", "$ref": "#/nowhere"}) == []
