"""Regular expressions, as RE2 has them."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.workflows.expressions import EvaluationFailed
from stepfast.workflows.expressions.budget import new_meter
from stepfast.workflows.expressions.matching import pattern_of
from tests.expressions.support import UNTIMED, failure, problem, value


def found(pattern: str, text: str) -> bool:
    return bool(value("text.matches(pattern)", text=text, pattern=pattern))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("b", "abc"),
        ("^abc$", "abc"),
        ("a.c", "a😀c"),
        ("(?s)a.c", "a\nc"),
        ("^a*$", ""),
        ("^(a+)+$", "aaa"),
        ("^(a|b)*c$", "abbac"),
        ("^a{2}$", "aa"),
        ("^a{2,}$", "aaaa"),
        ("^a{1,2}?$", "aa"),
        ("a{,2}", "a{,2}"),
        ("^[a-c]+$", "abc"),
        ("^[^a-c]+$", "xyz"),
        ("^[]a]$", "]"),
        ("^[a-]$", "-"),
        (r"^[\d\-x]+$", "1-x"),
        ("^[[:alpha:]]+$", "aZ"),
        ("^[[:^digit:]]$", "a"),
        (r"^\d\D\w\W\s\S$", "1a_- x"),
        (r"\bfoo\b", "a foo b"),
        (r"\Boo\b", "foo"),
        ("(?i)straße", "STRAßE"),
        ("(?i)^[^b]$", "a"),
        ("(?m)^b$", "a\nb\nc"),
        ("(?i:A)b", "ab"),
        ("^(?:ab)+$", "abab"),
        ("^(?P<year>[0-9]{4})-(?<month>[0-9]{2})$", "2030-01"),
        (r"^\p{Lu}\pL\P{L}$", "Aé1"),
        (r"^[\p{Nd}]$", "٣"),
        (r"^\x41\x{1F600}\101\t$", "A😀A\t"),
        (r"^\Qa.b\E$", "a.b"),
        (r"^\.\$\\$", ".$\\"),
        (r"\Aab\z", "ab"),
        ("a||b", "x"),
        ("^()*$", ""),
        ("x*", "aaa"),
        (r"^\p{Greek}+$", "αΩ"),
        (r"^\P{Greek}[^\p{Greek}]\p{^Greek}$", "abc"),
        (r"^[\p{Han}\p{Hiragana}\d]+$", "漢字かな12"),
        (r"^\p{Any}$", "\U000e0fff"),
        (r"^\PC$", "\U000e0fff"),
        ("(?i)ς", "Σ"),
        ("(?i)K", "\u212a"),
        (r"^\Qab\E+$", "abb"),
        ("^a{01}$", "a{01}"),
    ],
)
def test_a_pattern_is_found(pattern, text):
    assert found(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("d", "abc"),
        ("^b", "ab"),
        ("a$", "ab"),
        ("a$", "a\n"),
        ("^b$", "a\nb\nc"),
        ("a.c", "a\nc"),
        ("^a{2}$", "aaa"),
        ("^a{2,3}$", "a"),
        ("(?i)^[^b]$", "B"),
        ("(?i:A)b", "aB"),
        (r"^\d$", "٣"),
        (r"^\w$", "é"),
        (r"^\s$", "\u00a0"),
        (r"\bfoo\b", "afoo"),
        (r"^\Qa.b\E$", "axb"),
        ("[^a]", ""),
        (r"\p{Greek}", "abc"),
        (r"\p{C}", "\U000e0fff"),
        ("(?i)I", "\u0131"),
        (r"(?i)\W", "\u212a"),
        (r"^\Qab\E+$", "abab"),
    ],
)
def test_a_pattern_is_not_found(pattern, text):
    assert not found(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?=a)",
        "(?!a)",
        "(?<=a)b",
        "(?<!a)b",
        "(?>a)",
        "(?P=name)",
        "(?#note)",
        "a++",
        "a**",
        "a{2}{3}",
        "*a",
        "(a",
        "a)",
        "[a",
        "[b-a]",
        "a{3,2}",
        "a{1001}",
        r"\p{Klingon}",
        r"\p{greek}",
        r"\p{Cn}",
        r"\C",
        "a|{2}",
        "{2}",
        r"\q",
        "\\",
        "[[:nothing:]]",
        r"\x{110000}",
        "(a{1000}){1000}",
        "a" * 2_000,
        "(" * 100 + "a" + ")" * 100,
    ],
)
def test_what_is_not_of_re2_is_a_problem_where_it_is_written_and_a_failure_where_it_is_given(pattern):
    assert "pattern" in problem(f"'a'.matches(r'{pattern}')" if pattern != "\\" else "'a'.matches('\\\\')").message
    assert "pattern" in failure("'a'.matches(pattern)", pattern=pattern)


def test_a_repeat_inside_a_repeat_costs_no_more_than_its_length_says():
    meter = new_meter()
    assert not pattern_of("^(a|a|aa)*(a*)*b$").is_in("a" * 20_000, meter)
    assert meter[0] > 0


def test_a_long_text_costs_more_than_the_budget_holds():
    assert "steps that an expression may take" in failure("t.matches('(a|b)*c')", t="a" * 1_000_000)


SIMPLE = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\b", "^", "$", r"\w"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,2}"])).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
    ),
    max_leaves=6,
)


@UNTIMED
@given(SIMPLE, st.text("ab \n", max_size=6))
def test_python_finds_the_same(pattern, text):
    # Python's `$` also stands before a last line break, which RE2's does not.
    assert found(pattern, text) is bool(re.search(pattern.replace("$", r"\Z"), text, re.ASCII))


@UNTIMED
@given(st.text("ab(){}[]|*+?.^$\\:-,12dwpP<>=!iQE", max_size=12), st.text(max_size=5))
def test_any_text_is_a_pattern_or_refused(pattern, text):
    with contextlib.suppress(EvaluationFailed):
        assert found(pattern, text) in (True, False)
