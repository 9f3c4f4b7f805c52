"""Connections that break, servers that restart, poolers in between."""

from __future__ import annotations

import asyncio
import gc
import threading
import uuid
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from stepfast.kernel.commands import Cancel, Changed, Pause, Request, Rerun, Resume
from stepfast.kernel.errors import RowsRefused, StoreUnavailable
from stepfast.kernel.exchange import Claim, QueueRoom, Saving
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import RunFilter
from stepfast.stores.postgres import starting
from stepfast.stores.postgres.lines import Address, Deadlines, part
from stepfast.stores.postgres.starting import start_call
from stepfast.stores.postgres.store import PostgresStore
from tests.faults.server import own_server
from tests.stores.harness import bare, end, record, step
from tests.stores.postgres import asking, harness_on, opened
from tests.stores.postgres_proxies import CuttingProxy, Pooler
from tests.support.open_files import no_file_to_spare
from tests.support.roles import role
from tests.support.sql import execute
from tests.support.turns import turn, until_idle


async def connections(url: str) -> int:
    async with asking(url) as connection:
        ours = (
            "select count(*) from pg_stat_activity where application_name = 'stepfast' and datname = current_database()"
        )
        return int(await connection.fetchval(ours))


async def until_no_connection_is_left(url: str) -> None:
    """A server takes a moment to notice that a client has gone."""
    async with asyncio.timeout(60):
        while await connections(url):
            pass


async def test_a_commit_whose_answer_was_lost_is_found_saved(migrated_postgres_url):
    proxy = CuttingProxy(migrated_postgres_url)
    async with proxy.listening() as url, harness_on(url) as harness:
        run = await harness.held()
        batch = [step(run), step(run), end(run)]
        proxy.is_cutting = True
        with pytest.raises(StoreUnavailable):
            await harness.save(*batch)
        assert proxy.cuts == 1
        assert await harness.save(*batch, again=True) == [Saving.SAVED] * 3
        assert len(await harness.store.steps(run.run_id)) == 2


async def test_a_commit_that_never_arrived_is_saved_by_sending_it_again(migrated_postgres_url):
    async with harness_on(migrated_postgres_url) as harness:
        run = await harness.held()
        assert await harness.save(step(run), step(run), again=True) == [Saving.SAVED] * 2
        assert len(await harness.store.steps(run.run_id)) == 2


async def test_a_commit_saved_in_part_of_the_batch_is_completed(migrated_postgres_url):
    async with harness_on(migrated_postgres_url) as harness:
        run = await harness.held()
        first, second = step(run), step(run)
        await harness.save(first)
        assert await harness.save(first, second, again=True) == [Saving.SAVED] * 2
        assert len(await harness.store.steps(run.run_id)) == 2


async def starts_whose_answer_was_lost(url: str) -> int:
    """How many runs two starts, one with a key, have stored that were answered although the line was cut."""
    proxy = CuttingProxy(url)
    async with proxy.listening() as way, opened(way) as store:
        harness = bare(store)
        # The next answer is not to the preparation of the statement.
        await harness.start()
        runs = [harness.new_run(), harness.new_run(key="k")]
        proxy.is_cutting = True
        answers = await store.start(runs, None)
        assert proxy.cuts == 1
        assert [(answer.run_id, answer.fresh) for answer in answers] == [(run.run_id, True) for run in runs]
        return len(await store.runs(RunFilter())) - 1


async def test_a_start_whose_answer_was_lost_is_answered_all_the_same(migrated_postgres_url):
    assert await starts_whose_answer_was_lost(migrated_postgres_url) == 2


async def test_the_broken_twin_that_sends_a_start_again_as_a_new_one_is_refused_it(migrated_postgres_url, monkeypatch):
    monkeypatch.setattr(starting, "start_call", lambda runs, holder, again: start_call(runs, holder, again=False))
    with pytest.raises(RowsRefused):
        await starts_whose_answer_was_lost(migrated_postgres_url)


async def test_a_run_that_was_born_held_is_so_when_its_start_is_sent_again(migrated_postgres_url):
    proxy = CuttingProxy(migrated_postgres_url)
    async with proxy.listening() as url, opened(url) as store:
        harness = bare(store)
        worker = await harness.enrol(str(uuid.uuid4()))
        await store.start([harness.new_run()], worker)
        proxy.is_cutting = True
        (answer,) = await store.start([harness.new_run()], worker)
        assert (proxy.cuts, answer.token) == (1, 1)
        assert answer.run_id in [holding.run_id for holding in (await store.beat(worker)).holdings]


async def test_every_kind_of_call_works_again_after_the_server_was_away():
    with own_server() as server:
        async with opened(server.url) as store:
            harness = bare(store)
            worker = await harness.enrol(str(uuid.uuid4()))
            await harness.start()
            (run,) = await harness.claim(worker=worker)
            server.stop()
            for call in _calls(store, run):
                with pytest.raises(StoreUnavailable):
                    await call()
            server.start()
            for call in _calls(store, run):
                await call()


def _calls(store, run):
    harness = bare(store)
    return (
        lambda: harness.save(step(run)),
        lambda: harness.start(run_id=RunId(str(uuid.uuid4()))),
        lambda: harness.claim(worker=run.worker_id, room=0),
        lambda: store.beat(run.worker_id),
        lambda: store.histories([run.run_id]),
        lambda: store.runs(RunFilter()),
        lambda: store.change([Request(run.run_id, Resume())]),
        lambda: harness.upkeep(may_bury=False),
        lambda: store.now(),
    )


async def test_a_call_that_gets_no_answer_ends_at_its_deadline(migrated_postgres_url):
    async with (
        opened(migrated_postgres_url, deadlines=Deadlines(call_s=0.2)) as store,
        asking(migrated_postgres_url) as blocker,
    ):
        harness = bare(store)
        worker = await harness.enrol(str(uuid.uuid4()))
        await harness.start()
        (run,) = await harness.claim(worker=worker)
        async with blocker.transaction():
            await blocker.execute("select 1 from stepfast.task for update")
            with pytest.raises(StoreUnavailable):
                await harness.save(step(run))
        assert await harness.save(step(run), again=True) == [Saving.SAVED]


async def test_a_caller_that_waits_for_its_turn_does_not_break_the_call_before_it(migrated_postgres_url):
    async with opened(migrated_postgres_url) as store, asking(migrated_postgres_url) as blocker:
        harness = bare(store)
        worker = await harness.enrol(str(uuid.uuid4()))
        await harness.start_many(2)
        one, two = await harness.claim(worker=worker)
        async with blocker.transaction():
            await blocker.execute("select 1 from stepfast.task for update")
            first = asyncio.create_task(harness.save(step(one)))
            second = asyncio.create_task(harness.save(step(two)))
            await until_idle()
            second.cancel()
            await asyncio.wait({second})
        assert await first == [Saving.SAVED]


async def given_up_after(turns: int, url: str) -> None:
    """Begin to connect, and give up after so many turns of the event loop."""
    connecting = asyncio.create_task(Address(url, Deadlines(), None).visit())
    for _ in range(turns):
        await turn()
    connecting.cancel()
    with suppress(asyncio.CancelledError):
        await part(await connecting)


async def test_a_connection_that_is_given_up_at_any_instant_leaves_no_complaint_and_is_closed(migrated_postgres_url):
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
    # Over TCP the driver asks for TLS first.
    async with CuttingProxy(migrated_postgres_url).listening() as url:
        for turns in range(20):
            await given_up_after(turns, url)
            # asyncio complains of an error that nobody has looked at when it is thrown away.
            gc.collect()
        await until_no_connection_is_left(migrated_postgres_url)
    assert complaints == []


async def test_the_store_works_behind_a_pooler_in_transaction_mode(migrated_postgres_url):
    async with opened(migrated_postgres_url):
        pass
    async with Pooler(migrated_postgres_url).listening() as url, opened(url) as store:
        assert store._address.has_own_sessions is False
        await _live_through_a_run(store)


async def test_a_pooler_that_was_taken_for_a_server_is_found_out(migrated_postgres_url):
    async with opened(migrated_postgres_url):
        pass
    async with Pooler(migrated_postgres_url).listening() as url, opened(url, has_own_sessions=True) as store:
        await _live_through_a_run(store)
        assert store._address.has_own_sessions is False


async def test_a_server_without_a_pooler_keeps_statements_prepared(migrated_postgres_url):
    async with opened(migrated_postgres_url) as store:
        assert store._address.has_own_sessions is True


async def _live_through_a_run(store: PostgresStore) -> None:
    harness = bare(store)
    worker = await harness.enrol(str(uuid.uuid4()))
    for number in range(3):
        started = await harness.start(key=f"k{number}")
        (run,) = (await store.claim(Claim(worker, [QueueRoom("default", 1)], ["order@1"], 1))).runs
        assert run.run_id == started.run_id
        assert await harness.save(step(run)) == [Saving.SAVED]
        assert await harness.save(end(run)) == [Saving.SAVED]
        assert (await store.outcomes([run.run_id]))[run.run_id].state == "completed"
        requests = [
            Request(run.run_id, command, key=f"k{number}") for command in (Rerun(), Pause(), Resume(), Cancel())
        ]
        answers = await store.change(requests)
        assert [isinstance(answer, Changed) and answer.state for answer in answers] == [
            "pending",
            "paused",
            "pending",
            "cancelled",
        ]


async def test_heartbeats_come_from_a_loop_of_their_own(migrated_postgres_url):
    async with opened(migrated_postgres_url) as store:
        worker = await bare(store).enrol(str(uuid.uuid4()))
        beats = []

        def beat() -> None:
            beats.append(asyncio.run(store.beat(worker)))

        thread = threading.Thread(target=beat)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert beats[0].alive
        assert (await store.beat(worker)).alive


async def test_a_heartbeat_is_answered_while_a_commit_waits(migrated_postgres_url):
    async with harness_on(migrated_postgres_url) as harness, asking(migrated_postgres_url) as blocker:
        run = await harness.held()
        async with blocker.transaction():
            await blocker.execute("select 1 from stepfast.task for update")
            saving = asyncio.create_task(harness.save(step(run)))
            assert (await harness.store.beat(run.worker_id)).alive
            assert not saving.done()
        assert await saving == [Saving.SAVED]


async def test_closing_leaves_no_connection_behind(migrated_postgres_url):
    async with opened(migrated_postgres_url) as store:
        worker = await bare(store).enrol(str(uuid.uuid4()))
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        beating = asyncio.run_coroutine_threadsafe(store.beat(worker), loop)
        await asyncio.wrap_future(beating)
        assert await connections(migrated_postgres_url) == 2
    await until_no_connection_is_left(migrated_postgres_url)
    loop.call_soon_threadsafe(loop.stop)
    await asyncio.to_thread(thread.join)
    loop.close()


async def test_a_store_that_is_closed_opens_no_new_connection(migrated_postgres_url):
    async with opened(migrated_postgres_url) as store:
        await store.now()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.now()


POISON = {
    "a NUL": record(value="\0"),
    "a lone surrogate": record(value="\ud800"),
    "a number too large": record()._replace(attempt=2**40),
}


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON.keys())
async def test_rows_that_the_database_refuses_refuse_their_batch(migrated_postgres_url, poison):
    async with harness_on(migrated_postgres_url) as harness:
        await harness.enrol()
        await harness.start_many(2)
        good, bad = await harness.claim()
        poisoned = step(bad)
        poisoned.records = (poison,)
        with pytest.raises(RowsRefused):
            await harness.save(step(good), poisoned)
        assert await harness.sql("select count(*) from stepfast.step") == [(0,)]


async def test_a_refused_batch_leaves_the_line_usable(migrated_postgres_url):
    async with harness_on(migrated_postgres_url) as harness:
        run = await harness.held()
        poisoned = step(run)
        poisoned.records = (POISON["a NUL"],)
        with pytest.raises(RowsRefused):
            await harness.save(poisoned)
        poisoned.records = (record(),)
        assert await harness.save(poisoned) == [Saving.SAVED]


def unreachable(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    return {
        "missing database": parts._replace(path="/nowhere").geturl(),
        "nobody listens": "postgresql://ann:s3cret@127.0.0.1:9/orders",
        "no such host": "postgresql://ann:s3cret@stepfast.invalid/orders",
    }


@pytest.mark.parametrize("kind", ["missing database", "nobody listens", "no such host"])
async def test_a_database_that_cannot_be_reached_is_named_without_its_password(migrated_postgres_url, kind):
    url = unreachable(migrated_postgres_url)[kind]
    store = PostgresStore(url)
    with pytest.raises(StoreUnavailable) as refusal:
        await store.open()
    message = str(refusal.value)
    assert urlsplit(url).path.removeprefix("/") in message
    assert "s3cret" not in message
    await store.close()


async def test_a_user_who_may_not_connect_is_told_what_lets_him_in(migrated_postgres_url):
    name = urlsplit(migrated_postgres_url).path.removeprefix("/")
    async with role(migrated_postgres_url) as (_, url):
        await execute(migrated_postgres_url, f'revoke connect on database "{name}" from public')
        store = PostgresStore(url)
        with pytest.raises(StoreUnavailable, match="does not let the user in") as refusal:
            await store.open()
        assert "`grant connect on database" in str(refusal.value)
        await store.close()


async def test_a_process_that_may_open_no_more_files_is_told_so(postgres_url):
    with no_file_to_spare(), pytest.raises(StoreUnavailable, match="this process has as many files open as it may"):
        await Address(postgres_url, Deadlines(), None).connect()
