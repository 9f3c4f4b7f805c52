"""Commands: in one call, of tenants, and with keys."""

from __future__ import annotations

from dataclasses import replace

from stepfast.conformance.store.acts import end, fail, park, step, wait, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel, Changed, Command, Pause, Request, Rerun, Resume, RetryRun
from stepfast.kernel.errors import IllegalMove, KeyReused, NotFound, RowsRefused
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState


@on_fresh_stores
class CommandsSuite(StoreSuite):
    """Each command is answered, and a key carries it out once."""

    @cases(command={"pause": Pause(), "cancel": Cancel()})
    async def test_events_of_commands_are_numbered_without_a_gap(self, harness: Harness, command: Command) -> None:
        run = await harness.held()
        await harness.save(step(run), park(run, wait()))
        await harness.change(run.run_id, command)
        assert [event.seq for event in await harness.store.events(run.run_id)] == [1, 2, 3, 4, 5]

    async def test_requests_are_answered_in_order_and_a_refused_one_spoils_no_other(self, harness: Harness) -> None:
        one, two = await harness.start_many(2)
        nobody = harness.new_run().run_id
        wanted: list[tuple[RunId, Command]] = [(two, Cancel()), (nobody, Cancel()), (one, Resume()), (one, Pause())]
        answers = await harness.store.change([Request(run_id, command) for run_id, command in wanted])
        assert [type(answer) for answer in answers] == [Changed, NotFound, IllegalMove, Changed]
        assert [await harness.state(run_id) for run_id in (one, two)] == [RunState.PAUSED, RunState.CANCELLED]

    async def test_a_request_sees_what_those_before_it_did_to_the_same_run(self, harness: Harness) -> None:
        started = await harness.start()
        commands: list[Command] = [Pause(), Resume(), Cancel(), Cancel()]
        answers = await harness.store.change([Request(started.run_id, command) for command in commands])
        assert [type(answer) for answer in answers] == [Changed, Changed, Changed, IllegalMove]
        assert await harness.event_types(started.run_id) == ["queued", "paused", "resumed", "cancelled"]

    async def test_a_request_that_cannot_be_stored_spoils_no_other(self, harness: Harness) -> None:
        one, two, three = await harness.start_many(3)
        requests = [Request(one, Cancel()), Request(two, Cancel(), actor="\ud800"), Request(three, Cancel())]
        answers = await harness.store.change(requests)
        assert [type(answer) for answer in answers] == [Changed, RowsRefused, Changed]
        assert await harness.state(two) is RunState.PENDING

    async def test_nothing_asked_is_nothing_answered(self, harness: Harness) -> None:
        assert await harness.store.change([]) == []

    async def test_a_tenant_commands_its_own_runs(self, harness: Harness) -> None:
        started = await harness.start()
        assert (await harness.change(started.run_id, Cancel(), tenant="acme")).state is RunState.CANCELLED

    async def test_the_run_of_another_tenant_is_not_found_and_not_changed(self, harness: Harness) -> None:
        started = await harness.start()
        before = await harness.contents()
        refusal = await harness.refusal(started.run_id, Cancel(), tenant="other", key="k")
        assert isinstance(refusal, NotFound)
        assert started.run_id in str(refusal)
        assert await harness.contents() == before

    async def test_a_command_that_comes_again_is_answered_as_the_first_time(self, harness: Harness) -> None:
        run = await harness.held()
        first = await harness.change(run.run_id, Cancel(), key="k")
        await harness.advance(5)
        assert await harness.change(run.run_id, Cancel(), key="k") == replace(first, repeated=True)
        assert (first.worker_id, first.repeated) == (worker("w1"), False)

    async def test_a_command_that_comes_again_changes_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        await harness.change(run.run_id, Rerun(), key="k")
        before = await harness.contents()
        await harness.advance(5)
        await harness.change(run.run_id, Rerun(), key="k", actor="ann", reason="again")
        assert await harness.contents() == before

    async def test_the_answer_stays_the_first_whatever_has_become_of_the_run(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.change(started.run_id, Pause(), key="k")
        await harness.change(started.run_id, Cancel())
        again = await harness.change(started.run_id, Pause(), key="k")
        assert (again.state, again.repeated) == (RunState.PAUSED, True)

    async def test_a_key_that_comes_again_in_the_same_call_is_found(self, harness: Harness) -> None:
        started = await harness.start()
        request = Request(started.run_id, Pause(), key="k")
        first, second = await harness.store.change([request, request])
        assert isinstance(first, Changed)
        assert second == replace(first, repeated=True)

    async def test_a_key_that_was_used_for_another_run_is_refused(self, harness: Harness) -> None:
        one, two = await harness.start_many(2)
        await harness.change(one, Cancel(), key="k")
        before = await harness.contents()
        refusal = await harness.refusal(two, Cancel(), key="k")
        assert isinstance(refusal, KeyReused)
        assert "'k'" in str(refusal)
        assert await harness.contents() == before

    async def test_a_key_that_was_used_with_another_body_is_refused(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(fail(run))
        await harness.change(run.run_id, Rerun(), key="k")
        assert isinstance(await harness.refusal(run.run_id, Rerun(version=2), key="k"), KeyReused)

    async def test_each_command_has_keys_of_its_own(self, harness: Harness) -> None:
        started = await harness.start(key="k")
        for command in (Pause(), Resume(), Cancel()):
            assert not (await harness.change(started.run_id, command, key="k")).repeated

    async def test_each_tenant_has_keys_of_its_own(self, harness: Harness) -> None:
        one, other = await harness.start(tenant="acme"), await harness.start(tenant="other")
        for started in (one, other):
            assert not (await harness.change(started.run_id, Cancel(), key="k")).repeated

    @cases(askers={"an operator first": (None, "acme"), "the tenant first": ("acme", None)})
    async def test_a_key_belongs_to_the_tenant_of_the_run_whoever_asks(
        self, harness: Harness, askers: tuple[str | None, str | None]
    ) -> None:
        started = await harness.start()
        first, second = [await harness.change(started.run_id, Pause(), key="k", tenant=tenant) for tenant in askers]
        assert second == replace(first, repeated=True)

    async def test_the_runs_that_a_command_for_many_was_carried_out_on_are_found_by_its_key(
        self, harness: Harness
    ) -> None:
        one, two, other = [(await harness.start(tenant=tenant)).run_id for tenant in ("acme", "acme", "other")]
        for run_id in (one, two, other):
            await harness.change(run_id, Pause(), key=f"k/{run_id}")
        await harness.change(one, Cancel(), key="k/x")
        assert sorted(await harness.store.answered("acme", "pause", "k")) == sorted([one, two])
        assert set(await harness.store.answered(None, "pause", "k")) == {one, two, other}
        assert await harness.store.answered("acme", "cancel", "k") == []

    async def test_the_runs_that_a_command_for_many_was_carried_out_on_come_in_pages_the_newest_first(
        self, harness: Harness
    ) -> None:
        runs = [(await harness.start(tenant=tenant)).run_id for tenant in ("acme", "other", "acme", "other", "acme")]
        for run_id in runs:
            await harness.change(run_id, Pause(), key=f"k/{run_id}")
            await harness.change(run_id, Resume(), key=f"k/{run_id}/more")
        found: list[RunId] = []
        while page := await harness.store.answered(None, "pause", "k", before=found[-1] if found else None, limit=2):
            found += page
        assert found == sorted(runs, reverse=True)

    async def test_a_refused_command_leaves_its_key_free(self, harness: Harness) -> None:
        started = await harness.start()
        assert isinstance(await harness.refusal(started.run_id, Resume(), key="k"), IllegalMove)
        await harness.change(started.run_id, Pause())
        assert (await harness.change(started.run_id, Resume(), key="k")).repeated is False

    async def test_without_a_key_a_command_that_comes_again_is_judged_again(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.change(started.run_id, Cancel())
        assert isinstance(await harness.refusal(started.run_id, Cancel()), IllegalMove)

    @cases(command={"pause": Pause(), "cancel": Cancel(), "rerun": Rerun(), "retry": RetryRun(step="ship")})
    async def test_a_dry_run_is_answered_as_the_command_would_be_and_writes_nothing(
        self, harness: Harness, command: Command
    ) -> None:
        run = await harness.held()
        if command.name in ("rerun", "retry"):
            await harness.save(fail(run))
        before, told = await harness.contents(), await harness.answer(run.run_id, command, dry_run=True)
        assert await harness.contents() == before
        done = await harness.answer(run.run_id, command)
        if isinstance(told, Changed) and isinstance(done, Changed):
            assert (replace(told, at=done.at), told.told) == (done, ())
        else:
            assert str(told) == str(done)

    async def test_a_dry_run_of_a_child_is_refused_for_what_its_parent_waits_for(self, harness: Harness) -> None:
        await harness.parent(children=2, need=2, spare=2)
        child, _ = await harness.claim(queue="children")
        await harness.save(fail(child))
        refusal = await harness.refusal(child.run_id, RetryRun(), dry_run=True)
        assert str(refusal) == str(await harness.refusal(child.run_id, RetryRun()))

    async def test_a_dry_run_leaves_its_key_free_and_does_not_ask_it(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.change(started.run_id, Pause(), key="k", dry_run=True)
        assert not (await harness.change(started.run_id, Pause(), key="k")).repeated
        assert isinstance(await harness.refusal(started.run_id, Pause(), key="k", dry_run=True), IllegalMove)

    async def test_a_dry_run_among_commands_keeps_none_of_them_back(self, harness: Harness) -> None:
        started = await harness.start()
        requests = [Request(started.run_id, Cancel(), dry_run=True), Request(started.run_id, Pause())]
        answers = await harness.store.change(requests)
        assert [answer.state for answer in answers if isinstance(answer, Changed)] == [
            RunState.CANCELLED,
            RunState.PAUSED,
        ]
        assert await harness.event_types(started.run_id) == ["queued", "paused"]
