"""Reports on single runs, for people who were not there and do not program."""

from __future__ import annotations

from datetime import UTC, tzinfo
from enum import StrEnum
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from stepfast.kernel.errors import Invalid
from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.texts import shown
from stepfast.reports import doing, people, proof, summary, things, timeline
from stepfast.reports.blocks import Document
from stepfast.reports.html import as_html
from stepfast.reports.markdown import as_markdown
from stepfast.reports.proving import Proof, prove
from stepfast.reports.texts import Times, name

__all__ = ["Form", "Proof", "check_form", "prove", "report"]


class Form(StrEnum):
    """What a report can be written as."""

    MARKDOWN = "md"
    HTML = "html"


def report(
    reconstruction: Reconstruction, form: str = Form.MARKDOWN, *, tz: str | tzinfo = UTC, proof: Proof | None = None
) -> str:
    """What happened to a run, in words; of everything that is long the beginning, so that a report has an end.

    Times are those of `tz`, a zone or its name. `proof` is what `prove` has found of the seals.
    """
    wanted, zone = check_form(form, tz)
    document = _document(reconstruction, Times(zone), proof)
    return as_html(document) if wanted is Form.HTML else as_markdown(document)


def check_form(form: str, tz: str | tzinfo = UTC) -> tuple[Form, tzinfo]:
    """The form and the zone that are meant; before anything is read for them."""
    if form not in tuple(Form):
        raise Invalid(f"A report cannot be written as {shown(form)}; use 'md' or 'html'.")
    return Form(form), _zone(tz)


def _document(found: Reconstruction, times: Times, given: Proof | None) -> Document:
    sections = [
        summary.values(found, times),
        doing.picture(found),
        people.decisions(found, times),
        people.changes(found, times),
        people.exceptions(found, times),
        *things.facts(found, times),
        timeline.timeline(found, times),
        doing.steps(found, times),
        *things.children(found, times),
        *things.assets(found, times),
        proof.proof(found, given, times),
    ]
    footer = f"Made of the events and records of run {name(found.run.run_id)} up to event {found.state.event:,}."
    return Document(summary.title(found), list(summary.summary(found, times)), sections, footer)


def _zone(given: str | tzinfo) -> tzinfo:
    if isinstance(given, tzinfo):
        return given
    if given == "UTC":
        return UTC
    try:
        return ZoneInfo(given)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError):
        raise Invalid(f"The time zone is {shown(given)}; use a name like 'Europe/Berlin'.") from None
