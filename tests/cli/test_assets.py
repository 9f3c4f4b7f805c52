"""`stepfast assets`, and artifacts in `stepfast runs show`."""

from __future__ import annotations

from stepfast import step, storage, workflow
from tests.cli.office import checkout
from tests.support.apps import app_on


@step
async def report() -> None:
    await storage.artifact("chart.png", b"png", media_type="image/png")
    await storage.write_asset("report", await storage.read_asset("source"), tags=["made"])


@workflow
async def reporting() -> None:
    await report()


async def test_assets_are_listed_by_id_and_filter(client, office):
    for name, tags in (("b", ["x"]), ("a", ["x", "y"]), ("c", [])):
        await client.assets.put(b"content", name, tags=tags, media_type="text/plain")
    listed = await office.json("assets", "list", "--tag", "x", "--type", "text/*")
    assert [(item["id"], item["version"], item["uri"]) for item in listed["items"]] == [
        ("a", 1, "asset:a@1"),
        ("b", 1, "asset:b@1"),
    ]
    first = await office.json("assets", "list", "--limit", "2")
    rest = await office.json("assets", "list", "--cursor", first["next_cursor"])
    assert [item["id"] for item in rest["items"]] == ["c"]


async def test_assets_are_a_table_for_people(client, office):
    await client.assets.put(b"content", "a", tags=["x"])
    done = await office("assets", "list")
    assert [line.split()[:2] for line in done.out.splitlines()] == [["asset", "version"], ["a", "1"]]


async def test_no_assets_are_a_word_on_stderr(office):
    done = await office("assets", "list")
    assert (done.out, done.err.startswith("No assets")) == ("", True)


async def test_an_asset_is_another_tenant_s_secret(client, office):
    await client.assets.put(b"content", "a", tenant="acme")
    done = await office("assets", "show", "a", "--tenant", "bolt")
    assert (done.code, "E-ASSET-001: Asset 'a' not found" in done.err) == (3, True)
    assert (await office("assets", "list", "--all-tenants")).code == 2


async def test_an_asset_is_shown_with_who_made_it_and_who_read_it(database, client, office):
    await client.assets.put(b"content", "source")
    async with app_on(database, [reporting]) as app:
        run = await app.start(reporting)
        await run
        await run.rerun()
        await run
    shown = await office.json("assets", "show", "report-2")
    assert [(row["run_id"], row["generation"], row["role"], row["wanted_id"]) for row in shown["lineage"]] == [
        (run.id, 2, "write", "report")
    ]
    facts = (await office("assets", "show", "report@1")).out
    assert "report#1" in facts
    assert ["inputs", "asset:source@1"] in [line.split() for line in facts.splitlines()]
    source = await office.json("assets", "lineage", "source")
    assert [(row["generation"], row["role"]) for row in source["items"]] == [(1, "read"), (2, "read")]
    of_run = await office.json("assets", "lineage", "--run", run.id)
    assert [row["asset_id"] for row in of_run["items"]] == ["source", "report", "source", "report-2"]
    assert "report-2" in (await office("assets", "lineage", "--run", run.id)).out


async def test_lineage_is_of_an_asset_or_of_a_run(office):
    assert (await office("assets", "lineage")).code == 2


async def test_a_run_is_shown_with_its_artifacts(database, client, office):
    await client.assets.put(b"content", "source")
    async with app_on(database, [reporting]) as app:
        run = await app.start(reporting)
        await run
    assert "chart.png" in (await office("runs", "show", run.id)).out
    (artifact,) = (await office.json("runs", "show", run.id))["artifacts"]
    assert (artifact["step"], artifact["name"], artifact["media_type"]) == ("report#1", "chart.png", "image/png")


async def test_a_run_without_artifacts_says_nothing_of_them(client, office):
    run = await client.start(checkout, "order-1")
    assert "artifact" not in (await office("runs", "show", run.id)).out


async def reported_twice(database, client) -> str:
    await client.assets.put(b"content", "source")
    async with app_on(database, [reporting]) as app:
        run = await app.start(reporting)
        await run
        await run.rerun()
        await run
    return run.id


async def test_what_was_made_of_an_asset_is_a_tree(database, client, office):
    run_id = await reported_twice(database, client)
    done = await office("assets", "lineage", "source", "--downstream")
    assert done.out.splitlines() == [
        "source@1",
        f"  report@1  by report#1 of run {run_id}",
        f"  report-2@1 (wanted: report)  by report#1 of run {run_id}, generation 2",
    ]
    assert done.err == ""


async def test_what_an_asset_was_made_of_is_a_tree(database, client, office):
    run_id = await reported_twice(database, client)
    done = await office("assets", "lineage", "report-2@1", "--upstream", "--depth", "3")
    assert done.out.splitlines() == ["report-2@1", f"  source@1  by report#1 of run {run_id}, generation 2"]


async def test_a_tree_that_was_cut_says_so(database, client, office):
    await reported_twice(database, client)
    done = await office("assets", "lineage", "source", "--downstream", "--limit", "1")
    assert (len(done.out.splitlines()), "There is more" in done.err) == (2, True)


async def test_a_graph_is_json_for_programs(database, client, office):
    run_id = await reported_twice(database, client)
    told = await office.json("assets", "lineage", "report-2", "--upstream")
    assert (told["asset_id"], told["version"], told["direction"], told["is_cut"]) == ("report-2", 1, "upstream", False)
    assert told["edges"] == [
        {
            "input_id": "source",
            "input_version": 1,
            "asset_id": "report-2",
            "version": 1,
            "wanted_id": "report",
            "run_id": run_id,
            "generation": 2,
            "step": "report#1",
            "attempt": 1,
            "depth": 1,
        }
    ]


async def test_an_asset_that_nothing_was_made_of_is_a_tree_of_its_own(client, office):
    await client.assets.put(b"content", "alone")
    assert (await office("assets", "lineage", "alone", "--downstream")).out == "alone@1\n"


async def test_a_tree_starts_at_an_asset_and_depth_goes_with_a_tree(client, office):
    await client.assets.put(b"content", "alone")
    run = await client.start(checkout, "order-1")
    assert (await office("assets", "lineage", "--run", run.id, "--upstream")).code == 2
    assert (await office("assets", "lineage", "alone", "--depth", "2")).code == 2
    assert (await office("assets", "lineage", "alone", "--upstream", "--depth", "0")).code == 2


async def test_lineage_goes_one_way_at_a_time(office):
    done = await office("assets", "lineage", "alone", "--upstream", "--downstream")
    assert (done.code, "--upstream and --downstream" in done.err) == (2, True)
