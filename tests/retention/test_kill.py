"""kill -9 of those who prune: what is gone is gone whole and told of, and what is left can still go."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stepfast import Run, Stepfast
from stepfast.kernel.auditing import Fault
from stepfast.kernel.blobs import BlobFilter
from stepfast.signing import KeyedSigner
from tests.retention.conftest import KEY_TEXT, KEYS
from tests.retention.victim import PIECE, POINTS
from tests.retention.workflows import ALL, pass_on, say
from tests.support import victims
from tests.support.apps import PATIENT
from tests.support.sql import fetch
from tests.support.victims import died

CHILDREN, LONERS = 12, 6
LARGE = "x" * 100_000

# A child whose parent is gone, a row of a run that is gone, a run that is gone and nobody tells of.
ORPHANS = """
select cast(r.run_id as text) from stepfast.run r
 where r.parent_id is not null and not exists (select 1 from stepfast.run p where p.run_id = r.parent_id)
union all
select cast(o.run_id as text) from stepfast.outcome o
 where not exists (select 1 from stepfast.run r where r.run_id = o.run_id)
union all
select cast(s.run_id as text) from stepfast.step s
 where not exists (select 1 from stepfast.run r where r.run_id = s.run_id)
"""


def victim(options: dict[str, Any]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A pruning process."""
    return victims.victim("tests.retention.victim", options)


@pytest.fixture
async def app(database, tmp_path: Path):
    """A large family and several small ones, with large values, all ended and sealed."""
    app = Stepfast(database, workflows=ALL, worker=PATIENT, blobs=f"file://{tmp_path}/blobs")
    app.signer = KeyedSigner(KEYS)
    async with app:
        started: list[Run[Any]] = [await app.start(pass_on, [str(number) for number in range(CHILDREN)])]
        started += [await app.start(say, LARGE) for _ in range(LONERS)]
        for run in started:
            await run.result(timeout="60s")
        await app.audit.seal()
        yield app


@pytest.fixture
def options(database, tmp_path: Path) -> dict[str, Any]:
    return {"database": database, "blobs": f"file://{tmp_path}/blobs", "keys": KEY_TEXT}


async def test_whoever_is_killed_when_nothing_is_lost_or_left_behind(app, options, database):
    points = [point for point in POINTS if point != "amid_the_transaction" or database.startswith("sqlite")]
    for point in points:
        with victim({**options, "point": point, "limit": 1}) as process:
            assert await died(process) == -signal.SIGKILL
        assert await fetch(database, ORPHANS) == []
        assert (await app.audit.verify()).findings == ()
    with victim(options) as process:
        assert await died(process) == 0
    assert await fetch(database, "select count(*) from stepfast.run") == [(0,)]
    assert await fetch(database, "select count(*) from stepfast.pruned") == [(CHILDREN + 2 + LONERS,)]
    assert await app._open_parts().values.blobs.list(BlobFilter()) == []
    assert (await app.audit.verify()).is_sound


async def test_a_large_family_whose_pruning_was_killed_halfway_is_a_family_still(app, options, database):
    with victim({**options, "workflow": "pass_on", "point": "after_pruning", "after": 2}) as process:
        assert await died(process) == -signal.SIGKILL
    family = "select count(*) from stepfast.run where workflow = 'pass_on' or parent_id is not null"
    assert await fetch(database, family) == [(CHILDREN + 2 - 2 * PIECE,)]
    assert await fetch(database, ORPHANS) == []
    assert (await app.audit.verify()).is_sound
    with victim({**options, "workflow": "pass_on"}) as process:
        assert await died(process) == 0
    assert await fetch(database, family) == [(0,)]


async def test_several_that_prune_at_once_let_each_run_go_once(app, options, database):
    with victim(options) as first, victim(options) as second, victim(options) as third:
        assert [await died(process) for process in (first, second, third)] == [0, 0, 0]
    told = await fetch(database, "select data from stepfast.event where type = 'pruned'")
    named = [run_id for (data,) in told for run_id, _ in json.loads(data)["runs"]]
    assert len(named) == len(set(named)) == CHILDREN + 2 + LONERS
    assert (await app.audit.verify()).is_sound


async def test_the_broken_twin_that_tells_later_leaves_what_nothing_proves(app, options):
    with victim({**options, "twin": "tells_later", "point": "after_pruning"}) as process:
        await died(process)
    assert Fault.PRUNED_UNPROVEN in {finding.fault for finding in (await app.audit.verify()).findings}
