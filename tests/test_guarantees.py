"""The page that says where each promise is proved names tests that exist, and leaves no promise out."""

from __future__ import annotations

import re

import pytest

from tools.generate_docs import ROOT

PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:tests|src/stepfast/conformance)/[\w/]+\.py(?:::\w+)?)`", PAGE)))
PROMISES = [f"P{number}" for number in (*range(1, 18), 20, 21, 22, 23)] + [f"L{number}" for number in range(1, 10)]


def is_there(named: str) -> bool:
    """Whether a test, or a file of tests, exists."""
    path, _, function = named.partition("::")
    file = ROOT / path
    return file.is_file() and bool(re.search(rf"\bdef {function or 'test_'}", file.read_text()))


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_the_page_names_exists(named):
    assert is_there(named), f"docs/reference/guarantees.md names {named}, which does not exist."


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_has_a_line_with_a_test(promise):
    assert re.search(rf"^\| {promise} \|[^|]+\| `(tests|src/stepfast/conformance)/", PAGE, re.MULTILINE)


def test_a_test_that_does_not_exist_is_found_out():
    assert not is_there("tests/test_guarantees.py::test_that_nobody_wrote")
    assert not is_there("tests/test_nothing_of_the_kind.py")
