"""Children of a run: runs of their own that it starts together and joins with one wait."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from stepfast.kernel import rules
from stepfast.kernel.blobs import is_reference
from stepfast.kernel.decisions import CallId, HeldRun, Joins, NewRun, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import RunCancelled, RunFailed
from stepfast.kernel.ids import RANDOM_BITS, RunId, new_id
from stepfast.kernel.states import GOOD_ENDS, RunState, WaitKind
from stepfast.kernel.texts import error_line
from stepfast.workflows import failures
from stepfast.workflows.calls import Asked
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec, digest
from stepfast.workflows.joins import Join, Outcome
from stepfast.workflows.mailbox import Waiter
from stepfast.workflows.wait_calls import WaitCall

if TYPE_CHECKING:
    from stepfast.kernel.views import OutcomeView

# What one commit starts, and one read brings.
PAGE = 1_000

Ended: TypeAlias = "list[tuple[int, OutcomeView]]"
"""The children that have ended, by their index."""


@dataclass(frozen=True, slots=True)
class ChildKind:
    """What children are runs of: a workflow, or a step on its own.

    Without a `queue` they stand in their parent's. Without a `code` they have their parent's: a worker that can execute
    the parent has the step that it spreads out, and need not announce each of its steps.
    """

    kind: str
    name: str
    version: int
    code: str | None
    queue: str | None
    priority: int
    arguments: ArgumentsCodec
    result: ValueCodec
    timeout_ms: int | None = None
    digest: str | None = None
    """Of its definition, where that is data."""
    metadata: str | None = None
    """What is said of its runs: for a step that is called elsewhere, the policy of whoever calls it."""

    def error_of(self, outcome: OutcomeView) -> BaseException:
        """What a child that did not complete is for its parent."""
        # A step that ran elsewhere fails with its own error, as if it had run here.
        if self.kind == "step" and outcome.error is not None and outcome.state is RunState.FAILED:
            return failures.revive(failures.from_text(outcome.error))
        if outcome.state is RunState.CANCELLED:
            return RunCancelled(f"Child run {outcome.run_id} was cancelled.")
        failure = failures.from_text(outcome.error or "{}")
        error = RunFailed(f"Child run {outcome.run_id} failed with {error_line(failure.type, failure.message)}")
        error.__cause__ = failures.revive(failure)
        return error

    def input_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The arguments of one child as text."""
        return self.arguments.restore(self.arguments.bind(args, kwargs))[0]


class ChildrenCall(WaitCall):
    """Starts children, and waits until their join is decided: met, no longer possible, or all have ended.

    They are started page by page toward one group, each page whole: the first with the wait, the others after it.
    """

    wait_kind = WaitKind.CHILDREN
    kind = "children"

    def __init__(self, child: ChildKind, inputs: Sequence[str], join: Join) -> None:
        super().__init__(child.name, _as_list(inputs), None)
        self.name = child.name
        self._child = child
        self._inputs = inputs
        self._join = join
        self._is_working = False
        self._recorded_as: CallId | None = None
        self._read: tuple[Instant, Ended] | None = None
        """When the join was decided and how, once that was read: something that came before may have to end first."""

    def recalled(self, asked: Asked, record: Record) -> None:
        self._recorded_as = record.call

    def counted_of(self, stored: str) -> str:
        arguments = self._child.arguments
        return _as_list(arguments.encode(arguments.decode(json.dumps(each))) for each in json.loads(stored))

    def wait(self) -> Wait:
        join = self._join
        return Wait(0, self.wait_kind, self._code, self.asked.call, None, join.need, join.spare, join.total)

    def children(self) -> list[NewRun]:
        return self._page(0, wait_id=0)

    @property
    def _code(self) -> str:
        return code_of(self.asked, self._child)

    def _page(self, start: int, wait_id: int) -> list[NewRun]:
        page = slice(start, start + PAGE)
        inputs = zip(self.run_ids[page], self._inputs[page], strict=True)
        return [new_child(self.asked, self._child, run_id, text, wait_id) for run_id, text in inputs]

    @cached_property
    def run_ids(self) -> list[RunId]:
        """The children's ids, which follow from the call and its recorded moment: the same whoever asks again."""
        run, call, at = self.asked.context.run, self._opened_as, self._started_at
        return [child_id(run, call, at, index) for index in range(len(self._inputs))]

    def await_(self, wait: OpenWait) -> None:
        if len(self._inputs) > PAGE and not wait.is_joined:
            self._is_working = True
            self.asked.context.busy.add(self.asked.call)
            self._errand = self.asked.context.run_errand(self._start_rest(wait.wait_id), "stepfast-children")
        super().await_(wait)

    async def _start_rest(self, wait_id: int) -> None:
        started = await self._started_before() if self._is_stored else PAGE
        while started < len(self._inputs) and not self._ending and not self._is_decided(wait_id):
            page = self._page(started, wait_id)
            started += len(page)
            asked = self.asked
            now = asked.context.host.clock.now()
            if not await asked.context.saved(rules.start_more(asked.context.run, asked.call, page, started, now)):
                return
        if not self._ending:
            self._is_working = False
            self.asked.context.busy.discard(self.asked.call)
            self._look()
            self.asked.context.kick()

    async def _started_before(self) -> int:
        """How many an earlier holder has started: of a page that was started, the first child is there."""
        context = self.asked.context
        for start in reversed(range(PAGE, len(self._inputs), PAGE)):
            read = partial(context.host.store.run, context.run.tenant, self.run_ids[start])
            if await context.answered(read) is not None:
                return start + PAGE
        return PAGE

    def _is_decided(self, wait_id: int) -> bool:
        wait = self.asked.context.mailbox.wait(wait_id)
        return wait is not None and wait.is_joined

    def waiter(self, wait: OpenWait) -> Waiter:
        return Waiter(self._look, came_at=self._came_at)

    def _came_at(self) -> Instant | None:
        """When the join was decided; at no moment yet where that must be read, so that nothing else is taken before."""
        if self._read is not None:
            return self._read[0]
        return Instant(0) if self._wait is not None and self._is_decided(self._wait.wait_id) else None

    def check(self, wait: OpenWait) -> None:
        if not wait.is_joined or self._is_working:
            return
        if self._read is None:
            self.read()
        elif not self.asked.context.mailbox.is_held_back(self._read[0]):
            self.conclude(self._read[1])

    def read(self) -> None:
        """The join is decided: read how the children ended, and conclude."""
        self._is_working = True
        self.asked.context.busy.add(self.asked.call)
        self.asked.context.mailbox.readings += 1
        self._errand = self.asked.context.run_errand(self.read_outcomes(), "stepfast-join")
        self._errand.add_done_callback(self._has_read)

    def _has_read(self, errand: asyncio.Task[None]) -> None:
        context = self.asked.context
        context.mailbox.readings -= 1
        # Also when it was called off in the middle; but not where the run is let go of.
        if context.is_closed or context.stopped_by is not None:
            return
        context.mailbox.go_on()
        if self._read is not None and not self._ending:
            # Whatever it is behind is under way.
            context.busy.discard(self.asked.call)
        context.kick()

    async def read_outcomes(self) -> None:
        """Find out how the children ended, however many pages they are, and when their join was decided."""
        ended: Ended = []
        for start in range(0, len(self.run_ids), PAGE):
            page = self.run_ids[start : start + PAGE]
            context = self.asked.context
            outcomes = await context.answered(partial(context.host.store.outcomes, page))
            found = [(start + index, outcomes[run_id]) for index, run_id in enumerate(page) if run_id in outcomes]
            ended += [(index, await self._whole(outcome)) for index, outcome in found]
        if self._ending:
            return
        if ended and self._wait is not None:
            self._read, self._is_working = (self._decided_at(ended), ended), False
            self.asked.context.mailbox.look_again()
        else:
            self.conclude(ended)

    def _decided_at(self, ended: Ended) -> Instant:
        """When the last child ended that the join needs, or the one that failed too many."""
        good, bad = _parted(ended)
        for outcomes, nth in ((good, self._join.need), (bad, self._join.spare + 1)):
            if 0 < nth <= len(outcomes):
                return _first(outcomes, nth)[-1][1].ended_at
        return max(outcome.ended_at for _, outcome in ended)

    async def _whole(self, outcome: OutcomeView) -> OutcomeView:
        """A child's outcome with its value, also when that is large."""
        if not is_reference(outcome.value):
            return outcome
        context = self.asked.context
        read = partial(context.host.values.resolve, context.run.tenant, outcome.run_id, [outcome.value])
        (value,) = await context.answered(read)
        return outcome._replace(value=value)

    def conclude(self, ended: Ended) -> None:
        """End the call with what the join gives: with what had ended when it was decided, however late that is seen."""
        good, bad = _parted(ended)
        if self._join.settles:
            until = self._decided_at(ended)
            in_time = [(index, outcome) for index, outcome in ended if outcome.ended_at <= until]
            self.end(json.dumps([self._settled(index, outcome) for index, outcome in in_time]))
        elif len(good) >= self._join.need:
            self.end(_as_list(outcome.value or "null" for _, outcome in sorted(_first(good, self._join.need))))
        else:
            _, failed = min(_first(bad, self._join.spare + 1))
            self.fall_short(ended, self._child.error_of(failed))

    def fall_short(self, ended: Ended, error: BaseException) -> None:
        """End the call whose join is not met."""
        self.fail(error)

    def _settled(self, index: int, outcome: OutcomeView) -> dict[str, Any]:
        if outcome.state in GOOD_ENDS:
            return {"index": index, "ok": True, "value": outcome.value or "null"}
        error = failures.to_text(failures.describe(self._child.error_of(outcome)))
        return {"index": index, "ok": False, "error": error}

    def value_of(self, text: str) -> Any:
        stored = json.loads(text)
        if self._join.settles:
            return [self.outcome_of(item) for item in stored]
        values = [self._child.result.decode(json.dumps(item)) for item in stored]
        return values[0] if self._join.single else values

    def outcome_of(self, item: dict[str, Any]) -> Outcome[Any]:
        """The outcome of one child, as recorded."""
        if item["ok"]:
            return Outcome(True, self._child.result.decode(item["value"]))
        error = failures.revive(failures.from_text(item["error"]))
        # The call has ended well, with this failure in its result: a run that fails for it is retried without the call.
        return Outcome(False, error=failures.mark(error, self._recorded_as or self.asked.call))


class PageCall(ChildrenCall):
    """Some of the children of a larger join: gives the outcomes of those that have ended, by their index."""

    failed_as: CallId | None = None
    """The call, where it has come to its end and there are failures in that, whether or not the code was given it."""

    def value_of(self, text: str) -> dict[int, Outcome[Any]]:
        outcomes = {item["index"]: self.outcome_of(item) for item in json.loads(text)}
        if not all(outcome.ok for outcome in outcomes.values()):
            self.failed_as = self._recorded_as or self.asked.call
        return outcomes


def new_child(asked: Asked, child: ChildKind, run_id: RunId, text: str, wait_id: int, leave: bool = False) -> NewRun:
    """A child of the run that asks, toward one of its groups."""
    parent = asked.context.run
    return NewRun(
        run_id=run_id,
        tenant=parent.tenant,
        workflow=child.name,
        version=child.version,
        kind=child.kind,
        queue=child.queue or parent.queue,
        code=code_of(asked, child),
        priority=child.priority,
        input=text,
        digest=digest(text),
        timeout_ms=child.timeout_ms,
        joins=Joins(parent.run_id, wait_id),
        leave=leave,
        actor=parent.actor,
        correlation_id=parent.correlation_id or parent.run_id,
        causation_id=parent.run_id,
        subject=parent.subject,
        metadata=child.metadata,
        definition=child.digest,
    )


def code_of(asked: Asked, child: ChildKind) -> str:
    """What a worker must have to execute a child of the run that asks."""
    return child.code or asked.context.run.code


def child_id(run: HeldRun, call: CallId, started_at: Instant, index: int = 0) -> RunId:
    """The id of a child that a call starts: it follows from the call, so that whoever asks again finds it again."""
    seed = f"{run.run_id}:{run.generation}:{call.address}:{index}"
    wide = hashlib.blake2b(seed.encode(), digest_size=16).digest()
    return RunId(new_id(started_at, int.from_bytes(wide, "big") >> 128 - RANDOM_BITS))


def _parted(ended: Ended) -> tuple[Ended, Ended]:
    """Those that came to a good end, and the others."""
    good = [child for child in ended if child[1].state in GOOD_ENDS]
    return good, [child for child in ended if child[1].state not in GOOD_ENDS]


def _first(ended: Ended, count: int) -> Ended:
    """So many of them, in the order in which they ended."""
    return sorted(ended, key=lambda child: (child[1].ended_at, child[0]))[:count]


def _as_list(texts: Iterable[str]) -> str:
    return f"[{','.join(texts)}]"
