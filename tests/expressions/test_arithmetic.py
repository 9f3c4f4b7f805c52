"""Numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.workflows.expressions import EvaluationFailed, UInt, compile_expression
from tests.expressions.support import UNTIMED, exactly, failure, value

INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
UINTS = st.integers(0, 2**64 - 1) | st.integers(0, 5)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 / -2", -3),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("7u / 2u", UInt(3)),
        ("7u % 4u", UInt(3)),
        ("5u - 5u", UInt(0)),
        ("1.5 + 1.5", 3.0),
        ("1.0 / 4.0", 0.25),
        ("1.0 / 0.0", math.inf),
        ("-1.0 / 0.0", -math.inf),
        ("0.0 / 0.0", math.nan),
        ("1e308 * 10.0", math.inf),
        ("-(1.5)", -1.5),
        ("'a' + 'b'", "ab"),
        ("b'a' + b'b'", b"ab"),
        ("[1] + ['a']", [1, "a"]),
    ],
)
def test_an_operator_gives_a_value_of_the_kind_of_its_sides(written, meant):
    assert exactly(value(written)) == exactly(meant)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("9223372036854775807 + 1", "64 bits"),
        ("-9223372036854775808 - 1", "64 bits"),
        ("9223372036854775807 * 2", "64 bits"),
        ("-9223372036854775808 / -1", "64 bits"),
        ("-9223372036854775808 % -1", "64 bits"),
        ("-(-9223372036854775808)", "64 bits"),
        ("18446744073709551615u + 1u", "64 bits"),
        ("1u - 2u", "64 bits"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("1u / 0u", "division by zero"),
        ("1 + 1.0", "does not take (int, double); convert"),
        ("1 + 1u", "does not take (int, uint); convert"),
        ("1.5 % 1.0", "does not take (double, double)"),
        ("'a' + 1", "string()"),
        ("-1u", "does not take (uint)"),
        ("-'a'", "does not take (string)"),
        ("true + true", "does not take (bool, bool)"),
        ("null * 1", "does not take (null, int)"),
        ("[1] - [1]", "does not take (list, list)"),
    ],
)
def test_what_has_no_result_fails_with_the_reason(written, reason):
    assert reason in failure(written)


@pytest.mark.parametrize("written", ["big + 0", "0 - big", "big - big", "big / 1", "big % 2", "big * 0", "-big"])
def test_a_json_number_beyond_64_bits_cannot_be_reckoned_with(written):
    assert "64 bits" in failure(written, big=2**63)


def test_a_json_number_beyond_64_bits_can_be_compared_and_handed_on():
    assert value("big > 1 && big == big ? big : 0", big=2**80) == 2**80


@UNTIMED
@given(INTS, INTS, st.sampled_from("+-*/%"))
def test_whole_numbers_are_those_of_a_machine_with_64_bits_that_tells_of_overflow(left, right, sign):
    expected = _model(left, right, sign)
    if expected is None or not -(2**63) <= expected < 2**63:
        with pytest.raises(EvaluationFailed):
            value(f"a {sign} b", a=left, b=right)
    else:
        assert exactly(value(f"a {sign} b", a=left, b=right)) == exactly(expected)


@UNTIMED
@given(UINTS, UINTS, st.sampled_from("+-*/%"))
def test_unsigned_numbers_are_those_of_a_machine_with_64_bits_that_tells_of_overflow(left, right, sign):
    expected = _model(left, right, sign)
    expression = compile_expression(f"{left}u {sign} {right}u")
    if expected is None or not 0 <= expected < 2**64:
        with pytest.raises(EvaluationFailed):
            expression.evaluate({})
    else:
        assert exactly(expression.evaluate({})) == exactly(UInt(expected))


def _model(left: int, right: int, sign: str) -> int | None:
    if sign in "/%":
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if sign == "/" else left - quotient * right
    return {"+": left + right, "-": left - right, "*": left * right}[sign]
