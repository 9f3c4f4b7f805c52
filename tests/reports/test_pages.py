"""The page of a report: what browsers, printers and people who hear it read aloud need."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from stepfast.kernel.definitions import DefinitionId, DefinitionKind, DefinitionView
from stepfast.kernel.states import StepState
from stepfast.reports import report
from stepfast.reports.graph import drawn
from stepfast.reports.html import STYLE
from stepfast.reports.svg import _OTHER, _PAPER
from tests.reports.support import NOON, Page, event, reconstruction, record

TEMPLATE = """{
    "stepfast": 1,
    "workflow": "order",
    "steps": [
        {"id": "read", "use": "docs.read"},
        {"id": "publish", "needs": ["read"], "do": [{"id": "reserve", "use": "a.b"}, {"id": "post", "use": "a.c"}]},
        {"id": "tell", "needs": ["publish"], "emit": {"type": "told"}}
    ]
}"""


def template(content: str = TEMPLATE, kind: DefinitionKind = DefinitionKind.TEMPLATE) -> DefinitionView:
    return DefinitionView(1, DefinitionId("d"), "acme", "order", 1, "digest", kind, content, NOON, "ann")


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("paper", "ink"), [(paper, ink) for paper, ink, _ in (*_PAPER.values(), _OTHER)])
def test_the_words_in_the_picture_can_be_read_by_people_who_see_little(paper, ink):
    assert contrast(paper, ink) >= 7


@pytest.mark.parametrize("ink", re.findall(r"[{ ;]color: (#[0-9a-f]{6})", STYLE))
def test_the_words_of_the_page_can_be_read_by_people_who_see_little(ink):
    assert contrast("#ffffff", ink) >= 7


def test_the_policy_of_the_page_allows_its_own_style_and_nothing_else():
    page = report(reconstruction(), "html")
    style = page.partition("<style>")[2].partition("</style>")[0]
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_tables_have_heads_with_scopes_and_captions():
    page = Page(report(reconstruction(events=[event(1, "started")], steps=(record(1, "charge"),)), "html"))
    scopes = [value for tag, name, value in page.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == page.tags.count("th")
    assert page.tags.count("caption") == page.tags.count("table") - 1


def test_links_lead_to_sections_that_are_there():
    page = Page(report(reconstruction(), "html"))
    ids = {value for _, name, value in page.attributes if name == "id"}
    links = {value.removeprefix("#") for _, name, value in page.attributes if name == "href"}
    assert links
    assert links <= ids


def test_the_picture_says_what_it_shows_to_those_who_do_not_see_it():
    page = Page(report(reconstruction(steps=(record(1, "charge", StepState.FAILED),)), "html"))
    assert ("svg", "role", "img") in page.attributes
    assert "charge: failed" in page.text


def test_a_plan_is_drawn_with_what_became_of_each_step():
    steps = [record(1, "read"), record(2, "reserve"), record(3, "post", StepState.FAILED)]
    picture, left_out = drawn(template(), steps)
    assert [(node.id, node.state, node.layer) for node in picture.nodes] == [
        ("read", "completed", 0),
        ("publish", "failed", 1),
        ("reserve", "completed", 2),
        ("post", "failed", 3),
        ("tell", "not done", 4),
    ]
    assert set(picture.arrows) == {(0, 1), (1, 2), (2, 3), (3, 4)}
    assert left_out == 0


@pytest.mark.parametrize(
    "content", ["{}", "[]", "7", "no json", '{"stepfast": 1, "steps": [{"id": 7}]}', '{"steps": 1}']
)
@pytest.mark.parametrize("kind", DefinitionKind)
def test_a_definition_that_cannot_be_read_leaves_the_steps_that_were_done(content, kind):
    picture, _ = drawn(template(content, kind), [record(1, "charge")])
    assert "charge" in [node.id for node in picture.nodes]


def test_steps_of_a_function_that_overlapped_stand_side_by_side():
    steps = [
        record(1, "a", started_at=NOON, ended_at=NOON + 10),
        record(2, "b", started_at=NOON + 5, ended_at=NOON + 20),
        record(3, "c", started_at=NOON + 20, ended_at=NOON + 30),
    ]
    picture, _ = drawn(None, steps)
    assert [(node.id, node.layer) for node in picture.nodes] == [("a", 0), ("b", 0), ("c", 1)]
    assert set(picture.arrows) == {(0, 2), (1, 2)}


def test_steps_that_there_is_no_room_for_are_counted():
    _, left_out = drawn(None, [record(number, f"s{number}", started_at=NOON + number) for number in range(1, 101)])
    assert left_out == 40
