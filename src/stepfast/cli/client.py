"""A command's way to the database: where it is, for whom the command speaks, and in which form it answers."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from functools import cached_property
from typing import Any, TypeVar
from uuid import UUID

from stepfast.app import Stepfast
from stepfast.cli.interrupts import heard_once
from stepfast.cli.loading import load_app
from stepfast.cli.logs import show_log
from stepfast.cli.options import common_options
from stepfast.cli.output import keep_stdout
from stepfast.cli.threads import leave_threads_behind
from stepfast.interrupting import run_in_order
from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid, NotFound, WaitTimeout
from stepfast.kernel.retention import RunGone
from stepfast.kernel.texts import shown
from stepfast.kernel.views import RunView
from stepfast.runs import Run
from stepfast.settings import Found, Settings, read_settings, warn_of_unknown
from stepfast.stores.urls import check_exists

T = TypeVar("T")

SHORTEST_PREFIX = 8
ID_DIGITS = 32
CLIENT_OPTIONS = ("database", "app", "tenant", "all_tenants", "output", "timeout")


class Client:
    """What a command that speaks to a database was given."""

    def __init__(
        self,
        database: str | None,
        app: str | None,
        tenant: str | None,
        all_tenants: bool,
        output: str,
        timeout: str | None,
    ) -> None:
        if all_tenants and tenant is not None:
            raise Invalid(f"--tenant {shown(tenant)} and --all-tenants were given. Speak for one tenant, or for all.")
        keep_stdout()
        self.settings = _settings(database, app, tenant)
        self.is_json = output == "json"
        self.tenant = None if all_tenants else self.settings.tenant
        self.named_tenant = tenant
        self._database = database
        self._timeout = timeout
        if self.settings.log.level == "debug":
            show_log(self.settings.log)
        warn_of_unknown(self.settings)

    def perform(
        self, work: Callable[[Stepfast], Awaitable[T]], *, needs_code: bool = False, takes_app: bool = False
    ) -> T:
        """Open the database, without a worker, and do the work there: with an app that knows a workflow where it
        `needs_code`, where it `takes_app` with the one that is named, whatever that knows."""
        app = self.app(needs_code) if needs_code or (takes_app and self.settings.app) else self._stranger()
        return self.perform_on(app.as_client(), work)

    def perform_on(self, app: Stepfast, work: Callable[[Stepfast], Awaitable[T]]) -> T:
        """The same on an app that may have a worker of its own."""
        return self.run(_opened(app, work))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work to its end, within the time that was given."""
        return run_in_order(self._within_time(work))

    def app(self, needs_code: bool = True) -> Stepfast:
        """The app that was named, on the database that was named."""
        app = load_app(self.settings, needs_code)
        if self._database is not None:
            app.database = self._database
        return app

    @cached_property
    def _named_app(self) -> Stepfast | None:
        """The app whose database is meant, where no other was named."""
        return load_app(self.settings, needs_code=False) if self._database is None and self.settings.app else None

    @property
    def has_own_store(self) -> bool:
        """Whether the app that is named has a store of its own, of which nothing can be said but through the app."""
        return self._named_app is not None and self._named_app.has_own_store

    @property
    def database(self) -> str:
        """The database that is meant: the one that was named, else the named app's, else the settings'."""
        app = self._named_app
        if app is not None and app.has_own_store:
            raise Invalid(
                f"{self.settings.app} has a store of its own, which {app.database} makes. This command is for the "
                "databases of stepfast: name one with --database."
            )
        return self.settings.database if app is None else app.database

    @property
    def one_tenant(self) -> str:
        """The tenant for something new, which belongs to one."""
        if self.tenant is None:
            raise Invalid("A run belongs to one tenant; name it with --tenant instead of --all-tenants.")
        return self.tenant

    async def find(self, app: Stepfast, run_id: str) -> RunView:
        """The run that a person means, by its id or a beginning of it, if it is this tenant's."""
        prefix = run_id.replace("-", "").lower()
        if len(prefix) < ID_DIGITS and _is_hex(prefix):
            return await self._find_by_prefix(app, run_id, prefix)
        handle = app.get(run_id, tenant=self.tenant)
        try:
            return await handle.info()
        except RunGone:
            raise
        except NotFound:
            raise self._not_found(run_id) from None

    async def handle(self, app: Stepfast, run_id: str) -> Run[Any]:
        """The handle of that run."""
        return app.get((await self.find(app, run_id)).run_id, tenant=self.tenant)

    async def _find_by_prefix(self, app: Stepfast, run_id: str, prefix: str) -> RunView:
        if len(prefix) < SHORTEST_PREFIX:
            raise Invalid(f"{run_id!r} is too short for a run id; give at least its first {SHORTEST_PREFIX} digits.")
        views = await app.runs(tenant=self.tenant, cursor=_first_behind(prefix), limit=2)
        found = [view for view in views if view.run_id.replace("-", "").startswith(prefix)]
        if len(found) > 1:
            raise Invalid(f"Several run ids begin with {run_id!r}, as {found[0].run_id} and {found[1].run_id}.")
        if not found:
            raise self._not_found(run_id)
        return found[0]

    def _not_found(self, run_id: str) -> NotFound:
        if self.tenant is None:
            return NotFound(f"Run {run_id} not found. List runs with `stepfast runs list --all-tenants`.")
        return NotFound(
            f"Run {run_id} not found for tenant {self.tenant!r}. Name its tenant with --tenant, or look in all with "
            "--all-tenants."
        )

    def _stranger(self) -> Stepfast:
        """An app that knows no workflow: enough for everything that needs no code, but the app's own store."""
        if self._named_app is not None and self.has_own_store:
            return self._named_app
        database = self.database
        check_exists(database)
        return Stepfast(database, workflows=[])

    async def _within_time(self, work: Coroutine[Any, Any, T]) -> T:
        leave_threads_behind()
        timeout_s = None if self._timeout is None else span_ms(self._timeout, "--timeout") / 1_000
        try:
            with heard_once():
                async with asyncio.timeout(timeout_s) as timer:
                    return await work
        except TimeoutError:
            if not timer.expired():
                raise
            raise WaitTimeout(f"The command took longer than {self._timeout}. What it asked for may go on.") from None


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Add the common options to a command, and hand them to it as a `Client`."""

    @common_options("database", "app", "tenant", "output", "timeout", "debug")
    @functools.wraps(command)
    def call(**options: Any) -> None:
        given = {name: options.pop(name) for name in CLIENT_OPTIONS}
        command(Client(**given), **options)

    return call


async def _opened(app: Stepfast, work: Callable[[Stepfast], Awaitable[T]]) -> T:
    async with app:
        return await work(app)


def _settings(database: str | None, app: str | None, tenant: str | None) -> Settings:
    given = {
        "STEPFAST_DATABASE_URL": (database, "--database"),
        "STEPFAST_APP": (app, "--app"),
        "STEPFAST_TENANT": (tenant, "--tenant"),
    }
    return read_settings({name: Found(value, place) for name, (value, place) in given.items() if value is not None})


def _first_behind(prefix: str) -> str | None:
    """The first id behind all that begin so: as ids are listed from the greatest on, those come next."""
    behind = int(prefix.ljust(ID_DIGITS, "f"), 16) + 1
    return None if behind >> 4 * ID_DIGITS else str(UUID(int=behind))


def _is_hex(text: str) -> bool:
    return bool(text) and all(digit in "0123456789abcdef" for digit in text)
