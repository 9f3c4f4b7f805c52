"""A run whose rows do not let it end is set aside; without that, no run of a dead worker goes back."""

from __future__ import annotations

from stepfast.kernel.errors import StepfastError
from stepfast.stores.sqlite import upkeep
from tests.stores.harness import Harness
from tests.stores.test_unreapable import HALF_ENDED
from tests.support.guards import rewrite, url_of

NET = """
exception when integrity_constraint_violation or numeric_value_out_of_range then
    update stepfast.task t
       set state = 'waiting', worker_id = null, token = k_token, due_at = null, deadline_at = null, since_at = moment
     where t.run_id = k_run;
    return false;"""


async def given_back_beside_a_spoilt_run(harness: Harness) -> bool:
    """Whether the innocent runs of dead workers go back when one beside them cannot be ended."""
    poison = await harness.held("w1")
    await harness.sql(HALF_ENDED["an outcome that was there before"], run_id=poison.run_id)
    await harness.enrol("w2")
    others = await harness.start_many(2)
    await harness.claim(worker="w2")
    try:
        report = await harness.bury(max_crashes=1)
    except StepfastError:
        return False
    return sorted(report.returned) == sorted(others)


async def test_a_spoilt_run_keeps_nobody_from_going_back(harness):
    assert await given_back_beside_a_spoilt_run(harness)


async def test_the_broken_twin_without_a_net_gives_nothing_back(harness, monkeypatch):
    def fail_without_a_net(connection, orphan, verdict, now):
        upkeep._fail(connection, orphan, verdict, now)
        return True

    monkeypatch.setattr(upkeep, "_is_failed", fail_without_a_net)
    await rewrite(url_of(harness), "is_failed_for_crashes", (NET, ""))
    assert not await given_back_beside_a_spoilt_run(harness)
