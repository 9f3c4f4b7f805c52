"""Functions of texts and lists, and the ways in which functions are called."""

import contextlib

import pytest

from stepfast.workflows.expressions import EvaluationFailed, UInt
from tests.expressions.support import exactly, failure, problem, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("size('😀é')", 2),
        ("'😀é'.size()", 2),
        ("size(b'\\xff\\x00')", 2),
        ("size([1, [2, 3]])", 2),
        ("{'a': 1}.size()", 1),
        ("'abc'.startsWith('ab')", True),
        ("'abc'.endsWith('ab')", False),
        ("'abc'.contains('b')", True),
        ("'abc'.contains('')", True),
        ("'AbÇ'.lowerAscii()", "abÇ"),
        ("'abç'.upperAscii()", "ABç"),
        ("'  a b\\n'.trim()", "a b"),
        ("'a,b,,c'.split(',')", ["a", "b", "", "c"]),
        ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
        ("'a,b'.split(',', 0)", []),
        ("'a,b'.split(',', -1)", ["a", "b"]),
        ("'abc'.split('')", ["a", "b", "c"]),
        ("'abc'.split('', 2)", ["a", "bc"]),
        ("['a', 'b'].join()", "ab"),
        ("['a', 'b'].join('-')", "a-b"),
        ("[].join(',')", ""),
        ("'aaa'.replace('a', 'b')", "bbb"),
        ("'aaa'.replace('a', 'b', 2)", "bba"),
        ("'ab'.replace('', '-')", "-a-b-"),
        ("'hello'.substring(1)", "ello"),
        ("'hello'.substring(1, 3)", "el"),
        ("'hello'.substring(5)", ""),
        ("'hello'.indexOf('l')", 2),
        ("'hello'.indexOf('l', 3)", 3),
        ("'hello'.indexOf('x')", -1),
        ("'héllo'.charAt(1)", "é"),
        ("'hello'.charAt(5)", ""),
        ("'hello'.lastIndexOf('l')", 3),
        ("'hello'.lastIndexOf('l', 2)", 2),
        ("'hello'.lastIndexOf('lo', 2)", -1),
        ("'hello'.lastIndexOf('')", 5),
        ("'hello'.lastIndexOf('x')", -1),
        ("[1, 2, 3].sum()", 6),
        ("[1.5, 2.5].sum()", 4.0),
        ("[1u, 2u].sum()", UInt(3)),
        ("[].sum()", 0),
        ("[2, 1.5, 3u].min()", 1.5),
        ("['b', 'a'].max()", "b"),
        ("[3, 1, 2].sort()", [1, 2, 3]),
        ("['b', 'a'].sort()", ["a", "b"]),
        ("[1, 1.0, '1', true, true, [1], [1.0], null, null].distinct()", [1, "1", True, [1], None]),
        ("[[1], [2, [3]], 4].flatten()", [1, 2, [3], 4]),
        ("[[1], [2, [3]]].flatten(2)", [1, 2, 3]),
        ("[[1]].flatten(0)", [[1]]),
        ("matches('abc', 'b')", True),
    ],
)
def test_a_function_gives_what_the_reference_says(written, meant):
    assert exactly(value(written)) == exactly(meant)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("size(1)", "size does not take (int)"),
        ("null.size()", "size does not take (null)"),
        ("'a'.startsWith(1)", "startsWith does not take (string, int)"),
        ("[1].contains(1)", "contains does not take (list, int)"),
        ("'a'.substring(2)", "no part from 2"),
        ("'abc'.substring(2, 1)", "no part from 2 to 1"),
        ("'abc'.substring(-1)", "no part from -1"),
        ("'abc'.indexOf('a', 9)", "cannot be searched from 9"),
        ("'abc'.lastIndexOf('a', 9)", "cannot be searched from 9"),
        ("'abc'.charAt(4)", "there is no character 4"),
        ("'abc'.charAt(-1)", "there is no character -1"),
        ("[1].join()", "join needs texts"),
        ("[1, 'a'].sum()", "does not take"),
        ("['a'].sum()", "sum needs numbers"),
        ("[[1]].sum()", "sum needs numbers"),
        ("[9223372036854775807, 1].sum()", "64 bits"),
        ("[].min()", "empty list"),
        ("[1, 'a'].max()", "does not take"),
        ("[null].min()", "does not take"),
        ("[1, 'a'].sort()", "does not take"),
        ("[1].flatten(-1)", "0 or more"),
    ],
)
def test_a_function_refuses_what_it_cannot_take(written, reason):
    assert reason in failure(written)


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("sizee('a')", "Did you mean 'size'?"),
        ("'a'.startswith('a')", "Did you mean 'startsWith'?"),
        ("[1].exist(x, x)", "Did you mean 'exists'?"),
        ("startsWith('a', 'b')", "write x.startsWith(y)"),
        ("'1'.int()", "write int(x)"),
        ("size()", "write x.size()"),
        ("size('a', 'b')", "write x.size()"),
        ("'a'.split()", "write x.split(y, z); what comes last may be left out"),
        ("open('file')", ""),
        ("__import__('os')", ""),
    ],
)
def test_a_call_of_nothing_is_a_problem_that_names_the_right_form(written, hint):
    assert problem(written).hint == hint


@pytest.mark.parametrize(
    "written",
    [
        "'a'.split('b', n)",
        "'a'.replace('a', 'b', n)",
        "'a'.substring(n)",
        "'a'.indexOf('a', n)",
        "'a'.charAt(n)",
        "[[1]].flatten(n)",
    ],
)
def test_a_number_of_any_size_breaks_no_function(written):
    for n in (2**70, -(2**70)):
        with contextlib.suppress(EvaluationFailed):
            assert value(written, n=n)
