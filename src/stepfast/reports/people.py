"""Who decided what: reviews with what was shown and what was answered, and every hand that people laid on the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepfast.kernel.blobs import is_reference
from stepfast.kernel.events import EventType
from stepfast.kernel.items import ItemView, is_step_cause
from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.review_views import ReviewView, SaidView, WholeReview
from stepfast.kernel.reviews import ItemKind, ReviewState, Verdict
from stepfast.kernel.texts import class_name
from stepfast.kernel.views import EventView
from stepfast.reports.blocks import Alarm, Block, Bullets, Facts, Paragraph, Section, Table, Value, Words, code, strong
from stepfast.reports.summary import more, value_block
from stepfast.reports.texts import Times, name, short, span, told_by
from stepfast.reports.words import error_kind, kind_of_item, owner, resolution, sentence, step_name
from stepfast.workflows.codec import digest

MAX_REVIEWS = 50
MAX_SAID = 50
MAX_ITEMS = 100
MAX_CHANGES = 200

_VERDICTS = {
    Verdict.CONTINUE: "Go on",
    Verdict.REJECT: "Rejected",
    Verdict.CORRECT: "Corrected",
    Verdict.RETRY: "To be done again",
    Verdict.ESCALATE: "Passed on",
}
# What people do to a run from outside.
_CHANGES = frozenset(
    {
        EventType.PAUSED,
        EventType.RESUMED,
        EventType.CANCELLED,
        EventType.RETRIED,
        EventType.RERUN,
        EventType.ROLLED_BACK,
        EventType.SIGNALLED,
        EventType.DLQ_DISCARDED,
    }
)


def decisions(found: Reconstruction, times: Times) -> Section:
    """Every review, in the order in which they were asked for."""
    reviews = sorted(found.reviews, key=lambda review: review.view.opened_at)
    if not reviews:
        return Section("Decisions by people", [Paragraph("Nobody was asked to decide anything.")])
    blocks: list[Block] = [_decision(review, found.events, times) for review in reviews[:MAX_REVIEWS]]
    if len(reviews) > MAX_REVIEWS:
        blocks.append(more(len(reviews) - MAX_REVIEWS, "decision"))
    return Section("Decisions by people", blocks)


def _decision(review: WholeReview, events: Sequence[EventView], times: Times) -> Section:
    view = review.view
    own = [event for event in events if _is_of(event, view)]
    blocks: list[Block] = [
        Paragraph(_came_to(view, own, times)),
        Facts(list(_facts(view, times))),
        *_shown(review, own),
        *_said(review, own, times),
    ]
    course = [event for event in own if event.type in _COURSE]
    if course:
        blocks.append(Bullets([f"{times.moment(event.at)}: {sentence(event, times)}" for event in course[:MAX_SAID]]))
    return Section(f"“{short(view.title)}”", blocks)


_COURSE = frozenset(
    {
        EventType.REVIEW_ESCALATED,
        EventType.REVIEW_ASSIGNED,
        EventType.REVIEW_EXPIRED,
        EventType.TOKEN_ISSUED,
        EventType.RESUME_SUBMITTED,
    }
)


def _is_of(event: EventView, view: ReviewView) -> bool:
    told = told_by(event.data) if event.type.startswith(("review_", "token_", "resume_")) else {}
    if "review_id" in told:
        return bool(told["review_id"] == view.review_id)
    is_request = event.type == EventType.REVIEW_REQUESTED
    return is_request and event.step == view.step and event.generation == view.generation and event.at == view.opened_at


def _came_to(view: ReviewView, events: Sequence[EventView], times: Times) -> Words:
    asked = f"Asked of {owner({'assignee': view.assignee, 'role': view.role})} on {times.moment(view.opened_at)}. "
    match view.state:
        case ReviewState.OPEN:
            return (asked, strong("Not decided yet."))
        case ReviewState.WITHDRAWN:
            return (asked, strong("Withdrawn"), ": nobody waited for the answer any more.")
        case ReviewState.EXPIRED:
            counts = f"; “{view.verdict}” counts instead" if view.verdict else ""
            return (asked, strong("Nobody decided in time"), f"{counts}.")
        case _:
            who = name(view.actor) if view.actor else "somebody who gave no name"
            took = "" if view.ended_at is None else f", {span(view.ended_at - view.opened_at)} after it was asked"
            decided = f" by {who} on {times.moment(view.ended_at)}{took}, {_way(view, events)}."
            return (asked, strong(_VERDICTS.get(view.verdict or Verdict.CONTINUE, str(view.verdict))), decided)


def _way(view: ReviewView, events: Sequence[EventView]) -> str:
    """By what the deciding answer came."""
    accepted = [
        event
        for event in events
        if event.type == EventType.RESUME_SUBMITTED
        and told_by(event.data).get("outcome") == "accepted"
        and (event.at, event.actor) == (view.ended_at, view.actor)
    ]
    return "with a token" if accepted else "through the application or its command line"


def _facts(view: ReviewView, times: Times) -> Iterator[tuple[str, Words]]:
    yield "Review", code(name(view.review_id))
    yield "Step", f"{step_name(view.step)}, generation {view.generation}"
    yield "Why it was asked", kind_of_item(view.kind)
    yield "Answers that were possible", ", ".join(view.verdicts)
    if view.quorum > 1:
        yield "Needed to go on", f"{view.quorum} people"
    if view.due_at is not None:
        yield "Time to answer", f"until {times.moment(view.due_at)}; then: {name(view.on_expiry)}"
    if view.escalations:
        yield "Passed on", f"{view.escalations} times"


def _shown(review: WholeReview, events: Sequence[EventView]) -> Iterator[Block]:
    view = review.view
    yield value_block("What was shown", review.shown)
    named = {str(told_by(event.data).get("digest")) for event in events if "digest" in told_by(event.data)}
    if is_reference(review.shown):
        yield Paragraph(("It is too large to be compared here. Digest in the events: ", code(name(view.digest)), "."))
        return
    real = digest(review.shown)
    if real == view.digest and named <= {real}:
        told = "the events of the question and of the answer name the same" if named else "no event names another"
        yield Paragraph(f"Its digest is {real}; {told}: this is what the decision was about.")
        return
    others = ", ".join(sorted({view.digest, *named} - {real}))
    yield Alarm(f"What is stored now has the digest {real}, and the decision was about {name(others)}: it was changed.")


def _said(review: WholeReview, events: Sequence[EventView], times: Times) -> Iterator[Block]:
    answers = [said for said in review.said if said.verdict is not None]
    comments = [said for said in review.said if said.verdict is None]
    if answers:
        rows = [_answer(said, times) for said in answers[:MAX_SAID]]
        yield Table("Answers", ("When", "Who", "Answer", "What they wrote"), rows)
    for said in answers[:MAX_SAID]:
        if said.value is not None:
            yield Paragraph(f"{name(said.actor or 'Somebody')} put this in the place of what was shown:")
            yield Value("Before", *value_block("", review.shown)[1:])
            yield Value("After", *value_block("", said.value)[1:])
    if comments:
        rows = [(times.moment(said.at), name(said.actor or ""), short(said.note or "")) for said in comments[:MAX_SAID]]
        yield Table("Comments", ("When", "Who", "Comment"), rows)
    if max(len(answers), len(comments)) > MAX_SAID:
        yield more(max(len(answers), len(comments)) - MAX_SAID, "answer or comment", "answers or comments")


def _answer(said: SaidView, times: Times) -> tuple[Words, ...]:
    verdict = _VERDICTS.get(said.verdict, str(said.verdict)) if said.verdict else ""
    return times.moment(said.at), name(said.actor or "not said"), strong(verdict), short(said.note or "")


def exceptions(found: Reconstruction, times: Times) -> Section:
    """What people had to look at, and what became of it."""
    if not found.exceptions and not found.dead_letters:
        return Section("Exceptions", [Paragraph("Nothing had to be looked at by people.")])
    items = sorted(found.exceptions, key=lambda item: item.opened_at)
    rows = [_item(item, times) for item in items[:MAX_ITEMS]]
    blocks: list[Block] = [
        Table("Exceptions", ("Opened", "What", "Step", "Assigned to", "What became of it", "By", "When"), rows)
    ]
    if len(items) > MAX_ITEMS:
        blocks.append(more(len(items) - MAX_ITEMS, "exception"))
    for letter in found.dead_letters[:MAX_ITEMS]:
        seen_to = "Nobody has seen to it yet."
        if letter.resolution:
            by = f" by {name(letter.actor)}" if letter.actor else ""
            seen_to = f"It was {name(letter.resolution)}{by} on {times.moment(letter.resolved_at)}."
        told = (
            f"Dead letter of generation {letter.generation}: {error_kind(letter.error_type)}: {short(letter.message)}. "
        )
        blocks.append(Paragraph(told + seen_to))
    return Section("Exceptions", blocks)


def _item(item: ItemView, times: Times) -> tuple[Words, ...]:
    became = resolution(item.resolution) if item.resolution else "open"
    return (
        *(
            times.moment(item.opened_at),
            f"{kind_of_item(item.kind)}: {short(_title(item))}",
            step_name(item.step),
        ),
        *(name(item.assignee or ""), became, name(item.actor or "")),
        times.moment(item.resolved_at) if item.resolved_at is not None else "",
    )


def _title(item: ItemView) -> str:
    """What an item is called; the title of a failure names its error as it is stored, with its module."""
    parts = item.title.split(": ")
    kind_at = 1 if is_step_cause(item.cause) else 0
    if item.kind is ItemKind.FAILED and kind_at < len(parts):
        parts[kind_at] = class_name(parts[kind_at])
    return ": ".join(parts)


def changes(found: Reconstruction, times: Times) -> Section:
    """What people did to the run itself."""
    told = [event for event in found.events if event.type in _CHANGES or _is_by_hand(event)]
    if not told:
        return Section("Interventions", [Paragraph("Nobody held, repeated, changed or called off the run.")])
    shown = told[:MAX_CHANGES]
    rows = [(times.moment(event.at), name(event.actor or "not said"), sentence(event, times)) for event in shown]
    blocks: list[Block] = [Table("Interventions", ("When", "Who", "What"), rows)]
    if len(told) > MAX_CHANGES:
        blocks.append(more(len(told) - MAX_CHANGES, "intervention"))
    return Section("Interventions", blocks)


def _is_by_hand(event: EventView) -> bool:
    return event.type == EventType.STEP_SKIPPED and bool(told_by(event.data).get("by_hand"))
