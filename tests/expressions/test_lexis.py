"""Words: numbers, texts, bytes, names."""

import pytest

from stepfast.workflows.expressions import UInt
from tests.expressions.support import exactly, problem, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("42", 42),
        ("007", 7),
        ("0xFf", 255),
        ("-0x10", -16),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        ("1u", UInt(1)),
        ("0xFU", UInt(15)),
        ("18446744073709551615u", UInt(2**64 - 1)),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("2.5E-1", 0.25),
        ("--5", 5),
        ("true", True),
        ("false", False),
        ("null", None),
    ],
)
def test_a_number_or_word_is_the_value_that_it_says(written, meant):
    assert exactly(value(written)) == exactly(meant)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('""', ""),
        ("'a\"b'", 'a"b'),
        (r'"a\"b"', 'a"b'),
        (r"'\\'", "\\"),
        (r"'\a\b\f\n\r\t\v\?\`'", "\a\b\f\n\r\t\v?`"),
        (r"'\x41\X42\u00e9\U0001F600'", "ABé😀"),
        (r"'\303\277'", "Ã¿"),
        (r"r'\n'", r"\n"),
        (r'R"\\"', r"\\"),
        ("'''a'\n'b'''", "a'\n'b"),
        ('"""x""y"""', 'x""y'),
        ("r'''\\'''", "\\"),
        ("'ünïcode'", "ünïcode"),
    ],
)
def test_a_text_is_what_stands_between_its_quotes(written, meant):
    assert value(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("b'abc'", b"abc"),
        ('B"ÿ"', b"\xc3\xbf"),
        (r"b'\377\xfe'", b"\xff\xfe"),
        (r"br'\n'", b"\\n"),
        (r"Br'\n'", b"\\n"),
        (r"b'\n'", b"\n"),
        ("b'''a\nb'''", b"a\nb"),
    ],
)
def test_bytes_are_their_characters_in_utf_8_or_octets(written, meant):
    assert value(written) == meant


def test_white_space_and_comments_mean_nothing():
    assert value("1 // one\n\t+ // and\r\n2\f") == 3


@pytest.mark.parametrize(
    ("written", "start", "end"),
    [
        ("9223372036854775808", 0, 19),
        ("1 + -9223372036854775809", 5, 24),
        ("18446744073709551616u", 0, 21),
        ("9" * 5_000, 0, 5_000),
        ("1e999", 0, 5),
        ("a + 'abc", 4, 8),
        ("'a\nb'", 0, 5),
        (r"'ab\q'", 3, 5),
        (r"'\8'", 1, 3),
        (r"'\ud800'", 1, 7),
        (r"'\ud83d\ude00'", 1, 7),
        (r"'\U00110000'", 1, 11),
        (r"b'\u0041'", 2, 8),
        ("a # b", 2, 3),
        ("naïve", 2, 3),
        ("a = 1", 2, 3),
        ("a & b", 2, 3),
        ("", 0, 0),
        ("   ", 0, 3),
    ],
)
def test_what_is_no_word_is_a_problem_at_its_place(written, start, end):
    found = problem(written)
    assert (found.start, found.end) == (start, end)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("a = 1", "write == to compare"),
        ("a & b", "write &&"),
        ("a and b", "write &&"),
        ("not a", "write !"),
        ("a == None", "write null"),
    ],
)
def test_a_word_of_another_language_is_answered_with_ours(written, hint):
    assert problem(written).hint == hint


@pytest.mark.parametrize("word", ["as", "if", "in", "for", "let", "while", "package", "return"])
def test_a_reserved_word_is_no_name(word):
    assert problem(f"1 + {word}").start == 4


def test_a_reserved_word_may_be_a_field():
    assert value("a.package", a={"package": 1}) == 1


def test_a_field_with_other_letters_is_quoted_or_indexed():
    assert value("a.`x-y` + a['ü']", a={"x-y": 1, "ü": 2}) == 3
