"""Policies of a whole app: asked before any body in it reads or writes assets, whatever its workflow says.

They are no part of what a run replays: one that is added or taken away holds from then on, for runs that are under way
too, and what was read or written before stays so.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, PolicyConflict
from stepfast.kernel.texts import check_text, shown
from stepfast.workflows.bodies import StepInfo, current_step
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.plans.answers import named, refusal_in

Told = Mapping[str, Any]
"""An asset as policies see it."""
FindExecutor = Callable[[str], Executor]

KNOWN: Mapping[str, frozenset[str]] = {
    what: frozenset({about, "tenant", "workflow", "run_id", "step", "actor"})
    for what, about in (("read", "assets"), ("write", "writes"))
}


class Policy:
    """A check that every read, or every write, of an app's runs must pass.

    `Stepfast(policies=[Policy("no-secrets", check, before="read")])`: `check` is a function, a step, or the name of an
    executor of the app, and answers `{"ok": bool, "reason": str}`. It is given what it has parameters for: `assets`
    before a read, `writes` before a write, `tenant`, `workflow`, `run_id`, `step` and `actor`.
    """

    def __init__(
        self,
        id: str,
        check: Callable[..., Any] | Executor | str,
        *,
        before: Literal["read", "write"],
        timeout: Duration = "30s",
    ) -> None:
        self.id = check_text("the id of a policy", id)
        if before not in KNOWN:
            raise Invalid(f"Policy {id!r} has before={shown(before)}; it can be 'read' or 'write'.")
        self.before = before
        self.timeout_ms = span_ms(timeout, f"the timeout of policy {id!r}")
        self._check = check
        if not isinstance(check, str):
            self._function, self._names = self._usable(_function_of(check))

    def find(self, executors: FindExecutor) -> None:
        """Look for a check that is named; raises where the app has none of that name."""
        if isinstance(self._check, str):
            self._function, self._names = self._usable(executors(self._check).body.function)

    def _usable(self, function: Any) -> tuple[Callable[..., Any], tuple[str, ...]]:
        if not callable(function):
            raise Invalid(f"Policy {self.id!r} has the check {shown(function)}; give a function, a step or a name.")
        parameters = inspect.signature(function).parameters
        known = KNOWN[self.before]
        needed = [name for name, each in parameters.items() if each.default is each.empty and name not in known]
        if needed:
            raise Invalid(
                f"Policy {self.id!r} has a check with the parameter {needed[0]!r}; before a {self.before} it can be "
                f"given {', '.join(sorted(known))}."
            )
        return function, tuple(name for name in parameters if name in known)

    async def ask(self, info: StepInfo, about: Sequence[Told]) -> Any:
        """What it says to what a body is about to do; raises what the check raises."""
        run = info.run
        known: dict[str, Any] = {
            "tenant": run.tenant,
            "workflow": run.workflow,
            "run_id": run.run_id,
            "actor": run.actor,
        }
        known |= {"step": info.call.address, "assets" if self.before == "read" else "writes": [*map(dict, about)]}
        around = contextvars.copy_context()
        # It looks at what is told; what it read itself would be told to be read by the step.
        around.run(current_step.set, info._replace(storage=None))
        given = {name: known[name] for name in self._names}
        task = asyncio.get_running_loop().create_task(self._called(given), context=around)
        return await asyncio.wait_for(task, self.timeout_ms / 1_000)

    async def _called(self, given: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**given)
        return await asyncio.to_thread(self._function, **given)


class AppPolicies:
    """The policies of an app."""

    def __init__(self, policies: Iterable[Policy], executors: FindExecutor) -> None:
        self._policies = tuple(policies)
        self._executors = executors
        ids: set[str] = set()
        for policy in self._policies:
            if not isinstance(policy, Policy):
                raise Invalid(f"policies has {shown(policy)}; give stepfast.Policy(...).")
            if policy.id in ids:
                raise Invalid(f"Two policies of the app have the id {policy.id!r}; give one of them another.")
            ids.add(policy.id)

    def find(self) -> None:
        """Look for the checks that are named; raises where one is not there."""
        for policy in self._policies:
            policy.find(self._executors)

    def guards(self, what: Literal["read", "write"]) -> bool:
        """Whether anybody is to be asked before something is read, or written."""
        return any(policy.before == what for policy in self._policies)

    async def before_reading(self, info: StepInfo, assets: Sequence[Told], let: Collection[str] = ()) -> None:
        """Let a body read these, or raise PolicyConflict; `let` are policies that a person has decided about."""
        what = f"reads {named(asset['uri'] for asset in assets)}"
        await self._ask_all("read", what, info, assets, let)

    async def before_writing(self, info: StepInfo, writes: Sequence[Told], let: Collection[str] = ()) -> None:
        """The same before it writes."""
        what = f"writes {named(repr(each['id']) for each in writes)}"
        await self._ask_all("write", what, info, writes, let)

    async def _ask_all(
        self, before: str, what: str, info: StepInfo, about: Sequence[Told], let: Collection[str]
    ) -> None:
        for policy in self._policies if about else ():
            if policy.before == before and policy.id not in let:
                await _ask(policy, what, info, about)


async def _ask(policy: Policy, what: str, info: StepInfo, about: Sequence[Told]) -> None:
    told = f"Policy {policy.id} of the app refuses that step {info.call.address} {what}"
    try:
        reason = refusal_in(await policy.ask(info, about))
    except Exception as error:
        raise PolicyConflict(f"{told}: it could not be checked: {type(error).__name__}: {error}") from error
    if reason is not None:
        raise PolicyConflict(f"{told}: {reason}")


def _function_of(check: Any) -> Any:
    return getattr(getattr(check, "body", None), "function", check)
