"""What a report says, in the words that its readers go by."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.assets import LineageView, Role
from stepfast.kernel.auditing import AuditFinding, Fault
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.events import EventType
from stepfast.kernel.generations import GenerationView
from stepfast.kernel.review_views import SaidView
from stepfast.kernel.reviews import ItemKind, ReviewState, Verdict
from stepfast.kernel.seals import Seal, SealBody
from stepfast.kernel.states import RunState, StepState
from stepfast.reports import Proof, report
from stepfast.reports.texts import Times
from stepfast.reports.words import sentence, step_name
from stepfast.workflows.codec import digest
from tests.reports.support import NOON, RUN_ID, event, item, reconstruction, record, review, run

SEAL = Seal(SealBody(3, 0, 100, 10, 2, "ab" * 32, "", NOON), "1", "signature")


def written(**changes):
    return report(reconstruction(**changes), "md")


def asked(shown='{"sum": 1}', **changes):
    told = {
        "title": "Is it right?",
        "digest": digest(shown),
        "kind": "review_required",
        "assignee": "ann",
        "role": None,
    }
    return event(1, "review_requested", told | changes, step="ask#1", at=NOON)


def decided(shown='{"sum": 1}'):
    told = {"review_id": f"{RUN_ID}.1", "verdict": "continue", "digest": digest(shown)}
    return event(3, "review_decided", told, actor="ann", at=Instant(NOON + 60_000))


def test_it_begins_with_how_the_run_ended_and_who_asked_for_it():
    text = written(run=run(actor="ann", subject="order 17"))
    assert "**The run completed** on 2025-06-15 15:06:45.000 UTC, 5.0 s after it was requested." in text
    assert "It was requested on 2025-06-15 15:06:40.000 UTC by ann, about order 17." in text


def test_of_a_failed_run_it_names_the_cause():
    error = json.dumps({"type": "builtins:ValueError", "message": "no such order"})
    assert "Cause: ValueError: no such order" in written(run=run(state=RunState.FAILED, error=error, value=None))


def test_of_a_run_that_was_called_off_it_names_who_did_and_why():
    text = written(
        run=run(state=RunState.CANCELLED),
        events=[event(1, "cancelled", {"reason": "the customer called"}, actor="ann")],
    )
    assert "By ann. Reason given: “the customer called”." in text


def test_of_a_decision_it_says_who_when_how_long_after_and_by_what_way():
    text = written(reviews=(review(),), events=[asked(), decided()])
    assert "Asked of ann on 2025-06-15 15:06:40.000 UTC." in text
    assert (
        "**Go on** by ann on 2025-06-15 15:07:40.000 UTC, 1 min 0 s after it was asked, "
        "through the application or its command line." in text
    )


def test_a_decision_with_a_token_is_told_from_others():
    outcome = {"review_id": f"{RUN_ID}.1", "outcome": "accepted"}
    submitted = event(2, "resume_submitted", outcome, actor="ann", at=Instant(NOON + 60_000))
    assert "after it was asked, with a token." in written(reviews=(review(),), events=[asked(), submitted, decided()])


def test_what_was_shown_is_held_against_the_digests_in_the_events():
    text = written(reviews=(review(),), events=[asked(), decided()])
    assert "name the same: this is what the decision was about." in text


@pytest.mark.parametrize("at", ["question", "answer", "row"])
def test_what_was_shown_and_changed_afterwards_is_an_alarm(at):
    events = [asked('{"sum": 9}' if at == "question" else '{"sum": 1}')]
    events.append(decided('{"sum": 9}' if at == "answer" else '{"sum": 1}'))
    seen = review(digest=digest('{"sum": 9}')) if at == "row" else review()
    assert "> **Attention:** What is stored now has the digest" in written(reviews=(seen,), events=events)


def test_a_correction_is_shown_before_and_after():
    said = [SaidView(Verdict.CORRECT, '{"sum": 2}', "it was two", "ann", NOON)]
    text = written(reviews=(review(said=said, verdict=Verdict.CORRECT),))
    assert 'Before:\n\n```text\n{"sum": 1}\n```' in text
    assert 'After:\n\n```text\n{"sum": 2}\n```' in text
    assert "it was two" in text


def test_comments_are_told_apart_from_answers():
    said = [SaidView(None, None, "I wonder", "ben", NOON), SaidView(Verdict.CONTINUE, None, None, "ann", NOON)]
    text = written(reviews=(review(said=said),))
    assert "| When | Who | Comment |\n| --- | --- | --- |\n| 2025-06-15 15:06:40.000 UTC | ben | I wonder |" in text


def test_a_decision_that_nobody_made_says_what_counts_instead():
    expired = review(state=ReviewState.EXPIRED, verdict=Verdict.CONTINUE, actor=None)
    assert "**Nobody decided in time**; “continue” counts instead." in written(reviews=(expired,))


def test_gaps_of_more_than_a_minute_have_a_line():
    events = [event(1, "queued", {"workflow": "a", "version": 1}), event(2, "started", at=Instant(NOON + 7_200_001))]
    assert "Nothing for 2 h 0 min." in written(events=events)


def test_events_that_are_missing_are_named():
    text = written(events=[event(1, "started"), event(4, "completed")])
    assert "2 numbers among them are missing." in text
    assert "2 events are missing here." in text


def test_what_people_did_to_the_run_is_in_a_table_of_its_own():
    told = {"to": "charge", "superseded": 2, "reason": "wrong price"}
    text = written(events=[event(1, "rolled_back", told, actor="ann")])
    assert (
        "| ann | ann took the run back to charge and held it there; 2 later results no longer count. "
        "Reason given: “wrong price”. |" in text
    )


def test_generations_say_who_opened_them_and_why():
    lives = tuple(
        GenerationView(
            *(number, 1, "checkout@1", None, "{}", cause, "ann", "mended", NOON, RunState.COMPLETED, "1", None, NOON)
        )
        for number, cause in ((1, None), (2, "rerun"))
    )
    text = written(generations=lives)
    assert "| 2 | 2025-06-15 15:06:40.000 UTC | done again | ann | mended | completed, 2025-06-15" in text


def test_exceptions_say_what_became_of_them():
    settled = item(kind=ItemKind.FAILED, resolution="replayed", actor="ben", resolved_at=NOON)
    text = written(exceptions=(settled, item(cause="failed:2")))
    assert "| it was done again | ben | 2025-06-15 15:06:40.000 UTC |" in text
    assert "| open |  |  |" in text


def test_annotations_say_of_what_and_by_whom():
    noted = event(1, "annotated", {"key": "grade", "value": "A", "scope": "quality"}, step="charge#1", actor="ann")
    assert '| grade | "A" | charge | quality | ann |' in written(events=[noted])


def test_what_a_step_notes_is_not_said_to_be_noted_by_whoever_asked_for_the_run():
    text = written(
        events=[event(1, "annotated", {"key": "grade", "value": "A"}, step="charge#1", attempt=1, actor="ann")]
    )
    assert '| grade | "A" | charge |  | the step itself |' in text
    assert '| Step “charge” noted: grade is "A". |  |' in text


def test_an_attempt_that_failed_and_is_retried_is_not_called_pending():
    error = json.dumps({"type": "builtins:ValueError", "message": "no"})
    text = written(steps=(record(1, "charge", StepState.PENDING, error=error), record(2, "charge", attempt=2)))
    assert "| 1 | charge | failed, to be tried again | 1 |" in text


@pytest.mark.parametrize(
    ("title", "cause", "shown"),
    [
        ("shop.errors:Declined: no card: a:b", "failed:1", ": Declined: no card: a:b"),
        ("Step pay failed, and its run goes on: shop:Declined: no", "step:1", "and its run goes on: Declined: no"),
        ("shop:Declined", "failed:1", ": Declined"),
    ],
)
def test_the_title_of_a_failure_names_its_error_without_the_module(title, cause, shown):
    assert f"{shown} |" in written(exceptions=(item(title=title, cause=cause),))


def test_what_people_ask_is_called_as_they_call_it():
    asked = item(kind=ItemKind.REVIEW_REQUIRED, cause="review:1", title="note:this: yes")
    assert ": note:this: yes |" in written(exceptions=(asked,))


def test_errors_are_named_without_the_module_of_python_that_they_come_from():
    told = event(1, "failed", {"error_type": "builtins:ValueError", "message": "no"})
    assert "builtins" not in written(events=[told], exceptions=(item(title="builtins:ValueError: no"),))


def test_assets_say_what_they_were_made_of():
    row = (RUN_ID, 1, "render#1")
    lineage = (
        LineageView(*row, Role.READ, "letter", 2, "letter", NOON),
        LineageView(*row, Role.WRITE, "page-2", 1, "page", NOON),
    )
    text = written(lineage=lineage)
    assert "| written | asset:page-2\\@1 (asked for as page, which was taken) | render | asset:letter\\@2 |" in text


def test_runs_that_were_started_say_what_they_are():
    mark = json.dumps({"transformation": {"name": "docs.extract", "version": 1}})
    text = written(children=(run(kind="step", workflow="extract", metadata=mark), run(metadata=mark)))
    assert "| extract | transformation docs.extract |" in text
    assert "| checkout | workflow |" in text


def test_attempts_that_failed_are_rows_with_their_errors():
    error = json.dumps({"type": "builtins:ConnectionError", "message": "away"})
    steps = (record(1, "charge", StepState.FAILED, error=error), record(2, "charge", attempt=2))
    text = written(steps=steps)
    assert "| 1 | charge | **failed** | 1 |" in text
    assert "ConnectionError: away |" in text
    assert "| 2 | charge | completed | 2 |" in text


def test_what_is_superseded_is_said_to_be():
    assert "superseded by generation 2 |" in written(steps=(record(1, "charge", superseded_by=2),))


def test_a_stored_state_that_is_not_what_the_events_come_to_is_an_alarm():
    assert "> **Attention:** The stored state is not what" in written(differences=("state is failed",))


def test_without_a_look_at_the_seals_nothing_is_said_to_be_proved():
    assert "This report was made without a look at the seals." in written()


def proved(proof):
    return report(reconstruction(), "md", proof=proof)


def test_seals_that_fit_are_named_with_their_number_and_time():
    text = proved(Proof(10, 2, (SEAL,), False, True))
    assert "**The events fit their seals, and the seals their key.**" in text
    assert "10 of 12 events are sealed. 2 events came after the last seal." in text
    assert "| 3 | 2025-06-15 15:06:40.000 UTC | 1 |" in text


def test_without_the_keys_signatures_are_not_said_to_be_checked():
    assert "so the signatures were not checked" in proved(Proof(10, 0, (SEAL,), False, False))


def test_seals_that_do_not_fit_are_an_alarm():
    finding = AuditFinding(Fault.CHANGED, 3, RUN_ID, "Its events 1 to 4 were changed.")
    text = proved(Proof(10, 0, (SEAL,), False, True, (finding,)))
    assert "> **Attention:** The seals do not fit the events: seal 3: changed: Its events 1 to 4 were changed." in text
    assert "The events fit" not in text


def test_it_tells_the_reader_how_to_check_it():
    assert f"`stepfast audit export --run {RUN_ID} trail.jsonl`" in written()


@pytest.mark.parametrize("type_", EventType)
def test_every_type_of_event_is_a_sentence_of_its_own(type_):
    told = {"workflow": "w", "version": 1, "name": "n", "verdict": "continue", "outcome": "accepted", "due_at": NOON}
    told |= {"bearer": "ann", "expires_at": NOON, "key": "k", "to": "x", "kind": "failed", "resolution": "expired"}
    said = sentence(event(1, type_, told, step="charge#1", actor="ann"), Times())
    assert "The workflow told of" not in said
    assert "not as expected" not in said


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("charge#1", "charge"),
        ("charge#2", "charge, call 2"),
        ("1.2/charge#1", "charge in branch 1.2"),
        ("score[3]/score#1", "score, item 3"),
        ("score[3].score/ask#1", "the question of score, item 3"),
        ("approve/review#1", "the decision of approve"),
        ("no address", "no address"),
        (None, ""),
    ],
)
def test_calls_are_named_as_people_name_them(address, said):
    assert step_name(address) == said


def test_times_are_those_of_the_zone_that_was_asked_for():
    text = report(reconstruction(), "md", tz="Europe/Berlin")
    assert "2025-06-15 17:06:40.000 CEST (UTC+0200)" in text


@pytest.mark.parametrize("tz", ["Nowhere/Land", "../etc/passwd", "", "\0"])
def test_a_zone_that_does_not_exist_is_refused(tz):
    with pytest.raises(Invalid, match="time zone"):
        report(reconstruction(), "md", tz=tz)


def test_a_form_that_does_not_exist_is_refused():
    with pytest.raises(Invalid, match="use 'md' or 'html'"):
        report(reconstruction(), "pdf")


def test_what_a_workflow_notes_itself_is_not_told_as_noted_by_who_asked_for_it():
    noted = event(1, "annotated", {"key": "grade", "value": "A", "by_code": True}, actor="ann")
    assert sentence(noted, Times()) == 'The workflow noted: grade is "A".'
    text = written(events=[noted])
    assert '| grade | "A" | the run |  | the workflow itself |' in text
