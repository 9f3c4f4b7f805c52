"""Matching a run's calls with its records: which record belongs to a call, and when the two do not fit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import count

from stepfast.kernel.decisions import CallId, Record
from stepfast.kernel.errors import NonDeterminism
from stepfast.kernel.ids import RunId
from stepfast.kernel.plan_rules import GIVEN
from stepfast.kernel.states import STEP_ENDED

SHOWN_INPUT = 300
UNMET = "unmet"
"""The kind of what is recorded of children whose join was not met."""


class Replay:
    """The records of one run, handed out to the calls that its code makes again.

    Those up to number `kept` were made by earlier generations of the run.
    """

    def __init__(self, records: Iterable[Record], kept: int = 0) -> None:
        self._newest: dict[CallId, Record] = {}
        numbers: set[int] = set()
        for record in records:
            self._newest[record.call] = record
            numbers.add(record.seq)
        self._kept = kept
        self._first_gap = next(seq for seq in count(1) if seq not in numbers)
        self._by_name: dict[str, dict[CallId, Record]] = defaultdict(dict)
        for call, record in self._newest.items():
            self._by_name[call.name][call] = record
        self._unclaimed = len(self._newest)
        self.finished = not self._newest
        """Whether every record has been asked for; kept, as it is asked for several times with each call."""

    def unclaimed(self) -> list[Record]:
        """The records that no call has asked for yet, in the order they were made."""
        left = (record for calls in self._by_name.values() for record in calls.values())
        return sorted(left, key=lambda record: record.seq)

    def left_out(self) -> list[Record]:
        """The records that the code should have asked for by its end, and has not."""
        # What a person gave for a step is of no use to code that does not come by it.
        return [record for record in self.unclaimed() if not self._is_remnant(record) and record.kind != GIVEN]

    def last_before(self, record: Record) -> Record | None:
        """The record of the last call that had ended before another was made."""
        ended = [each for each in self._newest.values() if each.seq < record.seq and each.state in STEP_ENDED]
        return max(ended, key=lambda each: each.seq, default=None)

    def find(self, call: CallId, digest: str, same_input: Callable[[str], bool], given: str = "{}") -> Record | None:
        """The record of a call in its own branch, now claimed; None if there is none.

        `same_input` reads a stored input through today's types and says whether it equals the call's own, `given`.
        """
        return self._claim(self._of_branch(call, digest, same_input, given))

    def find_elsewhere(self, call: CallId, digest: str) -> Record | None:
        """The record of an equal call in another branch, now claimed; None for a call that was never recorded.

        To be asked when every call that has a record of its own has got it: two equal calls in branches side by side,
        of which one was cut off, must not take each other's.
        """
        return self._claim(self._of_other_branch(call, digest))

    def place_elsewhere(self, call: CallId, digest: str) -> int | None:
        """The number of the record that a call would find in another branch, if that is of an end; claims nothing.

        Code that is as it was has asked for a record before any later one is handed out. So one that is still there
        when its number has come belongs to a call that was moved, and that is its place among the others.
        """
        record = self._equal_elsewhere(call, digest)
        return record.seq if record is not None and record.state in STEP_ENDED else None

    def _claim(self, record: Record | None) -> Record | None:
        if record is not None:
            self.forgo(record.call)
        return record

    def forgo(self, call: CallId) -> Record | None:
        """The record of a call that the code called off before it waited for anything, now claimed, if there is one."""
        record = self._by_name[call.name].pop(call, None)
        self._unclaimed -= record is not None
        self.finished = self._unclaimed == 0
        return record

    def _of_branch(self, call: CallId, digest: str, same_input: Callable[[str], bool], given: str) -> Record | None:
        record = self._by_name[call.name].get(call)
        if record is None or record.digest == digest or same_input(record.input):
            return record
        if self._is_remnant(record):
            # It was made of what the failure left; what the code makes of a success is another call.
            self.forgo(call)
            return None
        raise NonDeterminism(
            f"Step {call.address} was recorded with other arguments than the code gives it now. "
            f"Recorded: {record.input[:SHOWN_INPUT]}; given: {given[:SHOWN_INPUT]}. "
            f"Deploy code that makes the recorded calls, or give the changed workflow a new version."
        )

    def _of_other_branch(self, call: CallId, digest: str) -> Record | None:
        equal = self._equal_elsewhere(call, digest)
        if equal is None:
            self._refuse_if_branch_has_more(call)
        return equal

    def _equal_elsewhere(self, call: CallId, digest: str) -> Record | None:
        # Code that was regrouped into other branches makes the same calls elsewhere: equal name and arguments will do.
        others = [record for record in self._by_name[call.name].values() if record.call.path != call.path]
        equal = [record for record in others if record.digest == digest and not self._is_remnant(record)]
        return min(equal, key=lambda record: record.seq, default=None)

    def _is_remnant(self, record: Record) -> bool:
        """Whether an earlier generation made it, behind a record that a retry has superseded, or as a join not met.

        The code went on there from a failure that is no more. It finds the record if it comes by again with the same
        arguments, and need not. What the present generation has made is held to as ever.
        """
        return record.seq <= self._kept and (self._first_gap < record.seq or record.kind == UNMET)

    def _refuse_if_branch_has_more(self, call: CallId) -> None:
        same_name = self._by_name[call.name].items()
        left = [other for other, record in same_name if other.path == call.path and not self._is_remnant(record)]
        if left:
            raise NonDeterminism(
                f"The code asks for {call.address}, which was never recorded, while {min(left).address} "
                f"of the same branch was recorded and not asked for. Deploy code that makes the recorded calls."
            )


NOTHING_RECORDED = Replay(())
"""For all runs that begin: they have nothing to claim, so nobody changes it."""


def check_all_claimed(replay: Replay) -> None:
    """Refuse to end a run whose code left out calls that were recorded."""
    left = [record for record in replay.left_out() if record.state in STEP_ENDED]
    if left:
        names = ", ".join(record.call.address for record in left[:5])
        before = replay.last_before(left[0])
        place = "nothing had ended (event 1)" if before is None else f"the last to end was {before.call.address}"
        raise NonDeterminism(
            f"The code ended without asking for {len(left)} recorded step(s): {names}; before them {place}. "
            f"Deploy code that still makes these calls, or give the changed workflow a new version."
        )


INPUT_MISFIT = "The stored input does not fit the code"
"""How the reason begins where the code cannot even be called with what its run was started with."""


def way_back(run_id: RunId) -> str:
    """The way out of records that no code fits."""
    return (
        f"`stepfast runs rollback {run_id} --to STEP` takes it back to the end of a step before the change, "
        f"and `stepfast runs resume {run_id}` lets it go on from there"
    )
