"""Children of a run that it starts now and joins later: their start, and what waits for their end."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, Message, NewRun, OpenWait, Record, Wait
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import ENDED, GOOD_ENDS, StepState, WaitKind
from stepfast.workflows.calls import Asked
from stepfast.workflows.child_calls import ChildKind, ChildrenCall, Ended, child_id, code_of, new_child
from stepfast.workflows.joins import ONE


class StartedChild:
    """A child that was started: its id, the group by which it is joined, and what it was started with."""

    def __init__(self, kind: ChildKind, text: str, run_id: RunId, wait_id: int, is_present: bool, leave: bool) -> None:
        self.kind = kind
        self.text = text
        self.run_id = run_id
        self.wait_id = wait_id
        self.is_present = is_present
        """Whether it was started in the present generation of its parent."""
        self.leave = leave
        """Whether it may outlive its parent."""
        self._is_anew = False
        self.until_open: list[Callable[[], None]] | None = None
        """What goes on when the group that is just being opened for it is open, if one is."""

    def become(self, run_id: RunId, wait_id: int, is_present: bool) -> None:
        """It was started anew: from here on all that is asked of the handle concerns the new run."""
        self.run_id, self.wait_id, self.is_present = run_id, wait_id, is_present
        self._is_anew = True

    def key_of(self, call: str) -> str:
        """The key of what a call asks of it: made again, after a crash, it may be asked of another run."""
        return f"{call}:{self.run_id}" if self._is_anew else call


class StartCall:
    """Starts a child; its record is its end, and its number that of the group which stays open until it is joined."""

    kind = "start"

    def __init__(self, child: ChildKind, text: str, leave: bool, handle: Callable[[StartedChild], Any]) -> None:
        self.name = f"start:{child.name}"
        self.input = self.counted = text
        self._child = child
        self._leave = leave
        self._handle = handle
        self._started: StartedChild | None = None

    def counted_of(self, stored: str) -> str:
        arguments = self._child.arguments
        return arguments.encode(arguments.decode(stored))

    def value_of(self, text: str) -> Any:
        assert self._started is not None
        return self._handle(self._started)

    def wait_id(self, record: Record | None) -> int | None:
        return None

    def recalled(self, asked: Asked, record: Record) -> None:
        run_id = RunId(json.loads(record.value or "{}")["run_id"])
        is_present = run_id == child_id(asked.context.run, record.call, record.started_at)
        self._started = StartedChild(self._child, self.input, run_id, record.seq, is_present, self._leave)

    def begin(self, asked: Asked, record: Record | None) -> None:
        context = asked.context
        started_at = context.host.clock.now()
        run_id = child_id(context.run, asked.call, started_at)
        started = asked.new_record(StepState.COMPLETED, 1, started_at, value=json.dumps({"run_id": run_id}))
        wait = Wait(0, WaitKind.CHILDREN, code_of(asked, self._child), asked.call)
        child = new_child(asked, self._child, run_id, self.input, 0, self._leave)
        decision = rules.start_child(context.run, started, wait, child)
        context.busy.add(asked.call)
        context.save(decision, partial(self._saved, asked, started, run_id, decision))

    def _saved(
        self, asked: Asked, record: Record, run_id: RunId, decision: Decision, refused: BaseException | None
    ) -> None:
        (wait,) = decision.opened
        opened = OpenWait(wait.wait_id, wait.kind, wait.name, None, wait.need, wait.spare, wait.total, 0, 0)
        asked.context.mailbox.open(opened)
        started = StartedChild(self._child, self.input, run_id, wait.wait_id, True, self._leave)
        asked.context.ended(asked, record.ended_at, self._handle(started), None, refused)

    def call_off(self, asked: Asked) -> None:
        """It is on its way; the child is cancelled with its parent's end, as any that nobody awaits."""

    def abandon(self, asked: Asked, record: Record) -> None:
        """As when it is called off."""

    def drop(self) -> None:
        """Nothing runs that could be stopped."""


class JoinCall(ChildrenCall):
    """Waits for a child that was started before, by the group that its start has opened.

    A run that is retried has new waits: a child that has completed is joined as it is, one that was left to go on and
    does is waited for again, toward the group that it was started in, and any other is started anew. The new one takes
    its place: who it is stands in the input of what is recorded of the join that has started it.
    """

    kind = "join"

    def __init__(self, started: StartedChild) -> None:
        super().__init__(started.kind, [started.text], ONE)
        self.name = f"join:{started.kind.name}"
        self._started = started
        self._is_opening = False
        self._goes_on = False

    def counted_of(self, stored: str) -> str:
        return super().counted_of(json.dumps(_inputs_of(stored)))

    def wait_id(self, record: Record | None) -> int | None:
        return record.seq if record is not None and _has_begun_anew(record) else self._started.wait_id

    def begin(self, asked: Asked, record: Record | None) -> None:
        self._asked, self._opened_as, self._started_at = asked, asked.call, asked.context.host.clock.now()
        if record is not None:
            self._remember(record)
        if self._started.until_open is None:
            self._take_up()
        else:
            asked.context.busy.add(asked.call)
            self._started.until_open.append(self._take_up)

    def _take_up(self) -> None:
        context = self.asked.context
        if self._ending or context.is_closed:
            return
        context.busy.discard(self.asked.call)
        self.run_ids = [self._started.run_id]
        wait = self._group
        if wait is None:
            self.read()
        else:
            self._await_group(wait)

    def _await_group(self, wait: OpenWait) -> None:
        self.await_(wait)
        # A child that ended while its group was gone was not counted in it.
        if not self._started.is_present and not self._is_working:
            self.read()

    def check(self, wait: OpenWait) -> None:
        super().check(wait._replace(got=wait.need) if self._read is not None else wait)

    @property
    def _group(self) -> OpenWait | None:
        return self.asked.context.mailbox.wait(self._started.wait_id)

    async def _put_letter_aside(self) -> None:
        """A child that may outlive its parent is a dead letter when it fails; here its parent has heard of it."""
        from stepfast.kernel.commands import Discard, Request

        run = self.asked.context.run
        discard = Request(self._started.run_id, Discard(), run.tenant, run.actor, "Its parent has heard of it.")
        # What cannot be put aside, or not now, stays in the list: one letter too many is better than one too few.
        with contextlib.suppress(StepfastError):
            await self.asked.context.host.change([discard])

    def fail(self, error: BaseException, taken: Message | None = None) -> None:
        super().fail(error, taken)
        if self._started.leave:
            self.asked.context.run_errand(self._put_letter_aside(), "stepfast-letter")

    async def read_outcomes(self) -> None:
        if self._group is None and not self._started.is_present and self._started.leave:
            context = self.asked.context
            child = await context.answered(partial(context.host.store.run, context.run.tenant, self._started.run_id))
            self._goes_on = child is not None and child.state not in ENDED
        await super().read_outcomes()

    def conclude(self, ended: Ended) -> None:
        is_good = any(outcome.state in GOOD_ENDS for _, outcome in ended)
        if is_good or (ended and (self._started.is_present or self._wait is not None)):
            super().conclude(ended)
            return
        self._is_working = False
        if self._wait is not None:
            # It goes on: its group says when it has ended.
            self.asked.context.busy.discard(self.asked.call)
        else:
            self._is_opening, self._started.until_open = True, []
            self._started_at = self.asked.context.host.clock.now()
            if self._goes_on:
                self._open_group_again()
            else:
                self.run_ids = [child_id(self.asked.context.run, self.asked.call, self._started_at)]
                self.open()

    def children(self) -> list[NewRun]:
        return [new_child(self.asked, self._child, self.run_ids[0], self._inputs[0], 0, self._started.leave)]

    def _opened(self, decision: Decision, refused: BaseException | None) -> None:
        if refused is None:
            self._become(self.run_ids[0], decision.opened[0].wait_id, self.asked.context.run.generation)
        self._is_opening = False
        super()._opened(decision, refused)
        self._let_others_go_on()

    def _open_group_again(self) -> None:
        """Wait for a child that an earlier generation has left, toward the group that it counts in when it ends."""
        context, number = self.asked.context, self._started.wait_id
        record = self.asked.new_record(StepState.WAITING, 1, self._started_at, value=json.dumps({"group": number}))
        wait = self.wait()._replace(wait_id=number, is_numbered=True)
        context.busy.add(self.asked.call)
        context.save(rules.open_wait(context.run, record, wait), self._opened_again)

    def _opened_again(self, refused: BaseException | None) -> None:
        context = self.asked.context
        context.busy.discard(self.asked.call)
        self._is_opening = False
        if refused is not None:
            context.stop(refused)
        elif not context.is_closed:
            group = OpenWait(self._started.wait_id, self.wait_kind, self._code, None, 1, 0, 1, 0, 0)
            context.mailbox.open(group)
            if self.asked.answer.done():
                self.call_off(self.asked)
            else:
                self._await_group(group)
        self._let_others_go_on()
        context.kick()

    def _let_others_go_on(self) -> None:
        waiting, self._started.until_open = self._started.until_open or [], None
        for go_on in waiting:
            go_on()

    def _remember(self, record: Record) -> None:
        """Whom this call has started anew, when it was made before."""
        run, told = self.asked.context.run, json.loads(record.input)
        if isinstance(told, dict):
            self._become(RunId(told["run_id"]), told["group"], told["generation"])
        elif _has_begun_anew(record):
            self._become(child_id(run, record.call, record.started_at), record.seq, run.generation)

    def _become(self, run_id: RunId, group: int, generation: int) -> None:
        new = {"children": _inputs_of(self.counted), "run_id": run_id, "group": group, "generation": generation}
        self.input = json.dumps(new)
        self._started.become(run_id, group, generation == self.asked.context.run.generation)

    def recalled(self, asked: Asked, record: Record) -> None:
        self._asked = asked
        self._remember(record)
        super().recalled(asked, record)

    def abandon(self, asked: Asked, record: Record) -> None:
        self._asked = asked
        self._remember(record)
        super().abandon(asked, record)

    def call_off(self, asked: Asked) -> None:
        """Only this one no longer waits: the child goes on, and may be joined later."""
        if not self._ending and not self._is_opening:
            self._ending = True
            self.drop()
            asked.context.mailbox.leave(self._started.wait_id)
            self.save_call_off(asked, ())


def _has_begun_anew(record: Record) -> bool:
    """Whether it is the start of another child, toward a group of its own, and not a wait for one that was there."""
    return record.state is StepState.WAITING and record.value is None


def _inputs_of(stored: str) -> list[Any]:
    told: Any = json.loads(stored)
    found: list[Any] = told["children"] if isinstance(told, dict) else told
    return found
