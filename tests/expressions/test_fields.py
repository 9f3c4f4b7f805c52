"""Keys of maps, items of lists, `has`."""

import pytest

from tests.expressions.support import failure, problem, value

SCOPE = {"m": {"a": {"b": 1}, "n": None, "l": [10, 20]}, "s": "text"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("m.a.b", 1),
        ("m['a']['b']", 1),
        ("m['a'].b", 1),
        ("m[k]", None),
        ("m.l[1]", 20),
        ("m.l[1u]", 20),
        ("m.l[1.0]", 20),
        ("{1: 'x'}[1]", "x"),
        ("{1: 'x'}[1.0]", "x"),
        ("{true: 'x', 'b': 'y'}[true]", "x"),
        ("has(m.a)", True),
        ("has(m.x)", False),
        ("has(m.n)", True),
        ("has(m.a.b)", True),
        ("has({'a': 1}.a)", True),
        ("has(m['a'])", True),
        ("has(m.x) ? m.x : 'none'", "none"),
        ("has(m.x) && m.x.y == 1", False),
    ],
)
def test_a_field_is_found(written, meant):
    assert value(written, k="n", **SCOPE) == meant


@pytest.mark.parametrize(
    ("written", "part", "reason"),
    [
        ("m.a.c + 1", "'m.a.c'", "no such key: 'c'"),
        ("m.aa", "", "Did you mean 'a'?"),
        ("m.n.x", "", "a value of kind null has no keys"),
        ("s.x", "", "a value of kind string has no keys"),
        ("m.l.x", "", "a value of kind list has no keys"),
        ("m.l[2] > 1", "'m.l[2]'", "no such index: 2"),
        ("m.l[-1]", "", "no such index: -1"),
        ("m.l[0.5]", "", "whole number"),
        ("m.l[0.0 / 0.0]", "", "whole number"),
        ("m.l[k]", "", "a list is indexed by a number"),
        ("m[1]", "", "no such key"),
        ("{1: 'x'}[true]", "", "no such key: True"),
        ("{true: 'x'}[1]", "", "no such key"),
        ("m[[1]]", "", "no such key"),
        ("s[0]", "", "[] does not take (string, int)"),
        ("has(s.x)", "", "has no keys"),
        ("has(m.x.y)", "'m.x'", "no such key"),
        ("nobody.x", "'nobody'", "nothing is called 'nobody' here"),
        ("{k: 1, 'n': 2}", "", "the same key twice"),
        ("{1: 'a', true: 'b'}", "", "true and 1 count as one"),
        ("{1.5: 1}", "", "a key must be"),
        ("{null: 1}", "", "a key must be"),
    ],
)
def test_what_is_not_there_is_named_with_its_place(written, part, reason):
    message = failure(written, k="n", **SCOPE)
    assert part in message
    assert reason in message


def test_a_key_that_is_written_twice_is_a_problem():
    assert problem("{'a': 1, 'a': 2}").start == 9


def test_has_takes_a_field_only():
    assert "has takes a field" in problem("has(a)").message
    assert "has takes a field" in problem("has(a.b, c.d)").message


def test_attributes_of_python_values_are_no_fields():
    for name in ("__class__", "real", "upper", "append", "keys"):
        for operand in ("s", "m.l", "m", "1", "null"):
            assert "no such key" in failure(f"{operand}.{name}", **SCOPE)
