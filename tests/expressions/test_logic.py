"""`&&`, `||`, `!` and `? :`."""

import pytest

from tests.expressions.support import failure, value

ERROR = "1 / 0 == 1"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (f"false && {ERROR}", False),
        (f"{ERROR} && false", False),
        (f"true || {ERROR}", True),
        (f"{ERROR} || true", True),
        (f"true && {ERROR} && false", False),
        (f"{ERROR} || {ERROR} || true", True),
        (f"({ERROR} && false) || true", True),
        (f"!({ERROR} && false)", True),
        ("a.b.c == 1 || true", True),
        ("'text' || true", True),
        ("false && 1", False),
        ("1 && false", False),
        (f"true ? 1 : {ERROR}", 1),
        (f"false ? {ERROR} : 2", 2),
    ],
)
def test_a_failure_is_of_no_account_where_the_other_side_decides(written, meant):
    assert value(written, a={}) == meant


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (f"true && {ERROR}", "division by zero"),
        (f"{ERROR} && true", "division by zero"),
        (f"false || {ERROR}", "division by zero"),
        (f"{ERROR} || {ERROR}", "division by zero"),
        (f"{ERROR} ? 1 : 2", "division by zero"),
        ("true && 1", "true or false is needed"),
        ("null || false", "true or false is needed"),
        ("1 ? 2 : 3", "true or false is needed"),
        ("!1", "! does not take (int)"),
        ("!null", "! does not take (null)"),
    ],
)
def test_a_failure_counts_where_nothing_decides(written, reason):
    assert reason in failure(written)


def test_the_failure_that_is_told_is_the_first():
    assert "at '1 / 0'" in failure("1 / 0 == 1 && a.b == 2", a={})
