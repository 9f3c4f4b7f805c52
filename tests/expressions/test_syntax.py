"""What binds tighter, and how expressions are put together."""

import pytest

from tests.expressions.support import exactly, problem, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 - 2 - 1", 4),
        ("8 / 4 / 2", 1),
        ("7 % 4 * 2", 6),
        ("-2 * 3", -6),
        ("1 - -1", 2),
        ("!true || true", True),
        ("true || false && false", True),
        ("1 < 2 == true", True),
        ("1 + 1 in [2]", True),
        ("!(1 in [2])", True),
        ("true ? 1 : false ? 2 : 3", 1),
        ("false ? 1 : false ? 2 : 3", 3),
        ("false || true ? 1 : 2", 1),
        ("!!true", True),
        ("- - 3", 3),
        ("-[1][0]", -1),
        ("[1, 2,][1]", 2),
        ("{'a': [{'b': 5}],}.a[0].b", 5),
        ("{}", {}),
        ("[]", []),
        ("size([1, 2]) + 'abc'.size()", 5),
        ("[[1], [2, 3]].map(x, x.size())", [1, 2]),
        ("{'a': 1}['a']", 1),
        ("[1, 2, 3].map(x, x * x).filter(y, y > 1)[0]", 4),
    ],
)
def test_an_expression_is_read_as_the_specification_says(written, meant):
    assert exactly(value(written)) == exactly(meant)


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ("1 +", 3),
        ("(1", 2),
        ("[1, 2", 5),
        ("{'a' 1}", 5),
        ("{'a': 1", 7),
        ("a.", 2),
        ("a..b", 2),
        ("a.1", 1),
        ("a[", 2),
        ("a ? b", 5),
        ("1 2", 2),
        ("* 2", 0),
        ("f(,)", 2),
        ("size('a',)", 9),
        ("rb'a'", 2),
        ("!-1", 1),
        ("a.true", 2),
        ("Message{a: 1}", 7),
        (".5.x()", 0),
    ],
)
def test_a_text_that_is_no_expression_is_a_problem_at_its_place(written, start):
    assert problem(written).start == start


def test_a_name_after_a_dot_is_that_of_the_scope_even_inside_a_macro():
    assert value("[1, 2].map(x, .x + x)", x=10) == [11, 12]


def test_thirty_two_levels_and_a_hundred_terms_are_not_too_many():
    assert value("(" * 40 + "1" + ")" * 40) == 1
    assert value(" + ".join(["1"] * 99)) == 99
    assert value(" || ".join(["false"] * 500)) is False
