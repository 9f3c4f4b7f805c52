"""Reconstructions made by hand: of runs that nobody would want to drive into such a state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.items import ItemView
from stepfast.kernel.rebuilding import rebuild
from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.review_views import ReviewView, SaidView, WholeReview
from stepfast.kernel.reviews import ItemKind, ReviewState, Verdict
from stepfast.kernel.states import RunState, StepState
from stepfast.kernel.views import EventView, RunView, StepView
from stepfast.workflows.codec import digest

NOON = Instant(1_750_000_000_000)
RUN_ID = RunId("01977420-dc00-7000-8000-000000000001")
VOID = frozenset({"meta", "br", "hr"})


def run(**changes: Any) -> RunView:
    facts: dict[str, Any] = dict.fromkeys(RunView._fields) | {
        "run_id": RUN_ID,
        "tenant": "acme",
        "workflow": "checkout",
        "version": 1,
        "kind": "workflow",
        "state": RunState.COMPLETED,
        "generation": 1,
        "queued_at": NOON,
        "updated_at": NOON,
        "ended_at": Instant(NOON + 5_000),
        "input": "{}",
        "value": "7",
        "code": "checkout@1",
    }
    return RunView(**facts | changes)


def event(seq: int, type_: str, data: Any = None, **changes: Any) -> EventView:
    text = data if isinstance(data, str) or data is None else json.dumps(data)
    facts: dict[str, Any] = {"step": None, "attempt": None, "token": 1, "actor": None, "data": text, "generation": 1}
    at = changes.pop("at", Instant(NOON + seq))
    return EventView(position=seq, seq=seq, run_id=RUN_ID, tenant="acme", type=type_, at=at, **facts | changes)


def record(seq: int, name: str, state: StepState = StepState.COMPLETED, **changes: Any) -> StepView:
    facts: dict[str, Any] = {
        "seq": seq,
        "call": CallId("", name, 1),
        "kind": "step",
        "state": state,
        "attempt": 1,
        "generation": 1,
        "superseded_by": None,
        "input": "{}",
        "value": None,
        "error": None,
        "started_at": Instant(NOON + seq),
        "ended_at": Instant(NOON + seq),
        "due_at": None,
    }
    return StepView(**facts | changes)


def review(shown: str = '{"sum": 1}', said: Sequence[SaidView] = (), **changes: Any) -> WholeReview:
    facts: dict[str, Any] = {
        "review_id": f"{RUN_ID}.1",
        "run_id": RUN_ID,
        "tenant": "acme",
        "generation": 1,
        "workflow": "checkout",
        "step": "ask#1",
        "kind": ItemKind.REVIEW_REQUIRED,
        "title": "Is it right?",
        "digest": digest(shown),
        "verdicts": tuple(Verdict),
        "assignee": "ann",
        "role": None,
        "quorum": 1,
        "quorum_reject": 1,
        "on_expiry": "fail",
        "escalate_to": None,
        "escalate_role": None,
        "escalations": 0,
        "subject": None,
        "opened_at": NOON,
        "due_at": None,
        "state": ReviewState.DECIDED,
        "verdict": Verdict.CONTINUE,
        "actor": "ann",
        "ended_at": Instant(NOON + 60_000),
    }
    return WholeReview(ReviewView(**facts | changes), shown, None, tuple(said), ())


def item(**changes: Any) -> ItemView:
    facts: dict[str, Any] = dict.fromkeys(ItemView._fields) | {
        "run_id": RUN_ID,
        "cause": "failed:1",
        "tenant": "acme",
        "generation": 1,
        "workflow": "checkout",
        "kind": ItemKind.FAILED,
        "title": "ValueError: no",
        "shape": "ValueError",
        "opened_at": NOON,
    }
    return ItemView(**facts | changes)


def reconstruction(**changes: Any) -> Reconstruction:
    events = tuple(changes.pop("events", ()))
    facts: dict[str, Any] = {
        "run": run(),
        "definition": None,
        "generations": (),
        "events": events,
        "steps": (),
        "reviews": (),
        "exceptions": (),
        "dead_letters": (),
        "children": (),
        "lineage": (),
        "artifacts": (),
        "state": rebuild(events),
    }
    return Reconstruction(**facts | changes)


class Page(HTMLParser):
    """An HTML page as a browser takes it apart: its elements, its texts, and whether each element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.troubles: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        self.troubles += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.troubles.append(f"</{tag}> closes nothing")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)
