"""What every app is made of: its settings, the workflows it knows, and, while it is open, its parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from stepfast.definitions import Compiler, Standing, TemplateCompiler, find_definition, workflow_of
from stepfast.engine.clock import SystemClock
from stepfast.errands import begin_errand
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.texts import check_list, check_optional_text, check_text, shown
from stepfast.listening import Listeners
from stepfast.settings import Found, Settings, read_settings, warn_of_unknown
from stepfast.sharing import OTHER_LOOP, Shared, is_alive, refuse_in_other_loop
from stepfast.stores.blobs.urls import blobs_for
from stepfast.stores.urls import is_sqlite, sqlite_path, store_for
from stepfast.tokens import GivenKeys, KeyFile, NoKeys, TokenKeys, new_callback
from stepfast.worker.settings import WorkerSettings
from stepfast.workflows.app_policies import AppPolicies, Policy
from stepfast.workflows.deterministic import refuse_in_workflow
from stepfast.workflows.executors.builtin import builtin_executors
from stepfast.workflows.executors.registry import ExecutorRegistry
from stepfast.workflows.functions import AnyWorkflow, Bindable, Workflow
from stepfast.workflows.registry import Registry

if TYPE_CHECKING:
    from stepfast.engine.sealing import Sealer
    from stepfast.kernel.asset_ports import Assets
    from stepfast.kernel.blobs import Blobs
    from stepfast.kernel.decisions import CallId, HeldRun
    from stepfast.kernel.ports import Clock, Store
    from stepfast.kernel.seals import SealCopies, Signer
    from stepfast.kernel.sinks import Subscription
    from stepfast.parts import Parts
    from stepfast.signing import SealKeys
    from stepfast.workflows.templates.loading import Template

HOUR_MS = 3_600_000

StoreMaker: TypeAlias = "Callable[[Clock], Store]"
"""Makes a store of one's own, by an app's clock; called each time that the app opens."""


class AppBase:
    """An app from its making to its close, without the doors that people use."""

    def __init__(
        self,
        database: str | StoreMaker | None,
        workflows: Iterable[AnyWorkflow | Template] | None,
        worker: bool | WorkerSettings,
        clock: Clock | None,
        blobs: str | Path | Blobs | None = None,
        assets: Assets | None = None,
        executors: Iterable[object] | None = None,
        policies: Iterable[Policy] = (),
    ) -> None:
        _check_ports(clock, blobs)
        self._make_store = database if callable(database) else None
        url = None if callable(database) else check_optional_text("database", database)
        given = {} if url is None else {"STEPFAST_DATABASE_URL": Found(url, "database")}
        settings = read_settings(given)
        warn_of_unknown(settings)
        self._database = settings.database
        self.tenant = settings.tenant
        self.environment = settings.environment
        self._direct_url = settings.database_direct
        self._blobs = settings.blobs if blobs is None else blobs
        self._blob_threshold = settings.blob_threshold
        self._assets = assets
        self._allowed = settings.allowed
        self._executors = ExecutorRegistry(executors, partial(builtin_executors, settings.allowed))
        self._executors.changed = self._codes_changed
        self._policies = AppPolicies(policies, self._executors.get)
        self._bound: dict[Hashable, Workflow] = {}
        self._parts: Parts | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_opening = False
        self._other_loop = OTHER_LOOP
        self._shared: Shared[Parts] = Shared(self._open_store, self.close)
        known: list[Workflow] | None = None
        if workflows is not None:
            known = [self._own(each) for each in check_list("workflows", workflows, "workflows")]
        self._registry = Registry(known, self._executors)
        self.names_its_workflows = known is not None
        """Whether its workflows are those that it was given, and not every one that is defined."""
        self._settings = worker if isinstance(worker, WorkerSettings) else settings.worker
        self._has_worker = worker is not False
        self._clock: Clock = clock or SystemClock()
        self._listeners = Listeners()
        self._subscriptions: list[Subscription] = []
        self._sink_urls, self._sinks_place = settings.sinks, settings.sinks_place
        self.token_ttl_ms = settings.token_ttl_hours * HOUR_MS
        self.token_keys = self._keys_of(settings)
        self.signer: Signer | None = None
        self.seal_copies: SealCopies | None = None
        self.seals = True
        """Whether what it has in keys can sign."""
        if settings.seal_keys is not None:
            self._seal_with(settings.seal_keys, settings.seal_file)
        self.compiler: Compiler = TemplateCompiler(self._executors, self._registry)
        """Reads templates, and makes workflows of those that are registered."""

    def _seal_with(self, keys: SealKeys, file: str | None) -> None:
        from stepfast.seal_files import SealFile
        from stepfast.signing import KeyedSigner

        self.signer = signer = KeyedSigner(keys)
        self.seals = signer.can_sign
        self.seal_copies = None if file is None else SealFile(Path(file))

    def _signs_with(self) -> Signer | None:
        """Whoever signs, if there are keys for that here."""
        return self.signer if self.seals else None

    def _new_sealer(self, store: Store, is_over: Callable[[], bool] = lambda: False) -> Sealer | None:
        """Whoever seals, if there are keys for that here."""
        signer = self._signs_with()
        if signer is None:
            return None
        from stepfast.engine.sealing import Sealer

        return Sealer(store, self._clock, signer, self.seal_copies, is_over)

    def _keys_of(self, settings: Settings) -> TokenKeys:
        if settings.token_keys is not None:
            return GivenKeys(settings.token_keys)
        if self._make_store is None and is_sqlite(self.database):
            path = sqlite_path(self.database)
            return KeyFile(path.with_name(f"{path.name}.token-key"))
        return NoKeys()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store, and start the worker if there is to be one."""
        parts = await self._open_store()
        if self._has_worker:
            try:
                await parts.add_worker(self._settings)
            except BaseException:
                await self.close()
                raise

    @asynccontextmanager
    async def _used(self) -> AsyncIterator[Parts]:
        """The parts of the app as it is open, or else as all who come here meanwhile have it open together."""
        self._drop_stranded()
        if self._parts is not None and not self._shared.is_used:
            yield self._parts
            return
        async with self._shared.use() as parts:
            yield parts

    async def _open_store(self) -> Parts:
        self._drop_stranded()
        if self._parts is not None or self._is_opening:
            raise StepfastError(
                "This app is open already, by somebody or for a worker or a serverless call of its own. "
                "Use it as it is, or close it first."
            )
        self._is_opening = True
        try:
            return await self._opened_parts()
        finally:
            self._is_opening = False

    def _drop_stranded(self) -> None:
        """Forget what a loop has left behind that ended before the app was closed."""
        if self._parts is not None and not is_alive(self._parts.loop):
            self._parts = None

    async def _opened_parts(self) -> Parts:
        # Engine and workers: whoever defines workflows and makes an app of them needs neither yet.
        from stepfast.engine.values import Values
        from stepfast.kernel.blobs import IN_THE_DATABASE
        from stepfast.parts import Parts

        self._registry.codes()
        self._policies.find()
        store = self._new_store()
        blobs = blobs_for(self._blobs, store, self._clock.now)
        values = Values(blobs, self._blob_threshold, are_apart=self._blobs != IN_THE_DATABASE)
        await store.open()
        told = (self._settings, self._listeners, values, self._assets, self._callback_token, self._policies)
        self._standing = Standing(store, self._clock)
        self._parts = parts = Parts(store, self._registry, self._clock, *told)
        parts.compile_with(self.compiler.compile)
        parts.subscriptions = self._subscriptions
        parts.signs_with = self._signs_with
        parts.sealer = self._new_sealer(store)
        try:
            await parts.open()
        except BaseException:
            await self.close()
            raise
        return parts

    def _callback_token(self, run: HeldRun, call: CallId, ends_at: Instant) -> str:
        return new_callback(run.run_id, run.generation, call, ends_at, self.token_keys.for_new()[0])

    @property
    def database(self) -> str:
        """The database's URL; of a store of the app's own, the name of what makes it."""
        make = self._make_store
        if make is None:
            return self._database
        return f"{make.__module__}.{getattr(make, '__qualname__', type(make).__qualname__)}"

    @database.setter
    def database(self, url: str) -> None:
        self._database, self._make_store = url, None

    @property
    def has_own_store(self) -> bool:
        """Whether it was given what makes its store, and no URL."""
        return self._make_store is not None

    def _new_store(self) -> Store:
        if self._make_store is not None:
            return self._make_store(self._clock)
        return store_for(self.database, self._clock, self._direct_url)

    def as_client(self) -> Self:
        """Let this app open its store alone, without the worker that it would have."""
        self._has_worker = False
        return self

    async def close(self) -> None:
        """Stop the worker, save what is under way, and let go of the store."""
        parts, self._parts = self._parts, None
        self._shared.forget()
        if parts is not None:
            # In a task of its own: whoever closes may be cancelled once more, and must not leave it half closed.
            self._closing = begin_errand(parts.close(), "stepfast-closing")
            await asyncio.shield(self._closing)

    def _codes_changed(self) -> None:
        if self._parts is not None:
            self._parts.codes_changed()

    def codes(self) -> list[str]:
        """The workflows that this app knows, as `name@version`."""
        return self._registry.codes()

    def definitions(self) -> list[Workflow]:
        """The workflows that this app knows, in every version."""
        return self._registry.workflows()

    def definition(self, name: str) -> Workflow:
        """The newest version of a workflow that this app knows."""
        return self._registry.newest(name)

    async def startable(self, name: str, tenant: str | None = None) -> Workflow:
        """The newest version of a workflow that a tenant can start by its name: of this app, or registered."""
        await self._know(name, tenant)
        return self._named(name, tenant)

    async def now(self) -> Instant:
        """The moment by the store's clock, in milliseconds since 1970."""
        return await self._open_parts().store.now()

    async def _reach_blobs(self) -> str:
        """See that large values can be read; where they are."""
        return await self._open_parts().values.reach()

    async def _know(self, workflow: object, tenant: str | None) -> None:
        """Look for a workflow that is named and not of this app's code among what its tenant has registered."""
        if not isinstance(workflow, str):
            return
        if any(own.name == workflow for own in self._registry.workflows()):
            return
        whose = self.tenant if tenant is None else check_text("tenant", tenant)
        found = await find_definition(self._open_parts().store, whose, workflow)
        if found is not None and self._registry.find(workflow, found.version, whose) is None:
            self._registry.learn(whose, self.compiler.compile(found, is_executed=self._has_worker))
            self._codes_changed()

    def _named(self, name: str, tenant: str | None) -> Workflow:
        whose = self.tenant if tenant is None else tenant
        return self._registry.find(name, None, whose) or self._registry.newest(name)

    async def _startable(self, workflow: AnyWorkflow | Template | str, tenant: str | None) -> Workflow:
        """The definition behind what is to be started, unless its version stands for other content."""
        found = self._named(workflow, tenant) if isinstance(workflow, str) else self._own(workflow)
        await self._standing.check(found, self.tenant if tenant is None else check_text("tenant", tenant))
        if not isinstance(workflow, str):
            # Not before it was checked: what is refused must not be what its name stands for here.
            self._registry.add(found)
        return found

    def _own(self, given: AnyWorkflow | Template) -> Workflow:
        """The workflow behind what the app is given; a graph or a template finds here what it does not bring along."""
        itself = cast(Any, given) if hasattr(given, "bound") else None
        made_of: Bindable | None = getattr(given, "made_of", itself)
        if made_of is None:
            return definition_of(cast(AnyWorkflow, given))
        if made_of.identity not in self._bound:
            self._bound[made_of.identity] = made_of.bound(self._executors.get, self.workflow_named)
            for executor in made_of.queued():
                if self._executors.find(executor.name) is None:
                    self._executors.add(executor)
        return self._bound[made_of.identity]

    def workflow_named(self, name: str, version: int | None, tenant: str) -> Workflow:
        """The workflow that a run of a tenant means by a name, as far as it is known here."""
        return workflow_of(self._registry, name, version, tenant)

    def _open_parts(self) -> Parts:
        refuse_in_workflow("A call of the app")
        if self._parts is None:
            raise StepfastError("The app is not open. Use it inside `async with app:`.")
        refuse_in_other_loop(self._parts.loop, self._other_loop)
        return self._parts


def _check_ports(clock: object, blobs: object) -> None:
    """Refuse what was brought and does not fit, where it was given."""
    if clock is None and (blobs is None or isinstance(blobs, str | Path)):
        return
    # Whoever brings nothing does not pay for it.
    from stepfast.kernel.blobs import Blobs
    from stepfast.kernel.ports import Clock, check_port

    if clock is not None:
        check_port("clock", clock, Clock)
    if blobs is not None and not isinstance(blobs, str | Path):
        check_port("blobs", blobs, Blobs)


def definition_of(given: AnyWorkflow) -> Workflow:
    """The definition behind a decorated function, or a graph."""
    definition = given if isinstance(given, Workflow) else getattr(given, "workflow", None)
    if isinstance(definition, Workflow):
        return definition
    raise Invalid(f"{shown(given)} is no workflow: mark the function with @workflow.")
