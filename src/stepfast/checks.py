"""The deploy check: whether the code at hand fits the runs that are open, before it is let near them."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple

from stepfast.definitions import Belonging
from stepfast.engine.swapping import fill
from stepfast.engine.values import Values
from stepfast.kernel.decisions import NOTHING_YET, HeldRun, History
from stepfast.kernel.errors import BlobDamaged
from stepfast.kernel.generations import epoch_of
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.ports import Store
from stepfast.kernel.states import OPEN, RunState
from stepfast.kernel.views import RunFilter, RunView
from stepfast.workflows.executors.registry import ExecutorRegistry
from stepfast.workflows.fitting import Fit, Verdict, fit
from stepfast.workflows.registry import Registry
from stepfast.workflows.unsafe import UnsafeCall, unsafe_calls

PAGE_RUNS = 100
MOST_SHOWN = 1_000


class CheckedRun(NamedTuple):
    """An open run that does not simply fit: at which step, what is wrong, and whether it would stop there."""

    run_id: RunId
    tenant: str
    workflow: str
    version: int
    state: RunState
    fit: Fit
    breaks: bool


class ChangedContent(NamedTuple):
    """A graph or template of the app whose version a tenant has registered with other content: no start of it."""

    code: str
    tenant: str
    registered: str
    """The code of what stands."""

    def __str__(self) -> str:
        return (
            f"{self.code} has other content than {self.registered}, which tenant {self.tenant} has registered: its "
            f"starts will be refused. Give it a new version."
        )


class CheckReport(NamedTuple):
    """What the check found: open runs by verdict, the first that do not simply fit, and unsafe calls.

    `breaking` counts the runs that would wait for other code, or whose large values cannot be read. Runs of workflows
    of which this app has no version, and of templates of whose executors it has none, belong to another app, and do not
    count.
    """

    verdicts: Mapping[Verdict, int]
    breaking: int
    runs: list[CheckedRun]
    unsafe: list[UnsafeCall]
    changed: list[ChangedContent]

    @property
    def is_safe(self) -> bool:
        """Whether every open run can go on with this code, and everything that it has can be started."""
        return not self.breaking and not self.changed

    @property
    def checked(self) -> int:
        """How many open runs were looked at."""
        return sum(self.verdicts.values())


async def check(
    store: Store, registry: Registry, values: Values, executors: ExecutorRegistry, tenant: str | None = None
) -> CheckReport:
    """Replay every open run of a store, or of a tenant, in memory with the code at hand; nothing is written."""
    verdicts: Counter[Verdict] = Counter()
    breaking, shown = 0, list[CheckedRun]()
    belonging = Belonging(store, registry, executors)
    async for checked in _each_open(store, registry, values, belonging, tenant):
        verdicts[checked.fit.verdict] += 1
        breaking += checked.breaks
        if checked.fit.verdict is not Verdict.FITS and len(shown) < MOST_SHOWN:
            shown.append(checked)
    unsafe = [call for workflow in registry.workflows() for call in unsafe_calls(workflow)]
    return CheckReport(dict(verdicts), breaking, shown, unsafe, await _changed(store, registry, tenant))


async def _changed(store: Store, registry: Registry, tenant: str | None) -> list[ChangedContent]:
    own = {(each.name, each.version): each for each in registry.workflows() if each.digest is not None}
    found, number = list[ChangedContent](), 0
    while own and (page := await store.definitions_after(number, PAGE_RUNS)):
        number = page[-1].number
        for stands in page:
            mine = own.get((stands.name, stands.version))
            if mine is not None and mine.digest != stands.digest and tenant in (None, stands.tenant):
                found.append(ChangedContent(mine.code, stands.tenant, stands.code))
    return found[:MOST_SHOWN]


async def _each_open(
    store: Store, registry: Registry, values: Values, belonging: Belonging, tenant: str | None
) -> AsyncIterator[CheckedRun]:
    async for page in _open_pages(store, tenant):
        histories = await store.histories([view.run_id for view in page])
        for view in page:
            history = histories.get(view.run_id, NOTHING_YET)
            run = held_from(view, await _kept_seq(store, view), await _epoch(store, view))
            found = await _fit_of(view, run, history, registry, values)
            breaks = not found.is_good and await _is_ours(found, view, belonging)
            yield CheckedRun(view.run_id, view.tenant, view.workflow, view.version, view.state, found, breaks)


async def _open_pages(store: Store, tenant: str | None) -> AsyncIterator[list[RunView]]:
    for state in sorted(OPEN):
        where = RunFilter(tenant=tenant, state=state, limit=PAGE_RUNS)
        while page := await store.runs(where):
            yield page
            where = where._replace(before=page[-1].run_id)


async def _is_ours(found: Fit, view: RunView, belonging: Belonging) -> bool:
    match found.verdict:
        case Verdict.NOT_COMPILED:
            return await belonging.is_ours(view.tenant, view.workflow, view.version)
        case Verdict.UNKNOWN_CODE:
            return belonging.has_another_version(view.tenant, view.workflow)
    return True


async def _fit_of(view: RunView, run: HeldRun, history: History, registry: Registry, values: Values) -> Fit:
    code = run.code
    workflow = registry.by_code(code)
    if workflow is None and (lacking := registry.lacks().get(code)):
        return Fit(Verdict.NOT_COMPILED, None, lacking)
    if workflow is None:
        return Fit(Verdict.UNKNOWN_CODE, None, f"There is no {code} here. Keep it in the code while it has open runs.")
    try:
        history = await fill(values, run, history)
    except BlobDamaged as error:
        return Fit(Verdict.UNREADABLE, None, str(error))
    return await fit(workflow, run, history)


async def _kept_seq(store: Store, view: RunView) -> int:
    """The number of the last record that an earlier generation of a run has made."""
    if view.generation == 1:
        return 0
    return max((step.seq for step in await store.steps(view.run_id) if step.generation < view.generation), default=0)


async def _epoch(store: Store, view: RunView) -> int:
    return 1 if view.generation == 1 else epoch_of(await store.generations(view.run_id))


def held_from(view: RunView, kept_seq: int = 0, epoch: int = 1) -> HeldRun:
    """A run as a holder would know it, made of what people see; enough for a replay that writes nothing."""
    return HeldRun(
        run_id=view.run_id,
        tenant=view.tenant,
        workflow=view.workflow,
        version=view.version,
        kind=view.kind,
        queue=view.queue,
        generation=view.generation,
        token=view.token,
        worker_id=WorkerId(""),
        input=view.input,
        wakes=0,
        hold=False,
        claims=view.claims,
        crashes=view.crashes,
        last_seq=0,
        last_event=0,
        queued_at=view.queued_at,
        actor=view.actor,
        correlation_id=view.correlation_id,
        causation_id=view.causation_id,
        thread_id=view.thread_id,
        subject=view.subject,
        metadata=view.metadata,
        kept_seq=kept_seq,
        definition=view.definition,
        epoch=epoch,
    )
