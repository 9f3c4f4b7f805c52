"""From one kind of value to another."""

import math

import pytest

from stepfast.workflows.expressions import UInt
from stepfast.workflows.expressions.spans import Moment, Span
from tests.expressions.support import exactly, failure, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("int(42u)", 42),
        ("int(-7.9)", -7),
        ("int('-12')", -12),
        ("int(5)", 5),
        ("int(timestamp('2009-02-13T23:31:30Z'))", 1234567890),
        ("uint(3.9)", UInt(3)),
        ("uint(7)", UInt(7)),
        ("uint('300')", UInt(300)),
        ("uint(1e19)", UInt(10**19)),
        ("double(3)", 3.0),
        ("double(3u)", 3.0),
        ("double('-1.5e3')", -1500.0),
        ("double('NaN')", math.nan),
        ("string(123)", "123"),
        ("string(9u)", "9"),
        ("string(123.456)", "123.456"),
        ("string(-4.5e-3)", "-0.0045"),
        ("string(2.0)", "2"),
        ("string(true)", "true"),
        ("string('a')", "a"),
        ("string(b'\\303\\277')", "ÿ"),
        ("string(timestamp('2030-01-31T12:00:00.5+02:00'))", "2030-01-31T10:00:00.5Z"),
        ("string(duration('1h1.5s'))", "3601.5s"),
        ("string(duration('-1ms'))", "-0.001s"),
        ("bytes('ÿ')", b"\xc3\xbf"),
        ("bool('true')", True),
        ("bool('0')", False),
        ("timestamp(0)", Moment(0)),
        ("timestamp('2030-01-31T12:00:00Z')", Moment(1_896_091_200 * 10**9)),
        ("duration('1h30m')", Span(5_400 * 10**9)),
        ("dyn([1, 'a'])", [1, "a"]),
        ("string(1) + string(true)", "1true"),
    ],
)
def test_a_value_becomes_one_of_another_kind(written, meant):
    assert exactly(value(written)) == exactly(meant)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("null", "null_type"),
        ("true", "bool"),
        ("1", "int"),
        ("1u", "uint"),
        ("1.0", "double"),
        ("''", "string"),
        ("b''", "bytes"),
        ("[]", "list"),
        ("{}", "map"),
        ("int", "type"),
        ("type(1)", "type"),
        ("timestamp(0)", "google.protobuf.Timestamp"),
        ("duration('0')", "google.protobuf.Duration"),
    ],
)
def test_every_value_has_a_type_that_can_be_named(written, name):
    assert value(f"type({written}) == {name}") is True


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("int(18446744073709551615u)", "64 bits"),
        ("int(1e99)", "64 bits"),
        ("int(0.0 / 0.0)", "64 bits"),
        ("int(9223372036854775807.0)", "64 bits"),
        ("int('abc')", "no whole number"),
        ("int(' 1')", "no whole number"),
        ("int('1_000')", "no whole number"),
        ("int('٣')", "no whole number"),
        ("uint(-1)", "64 bits"),
        ("uint(-1.0)", "64 bits"),
        ("uint(-0.5)", "64 bits"),
        ("uint('-1')", "64 bits"),
        ("double('1e')", "no number"),
        ("double('0x10')", "no number"),
        ("double(big)", "larger than a double"),
        ("string(big)", "64 bits"),
        ("string(b'\\xff')", "UTF-8"),
        ("string(null)", "does not take (null)"),
        ("string([1])", "does not take (list)"),
        ("bool('yes')", "neither true nor false"),
        ("bool(1)", "does not take (int)"),
        ("int(true)", "does not take (bool)"),
        ("timestamp('yesterday')", "no timestamp"),
        ("duration('1 hour')", "no duration"),
        ("bytes(lone)", "surrogate"),
    ],
)
def test_what_cannot_be_converted_fails_with_the_reason(written, reason):
    assert reason in failure(written, big=10**400, lone="\ud800")
