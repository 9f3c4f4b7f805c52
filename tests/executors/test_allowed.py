"""What operators allow the built-in executors, as they set it."""

from __future__ import annotations

import pytest

from stepfast import Invalid
from stepfast.settings import read_settings
from stepfast.workflows.executors.allowed import Allowed


def allowed(tmp_path, **variables: str) -> Allowed:
    return read_settings({}, {f"STEPFAST_{name}": value for name, value in variables.items()}, tmp_path).allowed


def test_by_default_nothing_is_allowed(tmp_path):
    assert allowed(tmp_path) == Allowed((), (), (), ())


def test_each_setting_is_a_list_with_commas(tmp_path):
    given = allowed(
        tmp_path,
        COMMANDS="git, /bin/ls",
        COMMAND_ENV="HOME,LANG",
        HTTP_PRIVATE="10.0.0.0/8, ::1",
        CALL_MODULES="shop.*",
    )
    assert given == Allowed(("git", "/bin/ls"), ("HOME", "LANG"), ("10.0.0.0/8", "::1"), ("shop.*",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("COMMANDS", "git,,ls"),
        ("COMMAND_ENV", "HOME,*"),
        ("COMMAND_ENV", "A=B"),
        ("HTTP_PRIVATE", "localhost"),
        ("HTTP_PRIVATE", "10.0.0.1/8"),
        ("CALL_MODULES", "a,\n"),
        ("CALL_MODULES", "a-b"),
        ("CALL_MODULES", ".."),
        ("CALL_MODULES", "a..b"),
        ("CALL_MODULES", ".a"),
        ("CALL_MODULES", "shop.1"),
        ("CALL_MODULES", "shop:order"),
        ("CALL_MODULES", "shop/order.py"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_is_allowed(tmp_path, name, value):
    with pytest.raises(Invalid, match=f"STEPFAST_{name} is .*; allowed is "):
        allowed(tmp_path, **{name: value})


@pytest.mark.parametrize("pattern", ["*", "shop.*", "shop.orders", "shop*", "shop.*.orders", "sh*rs"])
def test_a_pattern_of_modules_may_have_stars(tmp_path, pattern):
    assert allowed(tmp_path, CALL_MODULES=f"other, {pattern}").has_module("shop.old.orders") == (
        pattern != "shop.orders"
    )
