"""Every setting: its names, what it allows, its default, and where its value comes from.

An option beats a variable with the prefix STEPFAST_, which beats the plain variable, which beats `[tool.stepfast]` in
the nearest pyproject.toml, which beats the default. What is relative in that file is relative to its folder, all else
to the folder that the process runs in.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from stepfast.kernel.blobs import DEFAULT_THRESHOLD, IN_THE_DATABASE
from stepfast.kernel.durations import span_ms
from stepfast.kernel.errors import Invalid
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import shown
from stepfast.log import Log
from stepfast.project_file import Entry, project_table
from stepfast.setting_kinds import (
    BLOBS,
    DATABASE,
    DIRECT,
    FILE,
    KEYS,
    LOG,
    MILLISECONDS,
    MODULES,
    NAMES,
    NETWORKS,
    SEAL_KEYS,
    TEXT,
    URLS,
    VARIABLES,
    Kind,
    LogSettings,
    choice,
    number,
    span,
)
from stepfast.signing import SealKeys
from stepfast.stores.postgres_urls import WrongAddress
from stepfast.tokens import KeyRing
from stepfast.worker.settings import WorkerSettings
from stepfast.workflows.executors.allowed import Allowed

log = Log("settings")

PREFIX = "STEPFAST_"
DEFAULT_DATABASE = "sqlite:///.stepfast/stepfast.db"
ENVIRONMENTS = ("development", "production")


@dataclass(frozen=True)
class Setting:
    """One setting; a `plain` one is read without the prefix too, under the name of the system it comes from."""

    name: str
    kind: Kind
    default: str
    meaning: str
    plain: bool = False
    is_secret: bool = False
    """Its value is never shown, not even a wrong one."""

    @property
    def key(self) -> str:
        """Its name in pyproject.toml."""
        return self.name.removeprefix(PREFIX).lower()


SETTINGS = (
    Setting(
        "STEPFAST_DATABASE_URL", DATABASE, DEFAULT_DATABASE, "The database: `sqlite:///file.db` or `postgresql://…`."
    ),
    Setting(
        "STEPFAST_DATABASE_DIRECT_URL",
        DIRECT,
        "",
        "The same PostgreSQL database without a pooler in between, for hints between processes.",
    ),
    Setting(
        "STEPFAST_BLOBS",
        BLOBS,
        IN_THE_DATABASE,
        "Where large values are kept: `database`, a folder, or `file:///folder`. The same for all on one database.",
    ),
    Setting(
        "STEPFAST_BLOB_THRESHOLD",
        number(1_024, 16 * 1024 * 1024),
        str(DEFAULT_THRESHOLD),
        "A value of more characters than this, as JSON, is large.",
    ),
    Setting("STEPFAST_APP", TEXT, "", "Where the app is: `module:name` or `file.py:name`."),
    Setting("STEPFAST_TENANT", TEXT, "default", "The tenant that commands and starts without one are for."),
    Setting("STEPFAST_ENV", choice(ENVIRONMENTS), "development", "What this installation is for."),
    Setting("STEPFAST_LOG", LOG, "info,text", "Level and format of the engine's own log."),
    Setting("STEPFAST_CONCURRENCY", number(1), "100", "How many runs of each queue a worker process executes at once."),
    Setting("STEPFAST_LEASE", span("lease"), "30s", "How long a worker that is not heard of keeps its runs."),
    Setting(
        "STEPFAST_HEARTBEAT",
        span("heartbeat"),
        "lease / 3",
        "How often a worker says that it lives; twice per lease or more.",
    ),
    Setting(
        "STEPFAST_POLL",
        span("poll"),
        "1s",
        "How long an idle worker waits before it looks for runs again. Sleeps and retries end in time all the same, "
        "unless the worker that put the run off has left: then up to so much late.",
    ),
    Setting("STEPFAST_UPKEEP", span("upkeep"), "1s", "How often a worker looks after what dead ones left behind."),
    Setting("STEPFAST_GRACE", span("grace"), "8s", "How long steps under way may take to finish when a worker stops."),
    Setting(
        "STEPFAST_MAX_CRASHES",
        number(1),
        "3",
        "How often a run that has its worker to itself may kill it before it fails for good.",
    ),
    Setting("STEPFAST_WORKER_ID", TEXT, "host and pid", "The label by which people recognise a worker."),
    Setting("STEPFAST_MAX_CLAIMS", number(1), "500", "How many runs of a queue one claim takes at most."),
    Setting("STEPFAST_MAX_POLLS", number(1), "100", "How many questions after outside work a worker asks at once."),
    Setting("STEPFAST_MAX_PUBLISH", number(1), "500", "How many events a sink is given in one pass."),
    Setting(
        "STEPFAST_WORKER_MAX_RETRIES",
        number(0),
        "3",
        "How often a step that names no policy is tried again; 3 are four attempts.",
        plain=True,
    ),
    Setting(
        "STEPFAST_WORKER_RETRY_BACKOFF_BASE_MS", MILLISECONDS, "1000", "The pause before its first retry.", plain=True
    ),
    Setting(
        "STEPFAST_WORKER_RETRY_BACKOFF_MAX_MS", MILLISECONDS, "60000", "The longest pause before a retry.", plain=True
    ),
    Setting(
        "STEPFAST_RESUME_TOKEN_TTL_HOURS",
        number(1, 87_600),
        "24",
        "How many hours a resume token works, unless it is issued for another time.",
        plain=True,
    ),
    Setting(
        "STEPFAST_TOKEN_KEYS",
        KEYS,
        "",
        "The keys that resume tokens are hashed with, the same in all processes; new tokens take the first. Without "
        "them a SQLite database has one in a file beside it, and on PostgreSQL no token is issued.",
        is_secret=True,
    ),
    Setting(
        "STEPFAST_SEAL_KEYS",
        SEAL_KEYS,
        "",
        "The keys that seals of the audit trail are signed with; new seals take the first. Without them, or with "
        "public keys alone, nothing is sealed.",
        is_secret=True,
    ),
    Setting("STEPFAST_SEAL_EVERY", span("seal_every"), "10s", "How often a worker seals what was written since."),
    Setting("STEPFAST_PRUNE_EVERY", span("prune_every"), "1m", "How often a worker lets go old runs, by policies."),
    Setting(
        "STEPFAST_SINKS",
        URLS,
        "",
        "Sinks that events are published to beside those of the app: `redis://`, `nats://`, `kafka://`, `log:`, "
        "and what packages bring.",
        is_secret=True,
    ),
    Setting("STEPFAST_SEAL_FILE", FILE, "", "A file outside of the database that every seal is copied to."),
    Setting(
        "STEPFAST_COMMANDS", NAMES, "", "The programs that `command.run` may run, by exact name or path; `*`: all."
    ),
    Setting(
        "STEPFAST_COMMAND_ENV",
        VARIABLES,
        "",
        "The variables that `command.run` may give to programs; others they lack.",
    ),
    Setting(
        "STEPFAST_HTTP_PRIVATE",
        NETWORKS,
        "",
        "The addresses that `http.call` and sinks may call although they are private, loopback or link-local.",
    ),
    Setting(
        "STEPFAST_CALL_MODULES",
        MODULES,
        "",
        "The modules whose functions `python.call` may call; `shop.*` are all in `shop`, `*` are all modules.",
    ),
    Setting("STEPFAST_TENANT_BURST_LIMIT", number(1), "10", "Runs of a tenant a claim takes in a row.", plain=True),
)

QUEUE_CONCURRENCY = Setting(
    "STEPFAST_WORKER_CONCURRENCY_<QUEUE>",
    number(1),
    "STEPFAST_CONCURRENCY",
    "The concurrency of one queue; what is no letter or digit in its name is written `_`.",
    plain=True,
)
_QUEUE_PREFIX = QUEUE_CONCURRENCY.name.removesuffix("<QUEUE>")

# Names that are fixed already and belong to parts to come.
LATER = frozenset(
    PREFIX + name
    for name in (
        "API_KEY",
        "SHADOW",
        "WORKFLOW_CHECKPOINT_BACKEND",
        "WORKFLOW_RUNTIME",
    )
)
# Variables of the demo, of the tests and of the measurements; nobody sets them by hand.
_OF_OUR_TOOLS = ("STEPFAST_DEMO_", "STEPFAST_TEST_", "STEPFAST_BENCH_")


@dataclass(frozen=True)
class Settings:
    """What all sources together say; `unknown` are names that nothing reads, each with the nearest known one."""

    database: str = DEFAULT_DATABASE
    database_direct: str | None = None
    blobs: str = IN_THE_DATABASE
    blob_threshold: int = DEFAULT_THRESHOLD
    app: str | None = None
    tenant: str = "default"
    environment: str = "development"
    log: LogSettings = field(default_factory=LogSettings)
    token_ttl_hours: int = 24
    token_keys: KeyRing | None = None
    seal_keys: SealKeys | None = None
    seal_file: str | None = None
    sinks: tuple[str, ...] = field(default=(), repr=False)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    allowed: Allowed = field(default_factory=Allowed)
    unknown: tuple[tuple[str, str], ...] = ()
    without_effect: tuple[str, ...] = ()
    """Names that are set, and belong to parts to come."""
    app_place: str = field(default="", compare=False)
    """Where `app` was given, for messages; so for `sinks`."""
    app_folder: Path = field(default=Path(), compare=False)
    """The folder that `app` is found from."""
    sinks_place: str = field(default="", compare=False)


class Found(NamedTuple):
    """A value that somebody gave, and where; `unfit` says what it is if it is neither text nor a number."""

    text: str
    place: str
    unfit: str = ""
    folder: Path = Path()
    """What is relative in it is relative to this."""


def read_settings(
    options: Mapping[str, Found] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Read every setting; what does not fit is refused, all of it at once. `options` go by the setting's name."""
    sources = _Sources(options or {}, os.environ if environment is None else environment, folder or Path.cwd())
    values = _Values(sources)
    worker = _worker_settings(values)
    if values.faults:
        raise Invalid("\n".join(values.faults))
    return Settings(
        database=values.get("DATABASE_URL", DEFAULT_DATABASE),
        database_direct=values.get("DATABASE_DIRECT_URL", None),
        blobs=values.get("BLOBS", IN_THE_DATABASE),
        blob_threshold=values.get("BLOB_THRESHOLD", DEFAULT_THRESHOLD),
        app=values.get("APP", None),
        tenant=values.get("TENANT", "default"),
        environment=values.get("ENV", "development"),
        log=values.get("LOG", LogSettings()),
        token_ttl_hours=values.get("RESUME_TOKEN_TTL_HOURS", 24),
        token_keys=values.get("TOKEN_KEYS", None),
        seal_keys=values.get("SEAL_KEYS", None),
        seal_file=values.get("SEAL_FILE", None),
        sinks=values.get("SINKS", ()),
        worker=worker,
        allowed=_allowed(values),
        unknown=tuple(sources.unknown()),
        without_effect=tuple(sources.without_effect()),
        app_place=values.place("APP"),
        app_folder=values.folder("APP"),
        sinks_place=values.place("SINKS"),
    )


def warn_of_unknown(settings: Settings) -> None:
    """Tell of names that nothing reads, of each once in a process."""
    for name, nearest in settings.unknown:
        _warn_of_unknown(name, nearest)
    for name in settings.without_effect:
        _warn_of_no_effect(name)


def _allowed(values: _Values) -> Allowed:
    names = ("COMMANDS", "COMMAND_ENV", "HTTP_PRIVATE", "CALL_MODULES")
    return Allowed(*(values.get(name, ()) for name in names))


def _worker_settings(values: _Values) -> WorkerSettings:
    usual = WorkerSettings()
    lease_ms = values.get("LEASE", usual.lease_ms)
    heartbeat_ms, heartbeat_fault = values.get("HEARTBEAT", 0), ""
    if heartbeat_ms * 2 > lease_ms:
        # Told to whoever starts a worker, which may have a lease of its own.
        lease = values.said("LEASE") or f"the lease is {usual.lease_ms // 1_000}s unless STEPFAST_LEASE says otherwise"
        heartbeat_fault = f"{values.said('HEARTBEAT')}; allowed is at most half of the lease, and {lease}."
    return WorkerSettings(
        concurrency=values.get("CONCURRENCY", usual.concurrency),
        queue_concurrency=values.queue_concurrency,
        label=values.get("WORKER_ID", usual.label),
        lease_ms=lease_ms,
        heartbeat_ms=heartbeat_ms,
        poll_ms=values.get("POLL", usual.poll_ms),
        upkeep_ms=values.get("UPKEEP", usual.upkeep_ms),
        seal_every_ms=values.get("SEAL_EVERY", usual.seal_every_ms),
        prune_every_ms=values.get("PRUNE_EVERY", usual.prune_every_ms),
        burst=values.get("TENANT_BURST_LIMIT", usual.burst),
        max_crashes=values.get("MAX_CRASHES", usual.max_crashes),
        max_claims=values.get("MAX_CLAIMS", usual.max_claims),
        max_polls=values.get("MAX_POLLS", usual.max_polls),
        max_publish=values.get("MAX_PUBLISH", usual.max_publish),
        grace_ms=values.get("GRACE", usual.grace_ms),
        retry=_retry(values),
        heartbeat_given=values.said("HEARTBEAT"),
        heartbeat_fault=heartbeat_fault,
    )


def _retry(values: _Values) -> Retry:
    usual = Retry()
    base_ms = values.get("WORKER_RETRY_BACKOFF_BASE_MS", span_ms(usual.base))
    cap_ms = values.get("WORKER_RETRY_BACKOFF_MAX_MS", span_ms(usual.cap))
    attempts = values.get("WORKER_MAX_RETRIES", usual.attempts - 1) + 1
    return Retry(attempts, timedelta(milliseconds=base_ms), cap=timedelta(milliseconds=cap_ms))


class _Values:
    """The values that were given, read; what could not be read is in `faults`."""

    def __init__(self, sources: _Sources) -> None:
        self.faults: list[str] = []
        self.found: dict[str, Found] = {}
        self._values: dict[str, Any] = {}
        for setting in SETTINGS:
            self._read(setting, sources.find(setting))
        self.queue_concurrency: dict[str, int] = {}
        for queue, found in sources.queues():
            self._read_queue(queue, found)

    def get(self, name: str, default: Any) -> Any:
        return self._values.get(PREFIX + name, default)

    def said(self, name: str) -> str:
        """Where a setting was given and to what, for a message; empty if nowhere."""
        found = self.found.get(PREFIX + name)
        return "" if found is None else f"{found.place} is {shown(found.text)}"

    def place(self, name: str) -> str:
        """Where a setting was given; empty if nowhere."""
        found = self.found.get(PREFIX + name)
        return "" if found is None else found.place

    def folder(self, name: str) -> Path:
        """What a setting is relative to."""
        found = self.found.get(PREFIX + name)
        return Path() if found is None else found.folder

    def _read(self, setting: Setting, found: Found | None) -> None:
        if found is None:
            return
        self.found[setting.name] = found
        try:
            self._values[setting.name] = _read(setting, found)
        except WrongAddress as wrong:
            self.faults.append(f"{_misfit(setting, found)} {wrong}")
        except (ValueError, Invalid):
            self.faults.append(_misfit(setting, found))

    def _read_queue(self, queue: str, found: Found) -> None:
        try:
            self.queue_concurrency[queue] = _read(QUEUE_CONCURRENCY, found)
        except ValueError:
            self.faults.append(_misfit(QUEUE_CONCURRENCY, found))


def _read(setting: Setting, found: Found) -> Any:
    # As text, an array or a table would pass for a name or a path that nobody meant.
    if found.unfit:
        raise ValueError
    value = setting.kind.read(found.text)
    return value if found.folder == Path() else setting.kind.read(setting.kind.in_folder(found.text, found.folder))


def _misfit(setting: Setting, found: Found) -> str:
    hidden = "not shown here, and does not fit" if setting.is_secret else setting.kind.show(found.text)
    return f"{found.place} is {found.unfit or hidden}; allowed is {setting.kind.allowed}."


class _Sources:
    """Where values come from, the strongest first. An empty variable counts as not set."""

    def __init__(self, options: Mapping[str, Found], environment: Mapping[str, str], folder: Path) -> None:
        self._options = options
        self._variables = {name: value for name, value in environment.items() if value}
        self._file, self._table = project_table(folder)
        self._folder = Path() if self._file.parent == folder else self._file.parent

    def find(self, setting: Setting) -> Found | None:
        if setting.name in self._options:
            return self._options[setting.name]
        plain = setting.name.removeprefix(PREFIX)
        for name in (setting.name, plain) if setting.plain else (setting.name,):
            if name in self._variables:
                return Found(self._variables[name], name)
        if setting.key in self._table:
            return self._of_the_project(setting.key, self._table[setting.key])
        return None

    def queues(self) -> Iterator[tuple[str, Found]]:
        """Each queue that has a concurrency of its own, by its name in variables."""
        plain = _QUEUE_PREFIX.removeprefix(PREFIX)
        found = {
            key.upper().removeprefix(plain): self._of_the_project(key, value)
            for key, value in self._table.items()
            if key.upper().startswith(plain)
        }
        for prefix in (plain, _QUEUE_PREFIX):
            named = {name.removeprefix(prefix): name for name in self._variables if name.startswith(prefix)}
            found |= {queue: Found(self._variables[name], name) for queue, name in named.items()}
        yield from ((queue, given) for queue, given in found.items() if queue)

    def _of_the_project(self, key: str, entry: Entry) -> Found:
        return Found(entry.text, f"[tool.stepfast] {key} in {self._file}", entry.unfit, self._folder)

    def unknown(self) -> Iterator[tuple[str, str]]:
        """Names that nothing reads, each with the known one that is nearest."""
        known, given = {setting.name for setting in SETTINGS}, self._given()
        for name in sorted(given.keys() - known - LATER):
            if not name.startswith((_QUEUE_PREFIX, *_OF_OUR_TOOLS)):
                yield given[name], difflib.get_close_matches(name, sorted(known), 1, cutoff=0.0)[0]

    def without_effect(self) -> Iterator[str]:
        """Names that nothing reads yet."""
        given = self._given()
        yield from (given[name] for name in sorted(given.keys() & LATER))

    def _given(self) -> dict[str, str]:
        """Every name of ours that is set, and how people have written it."""
        variables = {name: name for name in self._variables if name.startswith(PREFIX)}
        return {PREFIX + key.upper(): f"[tool.stepfast] {key}" for key in self._table} | variables


@cache
def _warn_of_unknown(name: str, nearest: str) -> None:
    log.warning("setting_unknown", name=name, nearest=nearest)


@cache
def _warn_of_no_effect(name: str) -> None:
    log.warning("setting_without_effect", name=name)
