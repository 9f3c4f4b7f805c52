"""The app: the one place where workflows, engine, store and worker are wired together."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from stepfast.doors import Doors
from stepfast.executors import Executors
from stepfast.interrupting import run_in_order
from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RANDOM_BITS, Ids, RunId, WorkerId, parse_run_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import check_list, check_optional_text, check_texts
from stepfast.listening import Callback, check_types
from stepfast.starts import PAGE_RUNS, Start, StartAnswer, check_start, found_run, pages
from stepfast.worker.settings import BOUNDS, WorkerSettings, checked_ms
from stepfast.workers import AppWorker, Workers
from stepfast.workflows.app_policies import Policy
from stepfast.workflows.functions import AnyWorkflow, AsyncWorkflow, SyncWorkflow, Workflow

if TYPE_CHECKING:
    from stepfast.base import StoreMaker
    from stepfast.bulk import BulkAnswer
    from stepfast.checks import CheckReport
    from stepfast.filters import Filters
    from stepfast.kernel.asset_ports import Assets as AssetsPort
    from stepfast.kernel.blobs import Blobs
    from stepfast.kernel.decisions import NewRun
    from stepfast.kernel.definitions import DefinitionView
    from stepfast.kernel.ports import Clock
    from stepfast.kernel.sinks import Sink
    from stepfast.kernel.views import Findings, RunView
    from stepfast.registering import Registrable
    from stepfast.runs import Run
    from stepfast.serverless import Serverless
    from stepfast.workflows.graphs.graph import Graph
    from stepfast.workflows.templates.loading import Template

C = TypeVar("C", bound=Callback)
T = TypeVar("T")


class Stepfast(Doors):
    """A store, the workflows that run on it, and, unless told otherwise, a worker in this process.

    `worker` is True for a worker as the settings say, False for none, or WorkerSettings of your own: these are taken as
    they are, and variables like STEPFAST_CONCURRENCY do not change them. `executors` are then all that steps can call
    by name beside the built-in ones; without it that is every step of the process, and what installed packages bring.
    `policies` must let every read and write of assets that its workers do.
    """

    def __init__(
        self,
        database: str | StoreMaker | None = None,
        *,
        workflows: Iterable[AnyWorkflow | Template] | None = None,
        worker: bool | WorkerSettings = True,
        blobs: str | Path | Blobs | None = None,
        clock: Clock | None = None,
        executors: Iterable[object] | None = None,
        assets: AssetsPort | None = None,
        sinks: Iterable[Sink | str] | None = None,
        policies: Iterable[Policy] = (),
    ) -> None:
        super().__init__(database, workflows, worker, clock, blobs, assets, executors=executors, policies=policies)
        self._ids = Ids()
        self.workers = Workers(self)
        self.executors = Executors(self._executors)
        for sink in () if sinks is None else check_list("sinks", sinks, "sinks or their URLs"):
            self.sinks.add(sink)
        if self._sink_urls:
            # Most apps have none.
            from stepfast.outbox import add_sinks

            add_sinks(self.sinks, self._sink_urls, self._sinks_place)

    def worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        tenants: Iterable[str] | None = None,
        lease: Duration | None = None,
        poll: Duration | None = None,
        grace: Duration | None = None,
        label: str | None = None,
        max_runs: int | None = None,
        only: str | None = None,
    ) -> AppWorker:
        """A worker on this app's store, to be started and stopped by hand; what is not given is as in the settings.

        `only` is the id of a run: the worker executes it and all that it starts, and nothing that belongs to others.
        """
        given: dict[str, Any] = {
            "queues": None if queues is None else _some("queues", queues, "serve those of the workflows"),
            "concurrency": None
            if concurrency is None
            else check_whole("concurrency", concurrency, *BOUNDS["concurrency"]),
            "tenants": None if tenants is None else _some("tenants", tenants, "serve all"),
            "poll_ms": None if poll is None else checked_ms("poll", poll),
            "grace_ms": None if grace is None else checked_ms("grace", grace),
            "label": check_optional_text("label", label),
            "max_runs": None if max_runs is None else check_whole("max_runs", max_runs, 1),
        }
        settings = self._settings if lease is None else self._settings.with_lease(checked_ms("lease", lease))
        settings.check()
        settings = replace(settings, **{name: value for name, value in given.items() if value is not None})
        return AppWorker(self, settings, None if only is None else parse_run_id(only))

    @overload
    async def start(self, workflow: AsyncWorkflow[..., T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    async def start(self, workflow: SyncWorkflow[..., T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    async def start(self, workflow: Graph[Any, T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    async def start(self, workflow: str | Workflow | Template, /, *args: Any, **options: Any) -> Run[Any]: ...

    async def start(
        self,
        workflow: AnyWorkflow | Template | str,
        /,
        *args: Any,
        tenant: str | None = None,
        key: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        delay: Duration | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
        actor: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Run[Any]:
        """Store a run and return at once; it is on disk when this returns. Without a tenant it is STEPFAST_TENANT's.

        `arguments` are keywords for the workflow too: for parameters that have the name of one of these options.
        """
        parts = self._open_parts()
        await self._know(workflow, tenant)
        definition = await self._startable(workflow, tenant)
        run = await found_run(
            definition,
            self._new_run_id(),
            self.tenant,
            args,
            {
                "tenant": tenant,
                "key": key,
                "queue": queue,
                "priority": priority,
                "delay": delay,
                "tags": tags,
                "metadata": metadata,
                "thread_id": thread_id,
                "subject": subject,
                "correlation_id": correlation_id,
                "actor": actor,
                "arguments": arguments,
                **kwargs,
            },
            parts.assets,
        )
        return await parts.start(run, definition)

    async def start_many(self, requests: Iterable[Start]) -> list[StartAnswer]:
        """Store any number of runs, a thousand to a commit, and say of each, in order, what became of it.

        A request that does not fit is refused with its error as the answer, and the others are stored all the same.
        """
        parts = self._open_parts()
        answers: list[StartAnswer] = []
        left = iter(requests)
        while batch := list(islice(left, PAGE_RUNS)):
            await self._know_all(batch)
            # Made page by page, as their inputs may be large.
            async for page in pages(map(self._run_or_refusal, batch)):
                answers += await parts.start_page(page)
        return answers

    async def _know_all(self, batch: list[Start]) -> None:
        named = [start for start in batch if isinstance(getattr(start, "workflow", None), str)]
        for name, tenant in dict.fromkeys((start.workflow, start.options.get("tenant")) for start in named):
            # What cannot be compiled is told for each start that names it, as what is not known here.
            with suppress(StepfastError):
                await self._know(name, tenant)

    async def _run_or_refusal(self, request: Start) -> NewRun | StepfastError:
        try:
            check_start(request)
            definition = await self._startable(request.workflow, request.options.get("tenant"))
            asked = (self._new_run_id(), self.tenant, request.args, request.options)
            return await found_run(definition, *asked, self._open_parts().assets)
        except StepfastError as error:
            return error

    def _new_run_id(self) -> RunId:
        return RunId(self._ids.next(self._clock.now(), secrets.randbits(RANDOM_BITS)))

    def get(self, run_id: str, *, tenant: str | None = None) -> Run[Any]:
        """The handle of a run; whether it exists, and is the tenant's, shows when it is asked something."""
        home, whose = self._open_parts(), check_optional_text("tenant", tenant)
        return home.handle(parse_run_id(run_id), known_here=False, tenant=whose)

    async def runs(
        self,
        workflow: AnyWorkflow | Template | str | None = None,
        *,
        limit: int = 100,
        cursor: str | None = None,
        **filters: Unpack[Filters],
    ) -> list[RunView]:
        """A page of runs, newest first; the id of the last one is the cursor of the next page.

        Filters are `version`, `state`, `queue`, `tenant`, `actor`, `correlation_id`, `subject`, `thread_id`, `tag`, and
        `queued_after` and `updated_after`, which are a datetime or milliseconds since 1970.
        """
        from stepfast.filters import page_size, place, run_filter

        where = run_filter({"workflow": workflow, **filters})
        return await self._open_parts().store.runs(where._replace(before=place(cursor), limit=page_size(limit)))

    async def change_many(self, /, action: str, where: Mapping[str, Any], **options: Any) -> BulkAnswer:
        """Cancel, pause, resume, retry or rerun all runs that fit; takes what `change_pages` takes."""
        from stepfast.bulk import summed

        return await summed(self.change_pages(action, where, **options))

    def change_pages(
        self,
        action: str,
        where: Mapping[str, Any],
        *,
        dry_run: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
        version: int | None = None,
        key: str | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> AsyncIterator[BulkAnswer]:
        """The same, up to 500 runs in a commit, answering page by page.

        `where` holds filters of `runs`, like `{"workflow": "checkout", "state": "failed"}`; of the runs that fit, those
        whose state does not allow the action are skipped. `limit` bounds how many runs are looked at; `dry_run` changes
        nothing; `cursor` goes on where an earlier answer ended.
        """
        from stepfast.bulk import change_pages, pages_of_runs
        from stepfast.control import asked, command_named
        from stepfast.filters import place, run_filter

        parts = self._open_parts()
        command = asked(command_named(action, version), key, reason, actor, dry_run)
        pages = pages_of_runs(parts.store, run_filter(where), command)
        return change_pages(parts, pages, command, before=place(cursor), limit=limit)

    async def check(self, tenant: str | None = None) -> CheckReport:
        """Whether this app's code fits the runs that are open: each is replayed in memory, and nothing is written."""
        parts = self._open_parts()
        await parts.learn()
        whose = check_optional_text("tenant", tenant)
        # It reads code and replays runs: only whoever deploys needs it.
        from stepfast.checks import check

        return await check(parts.store, parts.registry, parts.values, self._executors, whose)

    async def findings(self, limit: int = 100) -> Findings:
        """Runs that cannot go on: there are none unless something is wrong with engine, database or blob store.

        Up to `limit` of each kind. Of a very large store the oldest runs are not looked at: `is_whole` is False then.
        """
        from stepfast.filters import page_size

        return await self._open_parts().store.findings(page_size(limit))

    def on(self, *types: str) -> Callable[[C], C]:
        """Call a function, `def` or `async def`, with each event of these types: `@app.on("completed", "failed")`.

        It hears of what happens through the workers and commands of this process, after the commit, one event at a
        time: also of runs that the upkeep here fails because they killed their workers or missed their deadline. What
        other processes do it does not hear. What it raises is logged.
        """
        check_types(types)

        def listen(callback: C) -> C:
            self._listeners.add(types, callback)
            return callback

        return listen

    async def register(
        self, given: Registrable, *, actor: str | None = None, tenant: str | None = None
    ) -> DefinitionView:
        """Keep a definition for good: a template (its file or content), a graph, or a workflow made of one.

        The same content again answers the same; other content under a version that stands is refused.
        """
        return await self.workflows.register(given, actor=actor, tenant=tenant)

    def serverless(self) -> Serverless:
        """A host for functions that are called for one run, or now and then, and live no longer than the call."""
        from stepfast.serverless import Serverless

        return Serverless(self)

    async def retire_worker(self, worker_id: str) -> None:
        """Give back what a worker holds that cannot do it by itself; works from any thread and event loop."""
        store = self._new_store()
        await store.open()
        try:
            await store.retire(WorkerId(worker_id))
        finally:
            await store.close()


def run_on_default_app(workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Open the default app, run one workflow, wait for its result, close."""

    async def run() -> Any:
        async with Stepfast() as app:
            return await (await app.start(workflow, *args, arguments=kwargs))

    return run_in_order(run())


def _some(what: str, names: Iterable[str], without: str) -> tuple[str, ...]:
    """Names, of which there must be one: a worker for none would wait for ever, and nobody means all by it."""
    given = check_texts(what, names)
    if not given:
        raise Invalid(f"{what} is empty; name at least one, or leave it out to {without}.")
    return given
