"""A commit for a run that its worker holds no longer: what is said of it must be true, whoever has it now."""

from __future__ import annotations

import asyncio

from stepfast.engine.committer import Committer
from stepfast.kernel import rules
from stepfast.kernel.commands import Cancel
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import LeaseLost
from tests.stores.harness import Harness


async def test_of_a_run_that_was_cancelled_it_is_not_said_that_another_worker_has_it(harness: Harness):
    run = await harness.held()
    await harness.change(run.run_id, Cancel())
    committer = Committer(harness.store)
    committer.start()
    answer: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    committer.save(run, rules.complete(run, "1", Instant(1)), answer.set_result)
    error = await answer
    await committer.close()
    assert isinstance(error, LeaseLost)
    assert "a command has ended or moved it, or another worker has it" in str(error)
