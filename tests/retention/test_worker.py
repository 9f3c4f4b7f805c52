"""A worker lets runs go by itself, and one whose pass fails goes on."""

from __future__ import annotations

from dataclasses import replace

from stepfast import Stepfast
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.retention import PolicyChange
from stepfast.worker.pruning import PruneLoop
from tests.retention.workflows import ALL, say
from tests.support.apps import QUICK


async def test_a_worker_prunes_by_itself(database):
    async with Stepfast(database, workflows=ALL, worker=replace(QUICK, prune_every_ms=100)) as app:
        await (await app.start(say, "word")).result(timeout="30s")
        # Shorter than anybody may set it, so that nobody has to wait for it.
        change = PolicyChange(app.retention._id_for(None), "", "", 1)
        await app._open_parts().store.change_policy(change)
        while await app.runs():
            pass


async def test_a_pass_that_fails_is_not_the_end_of_the_loop(opened, monkeypatch):
    async def fail() -> None:
        raise StoreUnavailable("away")

    pruner = opened.app.parts.pruner()
    monkeypatch.setattr(pruner._store, "policies", fail, raising=False)
    assert await PruneLoop(pruner, opened.clock, 1_000).make_pass() == 0
