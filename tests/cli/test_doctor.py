"""`stepfast doctor`: each trouble on its own line, with the next step."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from stepfast import receive, review, step, workflow
from stepfast.cli import checks
from stepfast.cli.checks import Level
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import SinkLetter, SinkStep
from stepfast.settings import Settings
from stepfast.signing import KeyedSigner, new_pair
from stepfast.stores import rows
from stepfast.stores.grants import RoleKind
from stepfast.stores.health import Health, LongTransaction, Weakness, examine
from stepfast.stores.postgres import health as postgres_health
from stepfast.stores.sqlite import health
from stepfast.testing import engine
from stepfast.tokens import fresh_keys
from tests.cli.invoking import Office, invoke
from tests.cli.office import WORKFLOWS, asking
from tests.faults.server import own_server
from tests.support.apps import app_on, migrated
from tests.support.rights import open_folder, without_rights
from tests.support.roles import granted, role_of
from tests.support.sql import execute, tamper

SOUND = Health("a server", 3, 3, (), None, None)


async def examined(office: Office, code: int = 0) -> dict[str, tuple[str, str]]:
    done = await office("doctor", "-o", "json")
    assert done.code == code, done.err
    assert done.json["ok"] is (code == 0)
    return {check["what"]: (check["level"], f"{check['found']} {check['next_step']}") for check in done.json["checks"]}


async def test_a_sound_database_with_a_worker_is_well(database, client, office, monkeypatch):
    # The files of tests may be in memory, where there may be little room.
    monkeypatch.setattr(health, "file_system_of", lambda path: "ext4")
    monkeypatch.setattr(health, "LITTLE_SPACE", 0)
    async with app_on(database, WORKFLOWS):
        found = await examined(office)
    # The tests' own PostgreSQL does not wait for the disk, they own its schema, and the doctor is right to say so.
    weak = {"durability", "trail"} if database.startswith("postgres") else set()
    assert {what for what, (level, _) in found.items() if level != "ok"} <= weak


async def test_a_file_in_memory_is_told_of(tmp_path, monkeypatch):
    database = f"sqlite:///{tmp_path}/app.db"
    await invoke("migrate", "--database", database)
    monkeypatch.setattr(health, "file_system_of", lambda path: "tmpfs")
    level, text = (await examined(Office(database)))["durability"]
    assert (level, "the file lies on tmpfs" in text) == ("warn", True)


async def test_a_disk_that_is_nearly_full_is_told_of(tmp_path, monkeypatch):
    database = f"sqlite:///{tmp_path}/app.db"
    await invoke("migrate", "--database", database)
    monkeypatch.setattr(health, "LITTLE_SPACE", 2**80)
    level, text = (await examined(Office(database)))["durability"]
    assert (level, "MB left" in text) == ("warn", True)


async def test_a_way_past_the_pooler_that_leads_elsewhere_is_told_of(migrated_postgres_url, postgres_url, monkeypatch):
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    found = {}
    for direct_url in (migrated_postgres_url, postgres_url, nowhere):
        monkeypatch.setenv("STEPFAST_DATABASE_DIRECT_URL", direct_url)
        found[direct_url] = (await examined(Office(migrated_postgres_url)))["hints"]
    assert found[migrated_postgres_url][0] == "ok"
    assert found[postgres_url][0] == found[nowhere][0] == "warn"
    assert "leads to another database. Correct STEPFAST_DATABASE_DIRECT_URL." in found[postgres_url][1]
    assert "E-STORE-001" in found[nowhere][1]


async def test_a_role_that_could_change_events_is_told_of(migrated_postgres_url):
    level, text = (await examined(Office(migrated_postgres_url)))["trail"]
    assert (level, "stepfast migrate --grant" in text) == ("warn", True)


@pytest.mark.parametrize("kind", RoleKind)
async def test_a_role_that_was_let_in_is_well(migrated_postgres_url, kind):
    async with granted(migrated_postgres_url, kind) as url:
        assert (await examined(Office(url)))["trail"][0] == "ok"


async def test_a_role_that_runs_engines_can_write_and_one_that_reads_is_told_of(migrated_postgres_url):
    async with granted(migrated_postgres_url, RoleKind.ENGINE) as url:
        assert (await examined(Office(url)))["writing"][0] == "ok"
    async with granted(migrated_postgres_url, RoleKind.READER) as url:
        level, text = (await examined(Office(url)))["writing"]
        assert (level, f"Role '{role_of(url)}' lacks rights" in text) == ("warn", True)


@pytest.mark.parametrize("taken", ["delete on stepfast.task", "execute on all functions in schema stepfast"])
async def test_a_role_that_lacks_one_right_of_many_is_told_of(migrated_postgres_url, taken):
    async with granted(migrated_postgres_url, RoleKind.ENGINE) as url:
        await execute(migrated_postgres_url, f"revoke {taken} from {role_of(url)}")
        assert (await examine(url)).reader == role_of(url)


async def test_a_database_that_takes_no_writes_is_a_failure(migrated_postgres_url):
    session = await asyncpg.connect(migrated_postgres_url)
    name = await session.fetchval("select current_database()")
    await session.execute(f'alter database "{name}" set default_transaction_read_only = on')
    level, text = (await examined(Office(migrated_postgres_url), code=1))["writing"]
    assert (level, "default_transaction_read_only is on" in text) == ("fail", True)
    await session.close()


async def test_a_standby_is_a_failure_that_names_the_primary():
    with own_server() as server:
        await migrated(server.url)
        await asyncio.to_thread(server.become_standby)
        level, text = (await examined(Office(server.url), code=1))["writing"]
    assert (level, "standby" in text, "Name the primary" in text) == ("fail", True, True)


@contextmanager
def no_room() -> Iterator[None]:
    """The system refuses files that are longer than the one in which SQLite notes its readers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (health.TRIAL_BYTES - 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


async def test_a_file_whose_disk_is_full_is_a_failure(tmp_path):
    await invoke("migrate", "--database", f"sqlite:///{tmp_path}/app.db")
    with no_room():
        level, text = (await examined(Office(f"sqlite:///{tmp_path}/app.db"), code=1))["writing"]
    assert (level, f"{tmp_path} takes nothing more" in text, "Free some space" in text) == ("fail", True, True)


async def test_a_file_on_a_disk_that_has_become_read_only_is_a_failure_that_asks_for_no_space(monkeypatch, tmp_path):
    """One that the system has shut after a fault says so to writers alone, and not where it is asked for rights."""

    def refuse(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    await invoke("migrate", "--database", f"sqlite:///{tmp_path}/app.db")
    monkeypatch.setattr(health, "TemporaryFile", refuse)
    level, text = (await examined(Office(f"sqlite:///{tmp_path}/app.db"), code=1))["writing"]
    assert (level, "Mount its disk for writing" in text, "space" in text) == ("fail", True, False)


async def test_a_server_whose_disk_is_full_is_a_failure(migrated_postgres_url, monkeypatch):
    full = "begin; do $$ begin raise exception using errcode = '53100', message = 'no space left'; end $$"
    monkeypatch.setattr(postgres_health, "_TRIAL", full)
    level, text = (await examined(Office(migrated_postgres_url), code=1))["writing"]
    assert (level, "no room left on its disk" in text, "Free some space" in text) == ("fail", True, True)


async def test_the_trial_of_a_server_s_disk_writes_a_file_and_one_that_allows_none_is_well(migrated_postgres_url):
    session = await asyncpg.connect(migrated_postgres_url)
    name = await session.fetchval("select current_database()")
    await session.execute(f'alter database "{name}" set temp_file_limit = 0')
    await session.execute("set temp_file_limit = 0")
    with pytest.raises(asyncpg.ConfigurationLimitExceededError):
        await session.execute(postgres_health._TRIAL)
    await session.close()
    assert (await examined(Office(migrated_postgres_url)))["writing"][0] == "ok"


@pytest.fixture
def folder():
    """A folder that everybody may look into."""
    with open_folder() as folder:
        yield folder


def contents(folder: Path) -> dict[str, bytes]:
    """What stands there, but for where its readers are."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


@pytest.mark.parametrize("guarded", ["app.db", "app.db.next", "."])
async def test_a_file_that_cannot_be_written_is_a_failure_and_stays_as_it_is(folder, guarded):
    await invoke("migrate", "--database", f"sqlite:///{folder}/app.db")
    # A reader keeps the files beside it there, without which nobody could read it in such a folder.
    reader = apsw.Connection(str(folder / "app.db"))
    reader.execute("begin; select count(*) from run")
    allowed = dict.fromkeys((folder, *folder.iterdir()), 0o777) | {folder / guarded: 0o555}
    for each, mode in allowed.items():
        each.chmod(mode)
    before = contents(folder)
    with without_rights():
        level, text = (await examined(Office(f"sqlite:///{folder}/app.db"), code=1))["writing"]
    assert contents(folder) == before
    reader.close()
    assert (level, f"{folder / guarded} cannot be written" in text, "Allow writing" in text) == ("fail", True, True)


async def test_a_folder_in_the_place_of_the_file_is_named_as_everywhere(tmp_path):
    level, text = (await examined(Office(f"sqlite:///{tmp_path}"), code=1))["database"]
    assert (level, f"The store {tmp_path} is a folder. Name a file in it." in text) == ("fail", True)


async def test_people_get_a_line_for_each_check(client, office):
    done = await office("doctor")
    assert (done.code, {line.split()[0] for line in done.out.splitlines()[1:]} <= {*Level}) == (0, True)


async def test_a_server_that_does_not_wait_for_the_disk_is_told_of(postgres_url):
    await invoke("migrate", "--database", postgres_url)
    connection = await asyncpg.connect(postgres_url)
    name = await connection.fetchval("select current_database()")
    await connection.execute(f'alter database "{name}" set synchronous_commit = off')
    await connection.close()
    level, text = (await examined(Office(postgres_url)))["durability"]
    assert (level, "synchronous_commit is off" in text) == ("warn", True)


async def test_runs_that_nobody_serves_are_told_of(client, office):
    await client.start(asking, queue="desk")
    found = await examined(office)
    assert {what: found[what][0] for what in ("workers", "queues", "codes")} == dict.fromkeys(
        ("workers", "queues", "codes"), "warn"
    )
    assert ("desk (1 ready)" in found["queues"][1], "asking@1 (1 ready)" in found["codes"][1]) == (True, True)


async def test_a_queue_that_nobody_serves_is_named_as_the_shell_takes_it(client, office):
    await client.start(asking, queue="front desk")
    assert "`stepfast worker --queues 'front desk'`" in (await examined(office))["queues"][1]


def noting(word: str) -> Any:
    @step
    async def note(word: str) -> str:
        return word

    @workflow
    async def notes() -> None:
        await note(word)
        await receive("go")

    return notes


async def test_runs_that_wait_for_code_that_fits_are_told_of(database, office):
    before, after = noting("a"), noting("b")
    async with engine(database=database, workflows=[before]) as opened:
        run = await opened.start(before)
        await opened.run_until_idle()
    async with engine(database=database, workflows=[after]) as opened:
        await opened.signal(run.id, "go")
        await opened.run_until_idle()
    level, text = (await examined(office))["codes"]
    assert (level, "1 run waits for code that fits." in text) == ("warn", True)


@workflow
async def blocked() -> None:
    await review("May it go on?", kind="blocked")


async def test_a_question_about_what_is_blocked_is_no_run_that_waits_for_code(database, office, monkeypatch):
    monkeypatch.setattr(checks, "PAGE", 1)
    async with engine(database=database, workflows=[blocked]) as opened:
        for _ in range(3):
            await opened.start(blocked)
        await opened.run_until_idle()
    level, text = (await examined(office))["codes"]
    assert (level, "none waits for other code" in text) == ("ok", True)


async def test_what_nobody_serves_is_counted_no_further_than_anybody_needs(client, office, monkeypatch):
    monkeypatch.setattr(checks, "MOST", 2)
    for _ in range(3):
        await client.start(asking, queue="desk")
    found = await examined(office)
    assert "desk (2 or more ready)" in found["queues"][1]
    assert "asking@1 (2 or more ready)" in found["codes"][1]


@pytest.mark.parametrize(
    ("lost", "found"),
    [
        (0, ("ok", "No run in line has lost a worker.")),
        (1, ("warn", "1 run in line has lost a worker that held it.")),
        (2, ("warn", "2 runs in line have lost a worker that held them.")),
    ],
)
async def test_runs_in_line_that_have_lost_a_worker_are_told_of(lost, found, client, office):
    for _ in range(lost):
        await client.start(asking)
    await execute(client.database, "update stepfast.task set crashes = 1")
    level, text = (await examined(office))["suspects"]
    assert (level, text.startswith(found[1])) == (found[0], True), text


async def test_a_look_that_did_not_reach_all_runs_says_so(client, office, monkeypatch):
    monkeypatch.setattr(rows, "REACH", 1)
    for _ in range(2):
        await client.start(asking)
    assert "of the newest that were looked at" in (await examined(office))["runs"][1]


async def test_a_run_that_cannot_go_on_is_a_failure(client, office):
    run = await client.start(asking)
    await execute(client.database, "delete from stepfast.task")
    level, text = (await examined(office, code=1))["runs"]
    assert (level, run.id in text) == ("fail", True)


async def test_a_run_that_fell_due_while_no_worker_served_it_is_no_fault_and_is_told_of(client, office):
    run = await client.start(asking, delay="1h")
    for table in ("task", "wait"):
        await execute(client.database, f"update stepfast.{table} set due_at = 1")
    level, text = (await examined(office))["runs"]
    assert (level, run.id in text, "it is a fault" in text) == ("warn", True, False)
    assert text.startswith("1 run is long due, and no worker has taken it up: ")
    why = await office("runs", "why", run.id)
    assert "No worker is alive." in why.out


async def test_a_run_that_is_handed_back_again_and_again_is_a_failure_that_names_its_trouble(client, office):
    run = await client.start(asking, delay="1h")
    told = json.dumps({"reason": "E-BLOB-001: the blob is gone.", "troubles": 5, "is_lasting": True})
    statements = [
        "update stepfast.wait set wait_id = 0, kind = 'backoff'",
        f"update stepfast.event set type = 'handed_back', data = '{told}'",
    ]
    for statement in statements:
        await tamper(client.database, statement)
    found = await examined(office, code=1)
    assert (found["runs"][0], found["troubles"][0]) == ("ok", "fail")
    assert f"run {run.id}: handed back 5 times in a row: E-BLOB-001: the blob is gone." in found["troubles"][1]
    assert ".." not in found["troubles"][1]


async def test_a_trail_that_is_sealed_no_longer_is_told_of(client, office, monkeypatch):
    await client.start(WORKFLOWS[0], "sealed")
    assert (await examined(office))["seals"][0] == "ok"
    client.signer = KeyedSigner(fresh_keys())
    await client.audit.seal()
    await client.start(WORKFLOWS[0], "not sealed")
    assert (await examined(office))["seals"][0] == "ok"
    monkeypatch.setattr(checks, "LATE_SEAL_MS", 0)
    level, text = (await examined(office))["seals"]
    assert (level, "stepfast audit seal" in text) == ("warn", True)


async def test_a_trail_that_there_are_keys_for_and_that_was_never_sealed_is_told_of(client, office, monkeypatch):
    await client.start(WORKFLOWS[0], "never sealed")
    monkeypatch.setattr(checks, "LATE_SEAL_MS", 0)
    assert (await examined(office))["seals"] == ("ok", "The trail is not sealed. ")
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", new_pair("a").private)
    level, text = (await examined(office))["seals"]
    assert (level, "have not been sealed for" in text) == ("warn", True)


async def test_nothing_is_said_of_a_trail_that_is_not_there(postgres_url):
    found = await examined(Office(postgres_url), code=1)
    assert (found["schema"][0], "trail" in found) == ("fail", False)


async def test_a_sink_with_trouble_is_told_of(client, office, database):
    async with app_on(database, WORKFLOWS) as app:
        store = app._open_parts().store
        taken = await store.take_sink("mail", "me", 60_000, True)
        assert taken is not None
        letter = SinkLetter(1, RunId("00000000-0000-0000-0000-000000000001"), 1, "default", "queued", 10, "no")
        step = SinkStep(1, 3, Instant(0), "E-SINK-001 away", letters=(letter,))
        await store.advance_sink(taken, step, 60_000)
    level, text = (await examined(office))["sinks"]
    assert level == "warn"
    assert "mail has 1 dead letter, is away (E-SINK-001 away)" in text
    assert "stepfast sinks show mail" in text


async def test_a_database_that_is_not_there_is_a_failure_with_its_code(tmp_path):
    for database, code in {
        f"sqlite:///{tmp_path}/absent.db": "E-STORE-003",
        "postgresql://nobody@localhost:1/absent": "E-STORE-001",
    }.items():
        level, text = (await examined(Office(database), code=1))["database"]
        assert (level, text.startswith(code)) == ("fail", True)
    assert list(tmp_path.iterdir()) == []


async def test_a_missing_schema_is_a_failure_that_names_the_remedy(postgres_url):
    level, text = (await examined(Office(postgres_url), code=1))["schema"]
    assert (level, "Run `stepfast migrate`" in text) == ("fail", True)


async def test_a_newer_schema_is_a_failure(client, office):
    await execute(client.database, "insert into stepfast.migration (number, name, applied_at) values (9999, 'x', 0)")
    found = await examined(office, code=1)
    assert "9999" in (found.get("schema") or found["database"])[1]


async def test_the_oldest_transaction_is_named_by_its_process(postgres_url):
    idler = await asyncpg.connect(postgres_url)
    await idler.execute("begin; select 1")
    oldest = (await examine(postgres_url)).oldest
    pid = idler.get_server_pid()
    await idler.close()
    assert oldest is not None
    assert (oldest.span_ms >= 0, f"pid {pid}," in oldest.who) == (True, True)


CHECKED = {
    "a weak setting": (checks.durability, SOUND._replace(weaknesses=(Weakness("fsync is off", "Set it."),)), "warn"),
    "what takes no writes": (checks.writing, SOUND._replace(read_only=Weakness("It is", "Move it.")), "fail"),
    "a role that reads": (checks.writing, SOUND._replace(reader="ann"), "warn"),
    "what can be written": (checks.writing, SOUND, "ok"),
    "no weak setting": (checks.durability, SOUND, "ok"),
    "an old schema": (checks.schema, SOUND._replace(schema=2), "fail"),
    "no schema": (checks.schema, SOUND._replace(schema=0), "fail"),
    "a newer schema": (checks.schema, SOUND._replace(schema=4), "fail"),
    "a clock far ahead": (checks.clock, SOUND._replace(ahead_ms=10**9), "warn"),
    "a clock far behind": (checks.clock, SOUND._replace(ahead_ms=-(10**9)), "warn"),
    "an old transaction": (checks.transactions, SOUND._replace(oldest=LongTransaction(61_000, "pid 1")), "warn"),
    "a short transaction": (checks.transactions, SOUND._replace(oldest=LongTransaction(59_000, "pid 1")), "ok"),
}


@pytest.mark.parametrize(("check", "health", "level"), CHECKED.values(), ids=CHECKED)
def test_a_finding_has_its_level_and_a_bad_one_its_next_step(check, health, level):
    found = check(health)
    assert (found.level, bool(found.next_step)) == (level, level != "ok")


def test_a_setting_that_nothing_reads_is_told_of():
    assert checks.settings(Settings(unknown=(("STEPFAST_LAESE", "STEPFAST_LEASE"),))).level is Level.WARN


def test_a_setting_without_effect_is_worth_a_warning():
    check = checks.settings(Settings(without_effect=("STEPFAST_SHADOW",)))
    assert (check.level, check.found) == (Level.WARN, "STEPFAST_SHADOW has no effect in this version.")
