"""What tests of an app's doors may ask for."""

from __future__ import annotations

import pytest

from tests.support.asking import KEYS


@pytest.fixture
def token_keys(monkeypatch):
    """A key for resume tokens, as an operator sets it."""
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
