"""Values that come without a hint are stored by their own types, or refused with what to do about them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest

from stepfast.kernel.errors import InvalidDefinition, Unstorable
from stepfast.workflows.given import text_given

if TYPE_CHECKING:
    from sqlite3 import Connection


@dataclass
class Price:
    amount: Decimal


@dataclass
class Held:
    inner: Any


@dataclass
class Unfinished:
    part: Connection | None


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (3, "3"), ([1, "a"], '[1,"a"]'), (Price(Decimal("1.50")), '{"amount":"1.50"}')]
)
def test_a_value_is_stored_by_its_own_type(value, text):
    assert text_given(value, "It") == text


@pytest.mark.parametrize("value", [print, Lock(), lambda: 1, [Lock()], Held(Lock()), object()])
def test_what_has_no_form_in_json_cannot_be_stored(value):
    with pytest.raises(Unstorable, match=r"^The value cannot be stored: .* use a dataclass or model"):
        text_given(value, "The value")


def test_a_class_that_is_not_fully_defined_is_told_as_such():
    with pytest.raises(InvalidDefinition, match="Unfinished"):
        text_given(Unfinished(None), "The value")
