"""`stepfast workflows check`: what people and programs see of the deploy check."""

from __future__ import annotations

from stepfast import receive, workflow
from stepfast.testing import engine
from tests.cli.invoking import OFFICE
from tests.cli.office import asking, charge
from tests.support.apps import app_on


@workflow(name="asking")
async def asking_after_a_charge(tenant: str = "nobody") -> str:
    await charge("order-1", 100)
    return await receive("approval", str)


async def waiting_run(database: str, definition) -> str:
    async with engine(database=database, workflows=[definition]) as opened:
        run = await opened.start(definition)
        await opened.run_until_idle()
        return run.id


async def test_code_that_fits_ends_with_zero(office, database):
    await waiting_run(database, asking)
    done = await office("workflows", "check", "--app", OFFICE)
    assert (done.code, done.out) == (0, "")
    assert done.err == "1 open run checked, 0 would not go on with this code.\n"


async def test_code_that_does_not_fit_ends_with_one_and_names_run_step_and_what_to_do(office, database):
    run_id = await waiting_run(database, asking_after_a_charge)
    done = await office("workflows", "check", "--app", OFFICE)
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if run_id in line]
    assert "asking@1" in line
    assert "charge#1" in line
    assert "give the changed workflow a new version" in line
    assert f"{run_id}: It was recorded as completed" in done.err


async def test_a_program_gets_it_as_json(office, database):
    run_id = await waiting_run(database, asking_after_a_charge)
    done = await office("workflows", "check", "--app", OFFICE, "-o", "json")
    assert done.code == 1
    assert (done.json["checked"], done.json["breaking"]) == (1, 1)
    assert done.json["verdicts"] == {"fits": 0, "added_step": 0, "mismatch": 1, "unknown_code": 0}
    (run,) = done.json["runs"]
    assert (run["run_id"], run["step"], run["verdict"]) == (run_id, "charge#1", "mismatch")


async def test_the_runs_of_all_tenants_are_checked_unless_one_is_named(office, database):
    async with app_on(database, [asking], worker=False) as app:
        for tenant in ("acme", "bolt"):
            await app.start(asking, tenant=tenant)
    everybody = await office("workflows", "check", "--app", OFFICE)
    one = await office("workflows", "check", "--app", OFFICE, "--tenant", "acme")
    assert [done.err.partition(" open")[0] for done in (everybody, one)] == ["2", "1"]
