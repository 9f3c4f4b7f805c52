"""The keys of commands: what comes again is answered as the first time, and changes nothing."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Cancel, Changed, Pause, Request, Rerun, Resume
from stepfast.kernel.errors import IllegalMove, KeyReused
from stepfast.kernel.states import RunState
from tests.stores.harness import end, fail


async def test_a_command_that_comes_again_is_answered_as_the_first_time(harness):
    run = await harness.held()
    first = await harness.change(run.run_id, Cancel(), key="k")
    await harness.advance(5)
    assert await harness.change(run.run_id, Cancel(), key="k") == first._replace(repeated=True)
    assert (first.worker_id, first.repeated) == ("w1", False)


async def test_a_command_that_comes_again_changes_nothing(harness):
    run = await harness.held()
    await harness.save(end(run))
    await harness.change(run.run_id, Rerun(), key="k")
    before = await harness.contents()
    await harness.advance(5)
    await harness.change(run.run_id, Rerun(), key="k", actor="ann", reason="again")
    assert await harness.contents() == before


async def test_the_answer_stays_the_first_whatever_has_become_of_the_run(harness):
    started = await harness.start()
    await harness.change(started.run_id, Pause(), key="k")
    await harness.change(started.run_id, Cancel())
    again = await harness.change(started.run_id, Pause(), key="k")
    assert (again.state, again.repeated) == (RunState.PAUSED, True)


async def test_a_key_that_comes_again_in_the_same_call_is_found(harness, store):
    started = await harness.start()
    request = Request(started.run_id, Pause(), key="k")
    first, second = await store.change([request, request])
    assert second == first._replace(repeated=True)


async def test_a_key_that_was_used_for_another_run_is_refused(harness):
    one, two = await harness.start_many(2)
    await harness.change(one, Cancel(), key="k")
    before = await harness.contents()
    refusal = await harness.change(two, Cancel(), key="k")
    assert isinstance(refusal, KeyReused)
    assert "'k'" in str(refusal)
    assert await harness.contents() == before


async def test_a_key_that_was_used_with_another_body_is_refused(harness):
    run = await harness.held()
    await harness.save(fail(run))
    await harness.change(run.run_id, Rerun(), key="k")
    assert isinstance(await harness.change(run.run_id, Rerun(version=2), key="k"), KeyReused)


async def test_each_command_has_keys_of_its_own(harness):
    started = await harness.start(key="k")
    for command in (Pause(), Resume(), Cancel()):
        assert isinstance(await harness.change(started.run_id, command, key="k"), Changed)


async def test_each_tenant_has_keys_of_its_own(harness):
    one, other = await harness.start(tenant="acme"), await harness.start(tenant="other")
    for started in (one, other):
        assert isinstance(await harness.change(started.run_id, Cancel(), key="k"), Changed)


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_a_key_belongs_to_the_tenant_of_the_run_whoever_asks(harness, tenant):
    started = await harness.start()
    await harness.change(started.run_id, Pause(), key="k", tenant=tenant)
    rows = await harness.sql("select tenant, command, key, run_id from stepfast.idempotency")
    assert rows == [("acme", "pause", "k", started.run_id)]


async def test_a_refused_command_leaves_its_key_free(harness):
    started = await harness.start()
    assert isinstance(await harness.change(started.run_id, Resume(), key="k"), IllegalMove)
    await harness.change(started.run_id, Pause())
    assert (await harness.change(started.run_id, Resume(), key="k")).repeated is False


async def test_without_a_key_a_command_that_comes_again_is_judged_again(harness):
    started = await harness.start()
    await harness.change(started.run_id, Cancel())
    assert isinstance(await harness.change(started.run_id, Cancel()), IllegalMove)
