"""Values of templates."""

from datetime import UTC, datetime, timedelta

import pytest

from stepfast.workflows.expressions import (
    DYN,
    INT,
    STRING,
    EvaluationFailed,
    InvalidBinding,
    ListType,
    RecordType,
    compile_value,
)

SCOPE = {
    "inputs": {"name": "Ann", "n": 3, "ok": True, "x": 1.5, "tags": ["a"], "none": None, "map": {"k": "v"}},
    "at": datetime(2030, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize(
    ("template", "meant"),
    [
        ("${ inputs.n }", 3),
        ("${inputs.tags}", ["a"]),
        ("${ inputs.none }", None),
        ("${ {'a': inputs.n} }", {"a": 3}),
        ("${ {'a': {}}['a'] }", {}),
        ("${ '}' }", "}"),
        ("${ inputs.n // a comment }\n }", 3),
        ("Hello ${ inputs.name }!", "Hello Ann!"),
        ("${ inputs.n }${ inputs.ok }${ inputs.x }", "3true1.5"),
        (" ${ inputs.n }", " 3"),
        ("$${ inputs.n }", "${ inputs.n }"),
        ("$$${ inputs.n }", "$${ inputs.n }"),
        ("a $${x} ${ inputs.n }", "a ${x} 3"),
        ("$", "$"),
        ("$x {y} }", "$x {y} }"),
        ("", ""),
        (None, None),
        (True, True),
        (1.5, 1.5),
        (["${ inputs.n }", {"a": "${ inputs.name }", "b": [1]}], [3, {"a": "Ann", "b": [1]}]),
        ({"${ inputs.n }": 1}, {"${ inputs.n }": 1}),
        ({}, {}),
        ("${ at }", "2030-01-01T00:00:00Z"),
        ("at ${ at }", "at 2030-01-01T00:00:00Z"),
        ("${ [at, duration('90s'), b'\\xff', 1u] }", ["2030-01-01T00:00:00Z", "90s", "/w==", 1]),
    ],
)
def test_a_template_becomes_a_json_value(template, meant):
    assert compile_value(template).evaluate(SCOPE) == meant


def test_an_unsigned_number_leaves_as_a_plain_one():
    assert type(compile_value("${ 1u }").evaluate({})) is int


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("a ${ inputs.none }", "a value of kind null cannot be put into a text"),
        ("a ${ inputs.tags }", "a value of kind list cannot be put into a text"),
        ("a ${ inputs.map }", "a value of kind map cannot be put into a text"),
        ("a ${ type(1) }", "string does not take (type)"),
        ("${ type(1) }", "the type int is no JSON value"),
        ("${ 1.0 / 0.0 }", "JSON has no number"),
        ("${ [0.0 / 0.0] }", "JSON has no number"),
        ("${ {1: 2} }", "a key of JSON must be a text"),
        ("${ inputs.nobody }", "no such key: 'nobody'"),
    ],
)
def test_what_is_no_json_or_no_text_fails_at_its_pointer(template, reason):
    with pytest.raises(EvaluationFailed) as raised:
        compile_value({"with": {"a/b": [template]}}).evaluate(SCOPE)
    assert str(raised.value).startswith("/with/a~1b/0: The expression ")
    assert reason in str(raised.value)


def test_all_problems_are_told_at_once_each_with_its_place():
    template = {"a": "${ 1 + }", "b": ["ok", "x ${ a and b } y ${ 'open }"], "c": "${ f() }", "d": "${ 1", "e": {1, 2}}
    with pytest.raises(InvalidBinding) as raised:
        compile_value(template)
    places = [(each.pointer, each.start, each.end) for each in raised.value.problems]
    assert places == [("/a", 7, 7), ("/b/1", 7, 10), ("/b/1", 20, 27), ("/c", 3, 6), ("/d", 0, 4), ("/e", 0, 0)]


def test_an_empty_expression_is_a_problem():
    with pytest.raises(InvalidBinding, match="the expression is empty"):
        compile_value("${ }")


def test_a_key_that_is_no_text_is_a_problem():
    with pytest.raises(InvalidBinding, match="a key is no text"):
        compile_value({1: 2})


def test_references_are_those_of_all_expressions():
    binding = compile_value({"a": "${ steps.x.output }", "b": ["${ inputs.n } and ${ steps.x.output }"]})
    assert binding.references == (("steps", "x", "output"), ("inputs", "n"))


@pytest.mark.parametrize(
    ("template", "answer"),
    [("text", True), ("$${x}", True), ([1, {"a": "b"}], True), ("${ 1 }", False), (["${ a }"], False)],
)
def test_a_value_without_expressions_is_constant(template, answer):
    assert compile_value(template).is_constant is answer


def test_whoever_changes_a_value_does_not_change_the_template():
    binding = compile_value({"a": [1], "b": "${ {'c': []} }"})
    first = binding.evaluate({})
    first["a"].append(2)
    first["b"]["c"].append(3)
    assert binding.evaluate({}) == {"a": [1], "b": {"c": []}}


def test_the_type_of_a_value_is_that_of_its_parts():
    binding = compile_value({"n": "${ a }", "text": "x ${ a }", "list": ["${ a }", 1], "at": "${ timestamp(0) }"})
    fields = {"n": INT, "text": STRING, "list": ListType(INT), "at": STRING}
    assert binding.check({"a": INT}) == (RecordType(fields, frozenset(fields)), [])


def test_problems_of_types_are_told_with_their_places():
    _, problems = compile_value({"a": "${ 1 + n }", "b": "x ${ t } y"}).check({"n": STRING, "t": ListType(DYN)})
    assert [(each.pointer, each.start, each.end) for each in problems] == [("/a", 3, 8), ("/b", 4, 7)]


def test_a_template_of_any_depth_is_a_value_or_a_problem():
    template: list[object] = []
    for _ in range(5_000):
        template = [template]
    with pytest.raises(InvalidBinding, match="more than 100 levels"):
        compile_value(template)


def test_a_value_of_any_depth_is_handed_on_whole_and_refused_where_it_must_be_walked():
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    assert compile_value("${ deep }").evaluate({"deep": deep}) is deep
    with pytest.raises(EvaluationFailed, match="more than 100 levels"):
        compile_value("${ [deep] }").evaluate({"deep": deep})


def test_a_span_leaves_in_seconds():
    assert compile_value("${ span }").evaluate({"span": timedelta(minutes=1, microseconds=5)}) == "60.000005s"
