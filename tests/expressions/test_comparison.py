"""Equality, order, `in`."""

import math

import pytest

from tests.expressions.support import failure, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1 == 1.0", True),
        ("1u == 1", True),
        ("1 == 1.5", False),
        ("9007199254740993 == 9007199254740992.0", False),
        ("true == 1", False),
        ("1 == true", False),
        ("false == 0.0", False),
        ("'1' == 1", False),
        ("1 == '1'", False),
        ("1 != '1'", True),
        ("null == null", True),
        ("null == 0", False),
        ("null != ''", True),
        ("b'a' == 'a'", False),
        ("[1, 2] == [1, 2.0]", True),
        ("[1, 2] == [2, 1]", False),
        ("[1] == [1, 1]", False),
        ("[true] == [1]", False),
        ("[] == {}", False),
        ("{'a': 1, 'b': [2]} == {'b': [2u], 'a': 1.0}", True),
        ("{'a': 1} == {'a': 1, 'b': 2}", False),
        ("{'a': 1} == {'b': 1}", False),
        ("{1: 'a'} == {1u: 'a'}", True),
        ("{true: 'a'} == {1: 'a'}", False),
        ("0.0 / 0.0 == 0.0 / 0.0", False),
        ("0.0 / 0.0 != 0.0 / 0.0", True),
        ("0.0 == -0.0", True),
        ("type(1) == int", True),
        ("type(1u) == int", False),
    ],
)
def test_values_are_equal_by_what_they_are(written, meant):
    assert value(written) is meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1 < 2", True),
        ("2 <= 2", True),
        ("1 < 1.5", True),
        ("2u > 1", True),
        ("-1 < 0u", True),
        ("9223372036854775807 < 9223372036854775808.0", True),
        ("'a' < 'b'", True),
        ("'Z' < 'a'", True),
        ("'\\uffff' < '\\U00010000'", True),
        ("'' < 'a'", True),
        ("b'a' < b'\\xff'", True),
        ("false < true", True),
        ("1.0 < 0.0 / 0.0", False),
        ("1.0 >= 0.0 / 0.0", False),
        ("duration('1s') < duration('1m')", True),
        ("timestamp('2030-01-01T00:00:00Z') >= timestamp('2029-12-31T23:59:59Z')", True),
    ],
)
def test_values_of_one_kind_have_an_order(written, meant):
    assert value(written) is meant


@pytest.mark.parametrize("written", ["1 < '1'", "true < 1", "x < true", "null < 1", "[1] < [2]", "{} < {}", "x > 'a'"])
def test_values_of_different_kinds_have_no_order(written):
    assert "does not take" in failure(written, x=1)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2 in [1, 2]", True),
        ("2.0 in [1, 2]", True),
        ("'a' in ['b']", False),
        ("true in [1]", False),
        ("1 in [true]", False),
        ("[1] in [[1.0]]", True),
        ("null in [null]", True),
        ("'a' in {'a': 1}", True),
        ("1 in {'a': 1}", False),
        ("1.0 in {1: 'a'}", True),
        ("true in {1: 'a'}", False),
        ("[1] in {'a': 1}", False),
        ("0.0 / 0.0 in [0.0 / 0.0]", False),
    ],
)
def test_in_looks_for_equal_items_and_keys(written, meant):
    assert value(written) is meant


def test_in_needs_a_list_or_a_map():
    assert "in does not take (string, string)" in failure("'a' in 'abc'")


def test_a_value_of_json_is_compared_like_one_that_is_written_out():
    scope = {"a": {"n": 1, "f": math.nan, "t": True}}
    assert value("[a.n == 1.0, a.f == a.f, a.t == 1, a.n < 2, a.t == true]", **scope) == [
        True,
        False,
        False,
        True,
        True,
    ]
