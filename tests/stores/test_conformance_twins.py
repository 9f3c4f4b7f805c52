"""Stores that break one promise each: the suite of the package finds every one of them out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from stepfast.conformance.store.beginning import BeginningSuite
from stepfast.conformance.store.claiming import ClaimingSuite
from stepfast.conformance.store.commands import CommandsSuite
from stepfast.conformance.store.delivering import DeliveringSuite
from stepfast.conformance.store.parking import ParkingSuite
from stepfast.conformance.store.reading import ReadingSuite
from stepfast.conformance.store.reopening import ReopeningSuite
from stepfast.conformance.store.saving import SavingSuite
from stepfast.conformance.store.sending_again import SendingAgainSuite
from stepfast.conformance.store.sharing import SharingSuite
from stepfast.conformance.store.sinks import SinksSuite
from stepfast.conformance.store.starting import StartingSuite
from stepfast.conformance.store.suite import StoreSuite
from stepfast.conformance.store.trail import TrailSuite
from stepfast.conformance.store.upkeep import UpkeepSuite
from stepfast.kernel.decisions import Fence, HeldRun, Park
from stepfast.kernel.exchange import Delivered
from stepfast.stores.sqlite.store import SqliteStore


class IgnoresTheFence(SqliteStore):
    """Takes whoever sends something for the present holder."""

    async def save(self, decisions, again=False):
        return await super().save([await self._as_of_the_holder(decision) for decision in decisions], again)

    async def _as_of_the_holder(self, decision):
        view = await self.run(None, decision.fence.run_id)
        if view is None:
            return decision
        return replace(decision, fence=Fence(view.run_id, view.token, view.worker_id))


class ParksWhateverCame(SqliteStore):
    """Loses a wake that came between the holder's last look and its park."""

    async def save(self, decisions, again=False):
        return await super().save([await self._as_if_seen(decision) for decision in decisions], again)

    async def _as_if_seen(self, decision):
        look = await self.look(decision.fence.run_id)
        if look is None or not isinstance(decision.release, Park):
            return decision
        return replace(decision, release=Park(look.wakes))


class LosesWhatComesForARunningRun(SqliteStore):
    async def deliver(self, delivery):
        view = await self.run(delivery.tenant, delivery.run_id)
        if view is not None and view.worker_id is not None:
            return Delivered(view.state, view.queue, view.worker_id)
        return await super().deliver(delivery)


class GivesAKeyTwice(SqliteStore):
    async def start(self, runs, holder):
        return await super().start([run._replace(key=None) for run in runs], holder)


class CarriesACommandOutTwice(SqliteStore):
    async def change(self, requests):
        return await super().change([request._replace(key=None) for request in requests])


class CarriesADryRunOut(SqliteStore):
    async def change(self, requests):
        return await super().change([request._replace(dry_run=False) for request in requests])


class HandsRunsOutTwice(SqliteStore):
    """Answers a claim with what it handed out before, if there is nothing else."""

    handed_out: tuple[HeldRun, ...] = ()

    async def claim(self, request):
        claimed = await super().claim(request)
        if claimed.runs:
            self.handed_out = tuple(claimed.runs)
        return claimed._replace(runs=list(self.handed_out))


class TakesAClaimForABeginning(SqliteStore):
    async def claim(self, request):
        claimed = await super().claim(request)
        return claimed._replace(runs=[replace(run, begun=run.claims > 1) for run in claimed.runs])


class TakesARecordForABeginning(SqliteStore):
    async def claim(self, request):
        claimed = await super().claim(request)
        return claimed._replace(runs=[replace(run, begun=run.last_seq > run.kept_seq) for run in claimed.runs])


class ServesOneTenantFirst(SqliteStore):
    async def claim(self, request):
        return await super().claim(request._replace(burst=1_000))


class ShowsEverythingToEveryone(SqliteStore):
    async def run(self, tenant, run_id):
        return await super().run(None, run_id)

    async def runs(self, where):
        return await super().runs(where._replace(tenant=None))


class SavesABatchByHalves(SqliteStore):
    async def save(self, decisions, again=False):
        return [saving for decision in decisions for saving in await super(type(self), self).save([decision], again)]


class BuriesWithoutTheRight(SqliteStore):
    async def upkeep(self, request):
        return await super().upkeep(request._replace(may_bury=True))


class KeepsTimeByItself(SqliteStore):
    """Has a clock that stands, whatever time it is."""

    def __init__(self, path, clock):
        moment = clock()
        super().__init__(path, lambda: moment)


class RemembersInTheProcess(SqliteStore):
    """Answers what it was asked before, whoever has changed it since."""

    def __init__(self, path, clock):
        super().__init__(path, clock)
        self._beats_answered = {}

    async def beat(self, worker_id):
        if worker_id not in self._beats_answered:
            self._beats_answered[worker_id] = await super().beat(worker_id)
        return self._beats_answered[worker_id]


class GivesASinkToEverybody(SqliteStore):
    async def take_sink(self, name, publisher, lease_ms, from_start):
        return await super().take_sink(name, "anybody", lease_ms, from_start)


class StoresForWhoeverHadTheSink(SqliteStore):
    async def advance_sink(self, taken, step, lease_ms):
        holder = (await self.sinks())[0].publisher or ""
        present = await super().take_sink(taken.name, holder, lease_ms, False)
        return await super().advance_sink(present or taken, step, lease_ms)


class SealsAgain(SqliteStore):
    async def put_seal(self, seal, leaves):
        return await super().put_seal(seal._replace(body=seal.body._replace(number=99)), leaves)


LATE = "test_who_held_a_run_before_it_was_cancelled_and_rerun_changes_nothing"

TWINS: list[tuple[type[SqliteStore], type[StoreSuite], str]] = [
    (IgnoresTheFence, SavingSuite, "test_a_decision_that_the_fence_refuses_changes_nothing[a step-older token]"),
    (IgnoresTheFence, ReopeningSuite, f"{LATE}[a record]"),
    (ParksWhateverCame, ParkingSuite, "test_a_run_is_not_parked_when_something_has_come"),
    (LosesWhatComesForARunningRun, DeliveringSuite, "test_of_a_park_and_a_signal_at_once_the_run_goes_on"),
    (GivesAKeyTwice, StartingSuite, "test_one_key_started_by_many_at_once_is_one_run"),
    (GivesAKeyTwice, SharingSuite, "test_one_key_started_by_two_at_once_is_one_run"),
    (CarriesACommandOutTwice, CommandsSuite, "test_a_command_that_comes_again_is_answered_as_the_first_time"),
    (CarriesADryRunOut, CommandsSuite, "test_a_dry_run_leaves_its_key_free_and_does_not_ask_it"),
    (HandsRunsOutTwice, ClaimingSuite, "test_a_run_is_claimed_once"),
    (TakesAClaimForABeginning, BeginningSuite, "test_a_run_that_was_claimed_and_handed_back_has_not_begun"),
    (TakesARecordForABeginning, BeginningSuite, "test_a_run_that_was_handed_back_without_a_record_has_begun"),
    (TakesARecordForABeginning, BeginningSuite, "test_a_step_that_a_person_did_is_no_beginning"),
    (ServesOneTenantFirst, ClaimingSuite, "test_tenants_take_turns_by_bursts"),
    (ShowsEverythingToEveryone, ReadingSuite, "test_a_tenant_does_not_see_a_run_of_another"),
    (SavesABatchByHalves, SendingAgainSuite, "test_a_number_used_twice_refuses_the_batch"),
    (BuriesWithoutTheRight, UpkeepSuite, "test_who_may_not_bury_buries_nobody"),
    (KeepsTimeByItself, ClaimingSuite, "test_a_delayed_run_is_claimed_when_it_falls_due"),
    (RemembersInTheProcess, SharingSuite, "test_what_another_took_from_a_worker_is_lost_to_it"),
    (GivesASinkToEverybody, SinksSuite, "test_nobody_takes_a_sink_that_another_has"),
    (StoresForWhoeverHadTheSink, SinksSuite, "test_nothing_is_stored_for_a_publisher_that_has_lost_its_sink"),
    (SealsAgain, TrailSuite, "test_a_seal_is_put_once"),
]


def failures(store, suite, folder):
    """The tests of a part of the suite that a kind of store does not pass."""
    numbers = itertools.count()
    return [name for name in dir(suite) if name.startswith("test_") and fails(suite, name, store, folder, numbers)]


def fails(suite, name, store, folder, numbers):
    path = folder / f"{next(numbers)}.db"
    try:
        getattr(suite(), name)(lambda clock: store(path, clock.local))
    except Exception:  # noqa: BLE001, a broken store may fail in any way
        return True
    return False


@pytest.mark.parametrize(("store", "suite", "test"), TWINS, ids=[f"{t[0].__name__}-{t[1].__name__}" for t in TWINS])
def test_a_store_that_breaks_a_promise_does_not_pass(store, suite, test, tmp_path):
    assert test in failures(store, suite, tmp_path)


@pytest.mark.parametrize("suite", sorted({twin[1] for twin in TWINS}, key=str))
def test_a_store_that_keeps_them_passes(suite, tmp_path):
    assert failures(SqliteStore, suite, tmp_path) == []
