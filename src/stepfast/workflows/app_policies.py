"""Policies of a whole app: asked before any body in it reads or writes assets, whatever its workflow says.

They are no part of what a run replays: one that is added or taken away holds from then on, for runs that are under way
too, and what was read or written before stays so.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import inspect
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from stepfast.errands import begin_errand
from stepfast.kernel.durations import Duration
from stepfast.kernel.error_kinds import mark_transient
from stepfast.kernel.errors import Invalid, PolicyConflict
from stepfast.kernel.texts import check_list, check_text, shown
from stepfast.workflows.bodies import StepBody, StepInfo, current_step
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.threads import called
from stepfast.workflows.limits import caught, check_limit, leave_behind
from stepfast.workflows.plans.answers import done_with, refusal_in, unchecked

Told = Mapping[str, Any]
"""An asset as policies see it."""
FindExecutor = Callable[[str], Executor]

ABOUT: Mapping[str, str] = {"read": "assets", "write": "writes"}
"""What a check is asked about, by what it is asked before."""
AROUND = frozenset({"tenant", "workflow", "run_id", "step", "actor"})
BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Check(NamedTuple):
    """What a policy asks in one app."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    """Its parameters."""
    body: StepBody | None
    """Of a step or an executor, which has types of its own for what it is given and answers."""

    async def answer(self, known: dict[str, Any]) -> Any:
        """What it says; raises what it raises."""
        given = {name: known[name] for name in self.names}
        if self.body is None:
            # Of its own: what it does to it, neither the step nor another policy must see.
            return await called(self.function, partial(self.function, **copy.deepcopy(given)))
        codec = self.body.arguments
        found = await called(self.function, partial(codec.apply, self.function, codec.restore_json(given)[1]))
        return json.loads(self.body.result.restore(found)[0])


class Policy:
    """A check that every read, or every write, of an app's runs must pass.

    `Stepfast(policies=[Policy("no-secrets", check, before="read")])`: `check` is a function, a step, or the name of an
    executor of the app, and answers `{"ok": bool, "reason": str}`. It is given what it has parameters for: `assets`
    before a read, `writes` before a write, `tenant`, `workflow`, `run_id`, `step` and `actor`. With `conflict="review"`
    a step that declares a policy of the same id may have a person decide; else nothing that a workflow says counts.
    """

    def __init__(
        self,
        id: str,
        check: Callable[..., Any] | Executor | str,
        *,
        before: Literal["read", "write"],
        conflict: Literal["fail", "review"] = "fail",
        timeout: Duration = "30s",
    ) -> None:
        self.id = check_text("the id of a policy", id)
        if before not in (*ABOUT,):
            raise Invalid(f"Policy {id!r} has before={shown(before)}; it can be 'read' or 'write'.")
        if conflict not in ("fail", "review"):
            raise Invalid(f"Policy {id!r} has conflict={shown(conflict)}; it can be 'fail' or 'review'.")
        limit_ms = check_limit(f"the timeout of policy {id!r}", timeout)
        if limit_ms is None:
            raise Invalid(f"the timeout of policy {id!r} is None; nobody would ever know that it does not answer.")
        self.before, self.conflict, self.timeout_ms = before, conflict, limit_ms
        self._named = check if isinstance(check, str) else None
        self._check = None if isinstance(check, str) else self._usable(check)

    def found(self, executors: FindExecutor) -> Check:
        """Its check in one app; raises where it is named, and the app has none of that name."""
        if self._check is not None:
            return self._check
        assert self._named is not None
        return self._usable(executors(self._named))

    def _usable(self, check: Any) -> Check:
        own = getattr(check, "body", None)
        body = own if isinstance(own, StepBody) else None
        function = check if body is None else body.function
        if not callable(function) or isinstance(function, type) or (body is not None and body.apart is not None):
            raise Invalid(f"Policy {self.id!r} has the check {shown(check)}; give a function, a step or a name.")
        try:
            parameters = inspect.signature(function).parameters
        except ValueError as error:
            raise Invalid(f"Policy {self.id!r} has a check that says nothing of its parameters: {error}.") from error
        known = AROUND | {ABOUT[self.before]}
        for name, each in parameters.items():
            if each.kind not in BY_NAME or (name not in known and each.default is each.empty):
                bare = each.replace(annotation=each.empty, default=each.empty)
                raise Invalid(
                    f"Policy {self.id!r} has a check with the parameter {str(bare)!r}; before a {self.before} it can "
                    f"be given, by name: {', '.join(sorted(known))}."
                )
        return Check(function, tuple(name for name in parameters if name in known), body)

    async def ask(self, check: Check, info: StepInfo, about: Sequence[Told]) -> Any:
        """What its check says to what a body is about to do; raises what that raises."""
        run = info.run
        known = {
            "tenant": run.tenant,
            "workflow": run.workflow,
            "run_id": run.run_id,
            "actor": run.actor,
            "step": info.call.address,
            ABOUT[self.before]: [*map(dict, about)],
        }
        around = contextvars.copy_context()
        # It looks at what is told; what it read, noted or told itself would be taken for the step's.
        around.run(current_step.set, info.aside)
        asking = begin_errand(caught(lambda _: check.answer(known), lambda: None), context=around)
        try:
            await asyncio.wait({asking}, timeout=self.timeout_ms / 1_000)
            if not asking.done():
                raise TimeoutError(f"it gave no answer within {self.timeout_ms / 1_000:g} s")
        finally:
            leave_behind(asking)
        answer, error = asking.result()
        if error is None:
            return answer
        if isinstance(error, Exception):
            raise error
        # SystemExit would end the worker, and CancelledError be taken for the end of the step.
        raise RuntimeError(f"it raised {type(error).__name__}") from error


class AppPolicies:
    """The policies of an app."""

    def __init__(self, policies: Iterable[Policy], executors: FindExecutor) -> None:
        self._policies = tuple(check_list("policies", policies, "stepfast.Policy(...)"))
        self._executors = executors
        self._checks: dict[str, Check] = {}
        ids: set[str] = set()
        for policy in self._policies:
            if not isinstance(policy, Policy):
                raise Invalid(f"policies has {shown(policy)}; give stepfast.Policy(...).")
            if policy.id in ids:
                raise Invalid(f"Two policies of the app have the id {policy.id!r}; give one of them another.")
            ids.add(policy.id)

    def find(self) -> None:
        """Look for the checks that are named; raises where one is not there."""
        self._checks = {policy.id: policy.found(self._executors) for policy in self._policies}

    def guards(self, what: Literal["read", "write"]) -> bool:
        """Whether anybody is to be asked before something is read, or written."""
        return any(policy.before == what for policy in self._policies)

    async def ask(
        self, what: Literal["read", "write"], info: StepInfo, about: Sequence[Told], let: Collection[str] = ()
    ) -> None:
        """Let a body read or write these, or raise PolicyConflict; `let` are policies that a person has decided about.

        A conflict that comes of a check which could not be made is marked to pass by itself: the step tries it again.
        """
        for policy in self._policies if about else ():
            is_let = policy.conflict == "review" and policy.id in let
            if policy.before == what and not is_let:
                await self._ask(policy, info, about)

    async def _ask(self, policy: Policy, info: StepInfo, about: Sequence[Told]) -> None:
        what = done_with(policy.before, about)
        told = f"Policy {policy.id} of the app refuses that step {info.call.address} {what}"
        try:
            reason = refusal_in(await policy.ask(self._checks[policy.id], info, about))
        except Exception as error:
            raise mark_transient(PolicyConflict(f"{told}: {unchecked(error)}")) from error
        if reason is not None:
            raise PolicyConflict(f"{told}: {reason}")
