"""Commands that came while a run was held, as its holder tells of them."""

from __future__ import annotations

from stepfast.kernel import rules
from stepfast.kernel.decisions import HandBack, HeldRun, Message
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, WorkerId

RUN = HeldRun(
    RunId("r"), "acme", "flow", 1, "workflow", "default", 1, 3, WorkerId("w"), "{}", 0, False, 1, 0, 0, 0, Instant(0)
)


def message(n: int, kind: str, actor: str) -> Message:
    return Message(n, kind, "", None, actor, Instant(n), False)


def told(decision) -> list[tuple[str, str | None]]:
    return [(str(event.type), event.actor) for event in decision.events]


def test_a_run_that_goes_back_paused_ends_its_history_with_the_pause():
    decision = rules.hold_back(RUN, [message(4, "paused", "ann")], Instant(9))
    assert told(decision) == [("handed_back", None), ("paused", "ann")]
    assert decision.release == HandBack()
    assert decision.taken == (4,)


def test_commands_are_told_in_their_order():
    decision = rules.tell_commands(RUN, [message(4, "paused", "ann"), message(5, "resumed", "ben")], Instant(9))
    assert told(decision) == [("paused", "ann"), ("resumed", "ben")]
    assert decision.taken == (4, 5)


def test_a_pause_whose_end_was_told_before_it_does_not_leave_the_run_paused_in_its_history():
    decision = rules.tell_commands(RUN, [message(4, "paused", "ann")], Instant(9))
    assert told(decision) == [("paused", "ann"), ("resumed", None)]
