"""Errors by name."""

from __future__ import annotations

import pytest

from stepfast.kernel.error_kinds import error_kind, error_kinds, is_transient
from stepfast.kernel.errors import Invalid, StepTimeout, StoreUnavailable, Transient, WaitTimeout
from stepfast.kernel.retry import Retry


class Busy(Exception):
    """Says of itself that it will pass."""

    transient = True


class Gone(ConnectionError):
    """Says of itself that it will not."""

    transient = False


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectionResetError(), True),
        (OSError(5, "input/output error"), True),
        (TimeoutError(), True),
        (BrokenPipeError(), True),
        (StoreUnavailable("away"), True),
        (Transient("busy"), True),
        (Busy(), True),
        (Gone(), False),
        (FileNotFoundError(), False),
        (PermissionError(), False),
        (ValueError(), False),
        (Invalid("no"), False),
        (StepTimeout("late"), False),
        (WaitTimeout("late"), False),
    ],
)
def test_what_will_pass_by_itself_is_transient(error, passes):
    assert is_transient(error) is passes
    assert isinstance(error, error_kind("transient")) is passes


@pytest.mark.parametrize("error", [TimeoutError(), StepTimeout("late"), WaitTimeout("late")])
def test_what_took_too_long_is_a_timeout(error):
    assert isinstance(error, error_kind("timeout"))


@pytest.mark.parametrize("name", ["StepTimeout", "StepfastError", "stepfast.kernel.errors.StepTimeout", "E-STEP-002"])
def test_an_error_is_known_by_its_class_its_bases_and_its_code(name):
    assert isinstance(StepTimeout("late"), error_kind(name))
    assert not isinstance(KeyError(), error_kind(name))


def test_a_name_is_one_class():
    assert error_kind("KeyError") is error_kind("KeyError")


def test_a_retry_takes_errors_by_name():
    retry = Retry(attempts=2, on=error_kinds(["transient"]), never=error_kinds(["Gone"]))
    assert retry.allows(1, ConnectionResetError())
    assert not retry.allows(1, Gone())
    assert not retry.allows(1, ValueError())
    assert retry.allows(1, ExceptionGroup("several", [ConnectionResetError(), Busy()]))
    assert not retry.allows(1, ExceptionGroup("several", [ConnectionResetError(), ValueError()]))


def test_what_is_no_error_is_of_no_kind():
    assert not isinstance("transient", error_kind("transient"))
