"""Workflows that a plan runs by their names: which one is meant, and what its inputs stand for, is found out once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stepfast.kernel.errors import Invalid, NotFound
from stepfast.workflows.child_calls import ChildKind, ChildrenCall
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.functions import Workflow, child_kind
from stepfast.workflows.inputs import AssetsOf
from stepfast.workflows.joins import ONE
from stepfast.workflows.plans.plan import RunChild

PLAIN = ValueCodec(Any, "a child's result")


def _anything(**inputs: Any) -> None:
    """What is known of a workflow that is not known here."""


UNKNOWN = ChildKind("workflow", "", 0, None, None, 0, ArgumentsCodec(_anything, "a child"), PLAIN)


class NamedChildCall(ChildrenCall):
    """Runs a workflow, and waits for its end.

    The call is known by what the plan says. The workflow is looked for, and its inputs are looked up, before the child
    is stored; from there on they are the child's own, whatever is registered or put meanwhile.
    """

    def __init__(self, verb: RunChild, given: dict[str, Any], find: Callable[[], Workflow], is_plain: bool) -> None:
        super().__init__(UNKNOWN, ["{}"], ONE)
        self._given = given
        self._find = find
        self._is_plain = is_plain
        self.input = self.counted = PLAIN.encode({"workflow": verb.workflow, "version": verb.version, "with": given})

    def counted_of(self, stored: str) -> str:
        return stored

    def value_of(self, text: str) -> Any:
        if self._child is UNKNOWN:
            self._learn_result()
        return super().value_of(text)

    def _learn_result(self) -> None:
        """Of a child that was started before only the type of its result counts."""
        try:
            self._child = self._kind_of(self._find())
        except NotFound:
            self._child = replace(UNKNOWN)

    def open(self) -> None:
        context = self.asked.context
        context.busy.add(self.asked.call)
        self._errand = context.run_errand(self._find_and_open(), "stepfast-child")

    async def _find_and_open(self) -> None:
        try:
            workflow = await self._found()
            self._child = self._kind_of(workflow)
            self._inputs = [await self._input_of(workflow)]
        except (Invalid, NotFound) as error:
            self.fail(error)
            return
        if self.asked.answer.done():
            self._ending = True
            self.save_call_off(self.asked, ())
        else:
            super().open()

    async def _found(self) -> Workflow:
        try:
            return self._find()
        except NotFound:
            # It may have been registered a moment ago.
            await self.asked.context.host.learn()
            return self._find()

    def _kind_of(self, workflow: Workflow) -> ChildKind:
        kind = child_kind(workflow)
        return replace(kind, result=PLAIN) if self._is_plain else kind

    async def _input_of(self, workflow: Workflow) -> str:
        context, kind = self.asked.context, self._child
        if not workflow.finds_inputs:
            return kind.input_of((), dict(workflow.arguments.from_json((), self._given).arguments))
        storage = context.host.storage
        assert storage is not None
        return kind.input_of((), await workflow.look_up((), self._given, AssetsOf(storage.assets, context.run.tenant)))
