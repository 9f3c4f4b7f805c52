"""What is found to be wrong before anything is evaluated."""

import pytest

from stepfast.workflows.expressions import (
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    ListType,
    MapType,
    RecordType,
    Type,
    UnionType,
    compile_expression,
)

TYPES: dict[str, Type] = {
    "inputs": RecordType({"name": STRING, "count": INT, "tags": ListType(STRING), "maybe": UnionType((STRING, NULL))}),
    "steps": RecordType(
        {"parse": RecordType({"output": RecordType({"risk": UnionType((INT, DOUBLE)), "n": INT}, open=True)})}
    ),
    "any": DYN,
    "table": MapType(INT),
    "at": TIMESTAMP,
    "rows": ListType(RecordType({"id": STRING, "n": INT})),
}


def found(text: str) -> tuple[str, list[tuple[str, str]]]:
    kind, problems = compile_expression(text).check(TYPES)
    return str(kind), [(text[each.start : each.end], each.message) for each in problems]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "int"),
        ("1 + inputs.count", "int"),
        ("any + 1", "int"),
        ("any + any", "int or uint or double or string or bytes or duration or list(dyn) or timestamp"),
        ("any", "dyn"),
        ("inputs.name + 'x'", "string"),
        ("inputs.tags", "list(string)"),
        ("inputs.tags[0]", "string"),
        ("inputs.tags + ['a']", "list(string)"),
        ("[1, 'a']", "list(int or string)"),
        ("[]", "list(dyn)"),
        ("table['x']", "int"),
        ("rows.map(r, r.n)", "list(int)"),
        ("rows.filter(r, r.n > 1)[0].id", "string"),
        ("rows.exists(r, r.id == 'a')", "bool"),
        ("rows.map(r, r.n > 1, r.id)", "list(string)"),
        ("table.map(k, k)", "list(string)"),
        ("inputs.name == '' ? 1 : 'a'", "int or string"),
        ("steps.parse.output.risk > 0.4", "bool"),
        ("steps.parse.output.other", "dyn"),
        ("inputs.maybe.size()", "int"),
        ("inputs.maybe == null", "bool"),
        ("at + duration('1h')", "timestamp"),
        ("at - at", "duration"),
        ("at.getHours('UTC')", "int"),
        ("{'a': 1}.a", "int"),
        ("{inputs.name: 1}['x']", "int"),
        ("inputs[any]", "string or int or list(string) or null"),
        ("rows.map(r, r.n).max()", "int"),
        ("type(1)", "type"),
        ("int", "type"),
        ("'a'.split(',')", "list(string)"),
        ("has(inputs.name) && any", "bool"),
        ("1 == 'a'", "bool"),
        ("double(inputs.count) + 1.5", "double"),
    ],
)
def test_the_type_of_an_expression_is_known(text, kind):
    assert found(text) == (kind, [])


@pytest.mark.parametrize(
    ("text", "part", "message"),
    [
        ("1 + 1.0", "1 + 1.0", "'+' does not take int and double"),
        ("inputs.name > 5", "inputs.name > 5", "'>' does not take string and int"),
        ("inputs.nam", "inputs.nam", "a map has no 'nam' here"),
        ("has(inputs.nam)", "has(inputs.nam)", "a map has no 'nam' here"),
        ("input.name", "input", "nothing is called 'input' here"),
        ("inputs.name.first", "inputs.name.first", "a string has no 'first' here"),
        ("inputs.count && true", "inputs.count", "true or false is needed here, not an int"),
        ("inputs.name ? 1 : 2", "inputs.name", "true or false is needed here, not a string"),
        ("!inputs.count", "!inputs.count", "'!' does not take int"),
        ("inputs.count.size()", "inputs.count.size()", "size does not take (int)"),
        ("inputs.tags.join(1)", "inputs.tags.join(1)", "join does not take (list(string), int)"),
        ("inputs.name.map(x, x)", "inputs.name", "a list or a map is needed here, not a string"),
        ("inputs.tags['a' + 'b']", "inputs.tags['a' + 'b']", "a list(string) is not indexed by a string"),
        ("inputs.count[0]", "inputs.count[0]", "an int is not indexed by an int"),
        ("rows.map(r, r.m)", "r.m", "a map has no 'm' here"),
        ("rows.filter(r, r.n)", "r.n", "true or false is needed here, not an int"),
        ("{1.5: 1}", "1.5", "a key must be a text, a whole number or a boolean, not a double"),
        ("at + 1", "at + 1", "'+' does not take timestamp and int"),
        ("-inputs.name", "-inputs.name", "'-' does not take string"),
        ("1 in inputs.name", "1 in inputs.name", "'in' does not take int and string"),
    ],
)
def test_what_cannot_be_right_is_a_problem_at_its_part(text, part, message):
    assert found(text)[1] == [(part, message)]


def test_a_mistyped_name_is_answered_with_the_nearest():
    _, (in_name, in_field) = compile_expression("input.count + inputs.cuont").check(TYPES)
    assert (in_name.hint, in_field.hint) == ("Did you mean 'inputs'?", "Did you mean 'count'?")


def test_all_problems_are_told_at_once():
    assert len(found("x + inputs.y == (1 + 'a')")[1]) == 3


def test_one_fault_is_told_once():
    assert len(found("inputs.nam.first + 1 > 2 && true")[1]) == 1


def test_checking_changes_nothing_about_the_value():
    expression = compile_expression("x + 1.0")
    expression.check({"x": INT})
    assert expression.evaluate({"x": 1.0}) == 2.0
