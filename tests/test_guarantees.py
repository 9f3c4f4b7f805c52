"""The page that says where each promise is proved names tests that exist, and leaves no promise out."""

from __future__ import annotations

import re

import pytest

from tools.generate_docs import ROOT

PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
NAMED = sorted(set(re.findall(r"`((?:tests|src/stepfast/conformance)/[\w/]+\.py(?:::\w+)?)`", PAGE)))
TWINS = (ROOT / "docs" / "decisions" / "broken-twins.md").read_text()
PROMISES = [f"P{number}" for number in (*range(1, 18), *range(19, 24))] + [f"L{number}" for number in range(1, 10)]


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


def files_with_twins() -> list[str]:
    """The files of tests in which a guard is taken out."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if re.search(r"def test_(\w+_)?twin_", file.read_text())]


def test_every_file_in_which_a_guard_is_taken_out_stands_in_the_table():
    assert [file for file in files_with_twins() if f"`{file}`" not in TWINS] == []


def test_every_file_that_the_table_names_exists():
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", TWINS))
    assert [file for file in sorted(named) if not is_there(file)] == []
