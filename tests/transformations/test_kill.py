"""kill -9 between the content of what a transformation made and its record: one asset, its lineage once."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stepfast import Stepfast
from stepfast.kernel.assets import parse_asset
from stepfast.kernel.blobs import BlobFilter
from tests.support import victims
from tests.support.apps import migrated
from tests.transformations.harness import docs, transforming
from tests.transformations.test_faults import EXPECTED
from tests.transformations.victim import POINTS

LONGEST_S = 60


def victim(options: dict[str, Any]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A process that executes."""
    return victims.victim("tests.transformations.victim", options)


@pytest.fixture
def options(database: str, tmp_path: Path) -> dict[str, Any]:
    return {"database": database, "blobs": f"file://{tmp_path}/blobs"}


@pytest.fixture
async def client(options: dict[str, Any]) -> AsyncIterator[Stepfast]:
    await migrated(options["database"])
    async with Stepfast(**options, workflows=[transforming], executors=[docs], worker=False) as app:
        yield app


async def made(client: Stepfast, options: dict[str, Any], point: str, twin: str | None = None) -> Any:
    """What is there once a process has died behind a point, and another has done the rest."""
    await client.assets.put(b"text", "contract", media_type="application/pdf")
    run = await client.start(transforming, "contract")
    with victim({**options, "point": point, "twin": twin}) as first:
        await asyncio.wait_for(victims.died(first), LONGEST_S)
    with victim({**options, "twin": twin}):
        async with asyncio.timeout(LONGEST_S):
            (uri,) = await run
    name = parse_asset(uri)
    assert await client.assets.read(name.id, name.version) == b"text!"
    assets = [(asset.id, asset.version, asset.inputs) for asset in await client.assets.list()]
    used = [(each.inputs, each.outputs) for each in await client.transformations.list(run_id=run.id)]
    rows = await client.assets.lineage("contract/to_text")
    return assets, used, [(row.role.value, row.asset_id, row.version) for row in rows]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("point", POINTS)
async def test_who_dies_between_a_content_and_its_record_leaves_one_asset_with_its_lineage(client, options, point):
    assert await made(client, options, point) == EXPECTED
    # The source, what was put aside and what counts: no more than one content of each.
    assert len(await client._open_parts().values.blobs.list(BlobFilter())) == 3


@pytest.mark.timeout(180)
async def test_the_broken_twin_that_knows_nothing_again_makes_two(client, options):
    assets, _, _ = await made(client, options, "asset 1", "knows_nothing_again")
    assert len(assets) == 3
