"""A file that is run as a script here and imported by its name there is one and the same to a run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import environment, stepfast
from tests.support.apps import app_on

SHOP = """
import asyncio
import sys

from stepfast import Retry, RunFailed, Stepfast, receive, step, workflow

print("loaded", flush=True)

class Declined(Exception):
    pass

@step(retry=Retry(attempts=1))
async def charge(order: str) -> str:
    raise Declined(order)

@workflow
async def checkout(order: str) -> str:
    try:
        await charge(order)
    except Declined:
        return "declined, " + await receive("go", str)
    return "paid"

@workflow
async def careless(order: str) -> str:
    return await charge(order)

app = Stepfast()

async def park():
    async with app:
        run = await app.start(checkout, "o1")
        while (await run.info()).state != "waiting":
            pass
        print(run.id)

async def look(run_id):
    async with app:
        try:
            await app.get(run_id).result()
        except RunFailed as failed:
            print(type(failed.__cause__) is Declined)
    async with app:
        print("opened again")

if __name__ == "__main__":
    asyncio.run(park() if len(sys.argv) == 1 else look(sys.argv[1]))
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def script(folder: Path, database: str, *args: str) -> list[str]:
    """What the script prints."""
    command = [sys.executable, "shop.py", *args]
    variables = environment(STEPFAST_DATABASE_URL=database)
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("app", ["shop:app", "shop.py:app"])
async def test_a_worker_finds_the_class_of_an_error_that_a_script_has_recorded(database, shop, app):
    _, run_id = await asyncio.to_thread(script, shop, database)
    async with app_on(database, [], worker=False) as client:
        run = client.get(run_id)
        await run.signal("go", "sorry")
        args = ("worker", "--app", app, "--database", database, "--drain")
        done = await asyncio.to_thread(stepfast, *args, cwd=shop)
        assert done.returncode == 0, done.stderr
        assert await run.result() == "declined, sorry"


async def test_a_script_finds_its_own_class_in_what_a_worker_has_recorded_and_is_not_loaded_again(database, shop):
    options = ("--app", "shop:app", "--database", database)
    started = await asyncio.to_thread(lambda: stepfast("runs", "start", "careless", '"o1"', *options, cwd=shop))
    run_id = started.stdout.split()[-1]
    await asyncio.to_thread(lambda: stepfast("worker", *options, "--drain", cwd=shop))
    assert await asyncio.to_thread(script, shop, database, run_id) == ["loaded", "True", "opened again"]
