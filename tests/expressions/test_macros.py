"""Walks over lists and maps."""

import pytest

from tests.expressions.support import failure, problem, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[1, 2, 3].all(x, x > 0)", True),
        ("[1, 2, 3].all(x, x > 1)", False),
        ("[].all(x, 1 / 0 == 1)", True),
        ("[1, 2, 3].all(x, 6 / (2 - x) == 6)", False),
        ("{'a': 1, 'b': 2}.all(k, k < 'c')", True),
        ("[1, 2].exists(x, x == 2)", True),
        ("[1, 2].exists(x, x == 3)", False),
        ("[].exists(x, true)", False),
        ("[0, 2].exists(x, 4 / x == 2)", True),
        ("{'a': 1}.exists(k, k == 'a')", True),
        ("[1, 2, 2].exists_one(x, x == 1)", True),
        ("[1, 2, 2].exists_one(x, x == 2)", False),
        ("[].exists_one(x, true)", False),
        ("[1, 2].map(x, x * 2)", [2, 4]),
        ("[1, 2, 3].map(x, x > 1, x * 2)", [4, 6]),
        ("{'a': 1, 'b': 2}.map(k, k + '!')", ["a!", "b!"]),
        ("[1, 2, 3].filter(x, x % 2 == 1)", [1, 3]),
        ("{'a': 1, 'b': 2}.filter(k, k == 'b')", ["b"]),
        ("[[1, 2], [3]].map(x, x.map(y, y + x.size()))", [[3, 4], [4]]),
        ("[1, 2].map(x, [x, 10].map(x, x + 1))", [[2, 11], [3, 11]]),
        ("[{'n': 1}, {'n': 5}].filter(i, i.n > 2).map(i, i.n)", [5]),
        ("[1, 2].map(x, x == limit ? 'same' : 'other')", ["other", "same"]),
        ("[[1, 'a'], [2]].exists(x, x.exists(y, y == 'a') && x.size() == limit)", True),
    ],
)
def test_a_macro_gives_what_the_specification_says(written, meant):
    assert value(written, limit=2) == meant


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("[1, 2].all(x, 1 / 0 == 1)", "division by zero"),
        ("[1, 0].all(x, 1 / x == 1)", "division by zero"),
        ("[1, 0].exists(x, 1 / x == 5)", "division by zero"),
        ("[1, 1, 0].exists_one(x, 1 / x == 1)", "division by zero"),
        ("[1, 0].map(x, 1 / x)", "division by zero"),
        ("[1, 0].filter(x, 1 / x == 1)", "division by zero"),
        ("[1].filter(x, x)", "true or false is needed"),
        ("[1].exists_one(x, x)", "true or false is needed"),
        ("'abc'.map(x, x)", "a list or a map is needed"),
        ("1.all(x, true)", "a list or a map is needed"),
    ],
)
def test_a_macro_fails_as_the_specification_says(written, reason):
    assert reason in failure(written)


@pytest.mark.parametrize(
    "written",
    ["[1].map(1, 2)", "[1].all(a.b, true)", "[1].map(.x, 1)", "[1].all(x, true, true)", "[1].map(x)", "all(x)"],
)
def test_a_macro_needs_a_name_and_an_expression(written):
    assert problem(written).message


def test_a_macro_variable_is_gone_after_its_macro():
    assert "nothing is called 'x' here" in failure("[1].map(x, x) == [1] && x == 1")
