"""Each house rule catches what it is there for, and leaves the rest alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import generate_docs, house

# Put together here, so that neither the rules nor a search by text take these samples for the real thing.
ELSEWHERE = f"/{'root'}/x"
MARK = "@pytest." + "mark."
SKIP = "pytest." + "skip"
SLEEP = "sle" + "ep"
SILENCER = "# type: " + "ignore"

CAUGHT = {
    "a long module": (house.stays_short, "pass\n" * 501),
    "an open end": (house.is_finished, f"# {'TO'}DO later\n"),
    "a stub": (house.is_finished, f"raise Not{'Implemented'}Error\n"),
    "a silenced type checker": (house.satisfies_the_type_checker, f"x = y  {SILENCER}[attr-defined]\n"),
    "a path of one machine": (house.names_no_machine, f"open('{ELSEWHERE}')\n"),
    "a skipped test": (house.runs_every_test, f"{MARK}skip\ndef test(): ...\n"),
    "a conditionally skipped test": (house.runs_every_test, f"{MARK}skipif(True)\ndef test(): ...\n"),
    "a test expected to fail": (house.runs_every_test, f"{MARK}xfail\ndef test(): ...\n"),
    "a skip in the middle": (house.runs_every_test, f"{SKIP}('no server')\n"),
    "a sleep": (house.does_not_sleep, f"time.{SLEEP}(0.1)\n"),
    "an awaited sleep": (house.does_not_sleep, f"async def test(): await asyncio.{SLEEP}(2)\n"),
    "a sleep by another name": (house.does_not_sleep, f"from time import {SLEEP}\n"),
    "a dead link": (house.has_links_that_resolve, "[gone](gone.md)\n"),
    "a dead image": (house.has_links_that_resolve, "![gone](gone.png)\n"),
    "a dead anchor": (house.has_links_that_resolve, "# Here\n\n[gone](#there)\n"),
}

LEFT_ALONE = {
    "a module at the limit": (house.stays_short, "pass\n" * 500),
    "a step that was skipped": (house.runs_every_test, "assert step.state is StepState.skip\n"),
    "a turn of the event loop": (house.does_not_sleep, f"async def test(): await asyncio.{SLEEP}(0)\n"),
    "a durable sleep": (house.does_not_sleep, "stepfast.sleep('5m')\n"),
    "a link to the web": (house.has_links_that_resolve, "[there](https://example.org)\n"),
    "a link to itself": (house.has_links_that_resolve, "# Here we are\n\n[up](#here-we-are)\n"),
    "a link in code": (house.has_links_that_resolve, "`[gone](gone.md)`\n"),
    "a path in an address": (house.names_no_machine, f"https://example.org{ELSEWHERE}\n"),
}


def complaints(rule: house.Rule, text: str, folder: Path) -> list[tuple[int, str]]:
    path = folder / "file.md"
    path.write_text(text)
    return list(rule(path))


@pytest.mark.parametrize(("rule", "text"), CAUGHT.values(), ids=CAUGHT)
def test_a_breach_is_caught(rule, text, tmp_path):
    assert complaints(rule, text, tmp_path)


@pytest.mark.parametrize(("rule", "text"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_good_work_is_left_alone(rule, text, tmp_path):
    assert complaints(rule, text, tmp_path) == []


def test_the_kernel_is_held_shorter(tmp_path):
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    assert complaints(house.stays_short, "pass\n" * 301, kernel)


def test_a_stale_page_is_caught(tmp_path, monkeypatch):
    page = tmp_path / "file.md"
    monkeypatch.setitem(generate_docs.GENERATORS, page, lambda: "fresh")
    assert complaints(house.is_fresh, "stale", tmp_path)
    assert complaints(house.is_fresh, "fresh", tmp_path) == []


def test_an_error_without_a_remedy_is_refused(monkeypatch):
    monkeypatch.delitem(generate_docs.REMEDIES, "E-RUN-001")
    with pytest.raises(SystemExit, match="E-RUN-001 has no remedy"):
        generate_docs.errors_page()
