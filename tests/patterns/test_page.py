"""The page has all patterns, says what each means, and each has a test of its own."""

from __future__ import annotations

import re
from pathlib import Path

from tests.patterns.page import PATTERNS, patterns

_TEST = re.compile(r"^async def test_wcp_(\d+)_", re.MULTILINE)


def test_the_page_has_every_pattern_once():
    assert sorted(patterns()) == list(PATTERNS)


def test_every_pattern_has_a_meaning_and_something_to_run():
    lacking = [each.number for each in patterns().values() if not each.meaning or not each.is_run]
    assert lacking == []


def test_every_pattern_that_can_be_run_is_held_to_its_meaning():
    tested = {
        int(number) for file in Path(__file__).parent.glob("test_*.py") for number in _TEST.findall(file.read_text())
    }
    assert tested == {each.number for each in patterns().values() if each.is_run}
