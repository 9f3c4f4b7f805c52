"""The doctor's checks: each looks at one thing and says what it found, how bad that is, and the next step."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

from stepfast.app import Stepfast
from stepfast.cli.printing import took
from stepfast.cli.serving import living_workers
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.seen import serving
from stepfast.kernel.sinks import SinkView
from stepfast.kernel.texts import counted
from stepfast.kernel.views import LASTING_TROUBLE, WAIT_LONG_DUE, Finding
from stepfast.settings import Settings
from stepfast.stores.health import Health, leads_past

# Leases are counted by the database's clock alone; further apart, log lines and moments become hard to compare.
FAR_APART_MS = 1_000
# A transaction that is open for so long keeps dead rows from being cleaned away, and claims slow down.
LONG_TRANSACTION_MS = 60_000
# Workers seal every few seconds.
LATE_SEAL_MS = 600_000
# Nobody needs to know how much more there is.
MOST = 1_000
PAGE = 1_000
NAMED = 5


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(NamedTuple):
    """What was looked at, what was found, and what to do about it."""

    level: Level
    what: str
    found: str
    next_step: str = ""


def failed(what: str, error: StepfastError) -> Check:
    """A check that could not be made, or a thing that is not there; the error names the next step itself."""
    return Check(Level.FAIL, what, f"{error.code}: {error}")


def durability(health: Health) -> Check:
    if not health.weaknesses:
        return Check(Level.OK, "durability", "What is committed is on disk.")
    found = ", ".join(weakness.setting for weakness in health.weaknesses)
    return Check(Level.WARN, "durability", f"{found}.", " ".join(weakness.remedy for weakness in health.weaknesses))


def writing(health: Health) -> Check:
    """Whether those who connect like this command could write; nothing is changed to find out."""
    if health.read_only is not None:
        return Check(Level.FAIL, "writing", f"{health.read_only.setting}.", health.read_only.remedy)
    if health.reader is not None:
        found = f"Role {health.reader!r} lacks rights that apps and workers need: it can look, and not run anything."
        next_step = "Let them connect as another, which `stepfast migrate --grant ROLE` lets in."
        return Check(Level.WARN, "writing", found, next_step)
    return Check(Level.OK, "writing", "The database can be written.")


def schema(health: Health) -> Check:
    if health.schema == health.newest_schema:
        return Check(Level.OK, "schema", f"It is up to date ({health.schema}).")
    if health.schema > health.newest_schema:
        found = f"It is {health.schema}, and this program knows schemas up to {health.newest_schema}."
        return Check(Level.FAIL, "schema", found, "Upgrade stepfast, or name another database.")
    found = f"It is {health.schema or 'missing'}, and this program needs {health.newest_schema}."
    return Check(Level.FAIL, "schema", found, "Run `stepfast migrate`.")


def clock(health: Health) -> Check:
    apart_ms = health.ahead_ms
    if apart_ms is None:
        return Check(Level.OK, "clock", "The store goes by this machine's clock.")
    if abs(apart_ms) <= FAR_APART_MS:
        return Check(Level.OK, "clock", f"The database's is {took(abs(apart_ms))} from this machine's.")
    where = "ahead of" if apart_ms > 0 else "behind"
    found = f"The database's clock is {took(abs(apart_ms))} {where} this machine's."
    return Check(Level.WARN, "clock", found, "Let both follow a time server.")


def transactions(health: Health) -> Check:
    oldest = health.oldest
    if oldest is None or oldest.span_ms <= LONG_TRANSACTION_MS:
        return Check(Level.OK, "transactions", "None has been open for long.")
    found = f"One has been open for {took(oldest.span_ms)} ({oldest.who})."
    return Check(Level.WARN, "transactions", found, "It keeps dead rows from being cleaned away; end it.")


def trail(health: Health) -> Check:
    """Whether those who connect like this command could change what has happened."""
    if health.ahead_ms is None:
        return Check(Level.OK, "trail", "Whoever may write the file may change events; seals tell of it.")
    if health.trail_owner is None:
        return Check(Level.OK, "trail", "The role that was used can neither change nor delete events.")
    found = f"Role {health.trail_owner!r} can change and delete events."
    next_step = "Let workers connect as another, which `stepfast migrate --grant ROLE` lets in."
    return Check(Level.WARN, "trail", found, next_step)


async def hints(url: str, direct_url: str) -> Check:
    """Whether processes can hear of each other by the way past a pooler; without it each looks by itself, and later."""
    correct = "Correct STEPFAST_DATABASE_DIRECT_URL."
    try:
        is_same = await leads_past(url, direct_url)
    except StepfastError as error:
        return Check(Level.WARN, "hints", f"They cannot be heard. {error.code}: {error}", correct)
    if not is_same:
        return Check(Level.WARN, "hints", "They cannot be heard: the direct URL leads to another database.", correct)
    return Check(Level.OK, "hints", "The direct URL leads to the same database.")


def settings(given: Settings) -> Check:
    faults = [f"nothing reads {name}, the nearest name is {nearest}" for name, nearest in given.unknown]
    faults += [f"{name} has no effect in this version" for name in given.without_effect]
    if not faults:
        return Check(Level.OK, "settings", "Every name is known.")
    found = "; ".join(faults)
    return Check(Level.WARN, "settings", f"{found[0].upper()}{found[1:]}.", "Correct or remove it.")


async def runs(app: Stepfast) -> Check:
    """Whether every run that has not ended is ready, held by a living worker, or waits for something that can come."""
    findings = await app.findings(MOST)
    broken = [finding for finding in findings if finding.clause not in (LASTING_TROUBLE, WAIT_LONG_DUE)]
    if broken:
        return Check(Level.FAIL, "runs", _named(broken), "See `stepfast runs why RUN`, and report it: it is a fault.")
    late = list(dict.fromkeys(finding.run_id for finding in findings if finding.clause == WAIT_LONG_DUE))
    if late:
        return _late(late)
    if not findings.is_whole:
        return Check(Level.OK, "runs", "Every open run can go on, of the newest that were looked at.")
    return Check(Level.OK, "runs", "Every open run can go on.")


def _late(run_ids: list[RunId]) -> Check:
    """Runs whose waits are long over: so it is while no worker serves them, or those that do are busy."""
    runs_are, them = ("run is", "it") if len(run_ids) == 1 else ("runs are", "them")
    named = ", ".join(run_ids[:NAMED]) + (", ..." if len(run_ids) > NAMED else "")
    found = f"{_number(len(run_ids))} {runs_are} long due, and no worker has taken {them} up: {named}."
    return Check(Level.WARN, "runs", found, "`stepfast runs why RUN` says what is missing.")


async def troubles(app: Stepfast) -> Check:
    """Whether runs are handed back again and again for trouble that does not pass by itself."""
    lasting = [finding for finding in await app.findings(MOST) if finding.clause == LASTING_TROUBLE]
    if not lasting:
        return Check(Level.OK, "troubles", "No run is handed back again and again.")
    return Check(Level.FAIL, "troubles", _named(lasting), "Remove the cause; the runs go on by themselves.")


async def blobs(app: Stepfast) -> Check:
    """Whether large values can be read where the settings say that they are; nothing is made to find out."""
    where = await app._reach_blobs()
    return Check(Level.OK, "blobs", f"Large values can be read: {where.strip('<>')}.")


def _named(findings: list[Finding]) -> str:
    named = "; ".join(f"run {finding.run_id}: {finding.detail.rstrip('.')}" for finding in findings[:NAMED])
    more = f" and {_number(len(findings) - NAMED)} more" if len(findings) > NAMED else ""
    return f"{named}{more}."


async def workers(app: Stepfast) -> Check:
    alive = await living_workers(app)
    if alive:
        return Check(Level.OK, "workers", f"{len(alive)} alive.")
    if not (await app.queues.backlog(1)).has_open:
        return Check(Level.OK, "workers", "None is alive, and no run is open.")
    return Check(Level.WARN, "workers", "None is alive, and runs are open.", "Start one with `stepfast worker`.")


async def queues(app: Stepfast) -> Check:
    served = {queue for worker in await living_workers(app) for queue in worker.queues}
    alone = Counter[str]()
    for line in (await app.queues.backlog(MOST)).lines:
        if line.queue not in served:
            alone[line.queue] += line.ready
    if not alone:
        return Check(Level.OK, "queues", "Each with ready runs has a worker.")
    found = ", ".join(f"{queue} ({_number(ready)} ready)" for queue, ready in alone.items())
    next_step = f"Start one with {serving(*alone)}."
    return Check(Level.WARN, "queues", f"No worker serves {found}.", next_step)


async def seals(app: Stepfast) -> Check:
    """Whether a trail is sealed on that somebody has begun to seal, or has keys for."""
    status = await app.audit.status()
    late_ms = 0 if status.unsealed_since is None else await app.now() - status.unsealed_since
    if status.sealed_at is None and (app.signer is None or late_ms < LATE_SEAL_MS):
        return Check(Level.OK, "seals", "The trail is not sealed.")
    if late_ms < LATE_SEAL_MS:
        return Check(Level.OK, "seals", f"The trail is up to date, with {counted(status.seals, 'seal')}.")
    found = f"Events have not been sealed for {took(late_ms)}."
    return Check(Level.WARN, "seals", found, "Give a worker STEPFAST_SEAL_KEYS, or run `stepfast audit seal`.")


async def sinks(app: Stepfast) -> Check:
    """Whether every sink takes what it is offered."""
    bad = [(sink, told) for sink in await app.sinks.list() if (told := _told_of(sink))]
    if not bad:
        return Check(Level.OK, "sinks", "Each has taken what it was offered.")
    found = "; ".join(f"{sink.name} {told}" for sink, told in bad[:NAMED])
    return Check(Level.WARN, "sinks", f"{found}.", f"Look at it with `stepfast sinks show {bad[0][0].name}`.")


def _told_of(sink: SinkView) -> str:
    what = [f"has {counted(sink.letters, 'dead letter')}"] if sink.letters else []
    what += [f"holds back {counted(sink.held, 'run')}"] if sink.held else []
    what += [f"is away ({sink.error})"] if sink.tries else []
    return ", ".join(what)


async def codes(app: Stepfast) -> Check:
    """Whether the ready runs are of code that a living worker has."""
    known = {code for worker in await living_workers(app) for code in worker.codes}
    missing = Counter[str]()
    for line in (await app.queues.backlog(MOST)).lines:
        if line.code not in known:
            missing[line.code] += line.ready
    waiting = await _waiting_for_code(app)
    if waiting and not missing:
        found = f"{_number(waiting)} {'run waits' if waiting == 1 else 'runs wait'} for code that fits."
        next_step = (
            "`stepfast exceptions list --kind blocked` names them, and `stepfast runs why RUN` what does not fit."
        )
        return Check(Level.WARN, "codes", found, next_step)
    if not missing:
        return Check(Level.OK, "codes", "A worker has the code of every ready run, and none waits for other code.")
    found = ", ".join(f"{code} ({_number(missing[code])} ready)" for code in sorted(missing))
    return Check(Level.WARN, "codes", f"No worker has {found}.", "Start one whose app has it, or cancel the runs.")


async def _waiting_for_code(app: Stepfast) -> int:
    """How many runs wait for code that fits; questions about steps that are blocked are of the same kind."""
    waiting, cursor = 0, None
    while waiting < MOST:
        page = await app.exceptions.list(kind=ItemKind.BLOCKED, limit=PAGE, cursor=cursor)
        waiting += sum(item.review_id is None for item in page)
        if len(page) < PAGE:
            break
        cursor = page[-1].id
    return waiting


async def suspects(app: Stepfast) -> Check:
    number = (await app.queues.backlog(MOST)).suspects
    if not number:
        return Check(Level.OK, "suspects", "No run in line has lost a worker.")
    many = f"{_number(number)} {'run in line has' if number == 1 else 'runs in line have'}"
    found = f"{many} lost a worker that held {'it' if number == 1 else 'them'}."
    return Check(Level.WARN, "suspects", found, "Look into the logs of the workers that died.")


def _number(counted: int) -> str:
    """A number that was counted no further than to a limit."""
    return f"{MOST:,} or more" if counted >= MOST else str(counted)
