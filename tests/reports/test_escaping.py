"""Whatever a run holds is data in its report: nothing in it becomes markup, hides, or makes the report endless."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from stepfast.kernel.events import EventType
from stepfast.kernel.review_views import SaidView
from stepfast.kernel.reviews import Verdict
from stepfast.kernel.states import RunState, StepState
from stepfast.kernel.views import EventView
from stepfast.reports import report
from stepfast.reports.markdown import escaped
from stepfast.reports.texts import LONGEST_TEXT, shown_value, visible
from tests.reports.support import NOON, Page, event, item, reconstruction, record, review, run
from tools.event_fields import FIELDS

MARKS = st.sampled_from(
    [
        *("<script>alert(1)</script>", "</style>", "</pre>", "--&gt;", "<!--", "]]>", '" onload="x', "' style='x"),
        *(
            "|",
            "||",
            "\\|",
            "`",
            "```",
            "~~~",
            "**",
            "__",
            "[a](b)",
            "![a](b)",
            "# ",
            "\n# ",
            "\n- ",
            "\n\n",
            "> ",
            "---",
        ),
        *(
            "1. ",
            "1) ",
            "+ ",
            "=",
            "\t",
            "\r\n",
            "\\",
            "&lt;",
            "&#60;",
            "$$",
            "https://evil.example",
            "www.evil.example",
        ),
        *(
            "a@evil.example",
            "\u202e",
            "\u2066",
            "\x1b[31m",
            "\x00",
            "\u2028",
            "\ud800",
            "\ufeff",
            "{{x}}",
            "${x}",
            "%%",
        ),
        *('"]', "end\n", "click n0 href", "<br/>"),
    ]
)
HOSTILE = st.lists(st.one_of(MARKS, st.text(max_size=20)), max_size=6).map("".join)
NAMES = sorted({field.name for fields in FIELDS.values() for field in fields})
ALLOWED_TAGS = frozenset(
    {
        *("html", "head", "meta", "title", "style", "body", "main", "section", "nav", "footer"),
        *("h1", "h2", "h3", "h4", "p", "ul", "li", "a", "code", "pre", "strong", "details", "summary"),
        *("table", "caption", "thead", "tbody", "tr", "th", "td"),
        *("figure", "figcaption", "svg", "defs", "marker", "path", "g", "rect", "text"),
    }
)
BLOCKS = ("heading", "paragraph", "bullet_list", "list_item", "table", "thead", "tbody", "tr", "th", "td", "blockquote")
ALLOWED_TOKENS = frozenset(
    {"inline", "fence", "hr", *(f"{name}_{side}" for name in BLOCKS for side in ("open", "close"))}
)
ALLOWED_INLINE = frozenset({"text", "code_inline", "strong_open", "strong_close", "text_special"})


def hostile(text: str):
    """A run in which everything that others can name is this text."""
    facts = {"key": text, "value": text, "message": text, "error_type": text, "reason": text, "title": text, "to": text}
    types = (
        "queued",
        "annotated",
        "failed",
        "paused",
        "review_requested",
        "rolled_back",
        "step_skipped",
        text or "own",
    )
    events: list[EventView] = [
        event(number, type_, facts | {"workflow": text, "version": 1}, actor=text, step=f"{text}#1")
        for number, type_ in enumerate(types, 1)
    ]
    value = json.dumps({text: text})
    error = json.dumps({"type": text, "message": text})
    steps = [record(1, text, value=value, input=value), record(2, "b", StepState.FAILED, error=error)]
    said = [SaidView(Verdict.CORRECT, value, text, text, NOON), SaidView(None, None, text, text, NOON)]
    return reconstruction(
        run=run(workflow=text, actor=text, subject=text, key=text, thread_id=text, input=value, metadata=value),
        events=events,
        steps=tuple(steps),
        reviews=(review(value, said, title=text, assignee=text, actor=text, step=f"{text}#1"),),
        exceptions=(item(title=text, assignee=text, step=f"{text}#1"),),
        differences=(text,),
        cut=(text,),
    )


@given(HOSTILE)
def test_no_text_becomes_html(text):
    page = Page(report(hostile(text), "html"))
    assert page.troubles == []
    assert set(page.tags) <= ALLOWED_TAGS
    assert not [each for each in page.attributes if each[1].startswith("on") or each[1] in ("style", "src")]
    assert {value[0] for tag, name, value in page.attributes if name == "href"} == {"#"}


@given(HOSTILE)
def test_no_text_becomes_markdown(text):
    tokens = MarkdownIt("commonmark").enable("table").parse(report(hostile(text), "md"))
    assert {token.type for token in tokens} <= ALLOWED_TOKENS
    inline = {child.type for token in tokens for child in token.children or ()}
    assert inline <= ALLOWED_INLINE


@given(HOSTILE)
def test_no_text_adds_a_cell_to_a_table(text):
    written = report(hostile(text), "md")
    tables = [part.splitlines() for part in written.split("\n\n") if part.startswith("| ")]
    assert tables
    assert [len({line.count("|") for line in table}) for table in tables] == [1] * len(tables)


@given(HOSTILE)
def test_an_escaped_text_reads_as_it_was(text):
    shown = visible(text)
    (paragraph,) = [
        token for token in MarkdownIt("commonmark").parse(f"x {escaped(shown)} x") if token.type == "inline"
    ]
    said = "".join(child.content for child in paragraph.children or ())
    assert said.split() == f"x {shown} x".split()


@given(st.text())
def test_nothing_in_a_visible_text_hides_or_turns_others_around(text):
    assert visible(text).isprintable()


def test_nothing_of_a_report_can_load_or_run_anything():
    page = report(reconstruction(), "html")
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "http" not in page.replace('http-equiv="Content-Security-Policy"', "").replace(
        'xmlns="http://www.w3.org/2000/svg"', ""
    )


def test_a_value_of_ten_million_characters_is_cut_with_its_length_and_digest():
    text = json.dumps("x" * 10_000_000)
    cut = shown_value(text)
    assert len(cut.text) < 3_000
    assert "10,000,002 characters in all" in cut.note


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_run_with_very_many_steps_and_events_has_a_report_with_an_end(form):
    steps = tuple(record(number, f"step-{number}", value=json.dumps("x" * 5_000)) for number in range(1, 10_001))
    events = [event(number, "step_completed", step=f"step-{number}#1") for number in range(1, 10_001)]
    written = report(reconstruction(steps=steps, events=events), form)
    assert len(written) < 1_000_000
    assert "9,500 events more in between" in written
    assert "9,700 records more; the JSON form of the reconstruction has them all." in written


def test_a_long_title_is_cut_with_its_length():
    written = report(reconstruction(run=run(subject="x" * 100_000)), "md")
    assert "100,000 characters" in written
    assert "x" * (LONGEST_TEXT + 1) not in written


def test_data_of_an_event_that_is_damaged_is_said_to_be():
    written = report(reconstruction(events=[event(1, "queued", "{not json"), event(2, "claimed", "[]")]), "md")
    assert "what was stored with this event cannot be read" in written


@pytest.mark.parametrize("data", [None, "[]", "7", '{"version": null}', '{"due_at": "soon"}', '{"due_at": 1e300}'])
def test_data_that_is_no_such_object_is_no_trouble(data):
    types = ("queued", "claimed", "retry_scheduled", "signalled", "review_decided", "token_issued", "annotated")
    events = [event(number, type_, data) for number, type_ in enumerate(types, 1)]
    assert "Timeline" in report(reconstruction(events=events), "md")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(list(EventType)), JSON, st.none() | st.text(max_size=9)), max_size=8))
def test_no_data_of_events_breaks_a_report(told):
    events = [event(number, type_, json.dumps(data), step=step) for number, (type_, data, step) in enumerate(told, 1)]
    written = report(reconstruction(events=events, reviews=(review(),), run=run(state=RunState.CANCELLED)), "html")
    assert Page(written).troubles == []
