"""`stepfast workflows check`: what people and programs see of the deploy check."""

from __future__ import annotations

from stepfast import Graph, receive, workflow
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


@workflow
async def taken_out() -> str:
    return await receive("approval", str)


async def test_runs_of_workflows_that_the_app_does_not_have_are_counted_in_the_end(office, database):
    for _ in range(2):
        await waiting_run(database, taken_out)
    done = await office("workflows", "check", "--app", OFFICE)
    told = "2 open runs of workflows that this app does not have: 2 of taken_out. If no other app on this database has"
    assert done.code == 0
    assert done.err.splitlines()[-1] == f"{told} them, they would wait for ever."
    assert told in (await office("workflows", "check", "--app", OFFICE, "-o", "json")).err


async def test_code_that_does_not_fit_ends_with_one_and_names_run_step_and_what_to_do(office, database):
    run_id = await waiting_run(database, asking_after_a_charge)
    done = await office("workflows", "check", "--app", OFFICE)
    assert done.code == 1
    (line,) = [line for line in done.out.splitlines() if run_id in line]
    assert "asking@1" in line
    assert "charge#1" in line
    assert "give the changed workflow a new version" in line
    assert f"{run_id}: Step charge#1 was recorded as completed" in done.err


async def test_a_step_that_was_added_is_told_with_the_calls_that_the_code_must_still_come_to(
    office, database, tmp_path
):
    run_id = await waiting_run(database, asking)
    code = "from tests.cli.test_workflows_check import asking_after_a_charge\nfrom stepfast import Stepfast\n"
    (tmp_path / "charging.py").write_text(f"{code}app = Stepfast(workflows=[asking_after_a_charge])\n")
    done = await office("workflows", "check", "--app", f"{tmp_path}/charging.py:app")
    assert done.code == 0
    assert f"{run_id}: Step charge#1 was never recorded" in done.err
    assert "the code comes to receive:approval#1 after it, which still waits, or goes on without that" in done.err


async def test_the_tenant_of_a_run_is_shown_where_other_commands_would_not_find_it_without(office, database):
    async with app_on(database, [asking_after_a_charge], worker=False) as app:
        await app.start(asking_after_a_charge, tenant="acme")
    async with engine(database=database, workflows=[asking_after_a_charge]) as opened:
        await opened.run_until_idle()
    everybody = await office("workflows", "check", "--app", OFFICE)
    one = await office("workflows", "check", "--app", OFFICE, "--tenant", "acme")
    assert everybody.out.splitlines()[0].split()[:3] == ["run", "tenant", "workflow"]
    assert "  acme  " in everybody.out.splitlines()[1]
    assert one.out.splitlines()[0].split()[:2] == ["run", "workflow"]


async def test_a_program_gets_it_as_json(office, database):
    run_id = await waiting_run(database, asking_after_a_charge)
    done = await office("workflows", "check", "--app", OFFICE, "-o", "json")
    assert done.code == 1
    assert (done.json["checked"], done.json["breaking"]) == (1, 1)
    none = dict.fromkeys(("fits", "added_step", "dropped_wait", "unknown_code", "not_compiled", "unreadable"), 0)
    assert done.json["verdicts"] == {"mismatch": 1, **none}
    (run,) = done.json["runs"]
    assert (run["run_id"], run["step"], run["verdict"]) == (run_id, "charge#1", "mismatch")


async def test_the_runs_of_all_tenants_are_checked_unless_one_is_named(office, database):
    async with app_on(database, [asking], worker=False) as app:
        for tenant in ("acme", "bolt"):
            await app.start(asking, tenant=tenant)
    everybody = await office("workflows", "check", "--app", OFFICE)
    one = await office("workflows", "check", "--app", OFFICE, "--tenant", "acme")
    assert [done.err.partition(" open")[0] for done in (everybody, one)] == ["2", "1"]


FRAMING = {
    "stepfast": 1,
    "workflow": "framing",
    "steps": [
        {"id": "wait", "receive": {"signal": "go"}},
        {"id": "frame", "needs": ["wait"], "use": "art.frame"},
    ],
}


async def test_a_template_that_the_app_can_no_longer_execute_ends_with_one_and_names_what_is_missing(office, client):
    client.executors.register(lambda: None, "art.frame")
    await client.register(FRAMING)
    run = await client.start("framing")
    done = await office("workflows", "check", "--app", "tests.cli.gallery:app")
    (line,) = [line for line in done.out.splitlines() if run.id in line]
    assert (done.code, "not_compiled" in line, "keep the executors that it uses" in line) == (1, True, True)
    assert "there is no executor 'art.frame'" in done.err


def pictures(value: int) -> Graph[None, None]:
    graph = Graph("pictures")
    graph.set("number", value)
    return graph


async def test_a_graph_with_other_content_than_is_registered_ends_with_one(office, client, tmp_path):
    await client.register(pictures(1))
    code = "from tests.cli.test_workflows_check import pictures\nfrom stepfast import Stepfast\n"
    (tmp_path / "changed_pictures.py").write_text(f"{code}app = Stepfast(workflows=[pictures(2)])\n")
    done = await office("workflows", "check", "--app", f"{tmp_path}/changed_pictures.py")
    assert (done.code, "its starts will be refused. Give it a new version." in done.err) == (1, True)
