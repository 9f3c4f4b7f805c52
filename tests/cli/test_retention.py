"""`stepfast retention` and `stepfast runs prune`: policies by hand, and runs that go by them."""

from __future__ import annotations

import pytest

from tests.cli.office import checkout


@pytest.fixture
async def run(client):
    """A run that has been called off, which is an end as any other."""
    run = await client.start(checkout, "order-1")
    await run.cancel()
    return run


async def test_a_policy_is_set_listed_and_removed(office):
    policy = await office.json(
        "retention", "set", "90d", "--workflow", "checkout", "--reason", "the law", "--actor", "ann"
    )
    assert (policy["tenant"], policy["workflow"], policy["keep_ms"]) == ("default", "checkout", 90 * 86_400_000)
    listed = await office("retention", "list")
    assert listed.out.splitlines()[1].split()[:4] == ["default", "checkout", "90d", "ann"]
    assert (await office("retention", "remove", "--workflow", "checkout")).code == 0
    assert (await office("retention", "list")).err == "There is no policy: runs are kept for ever.\n"


async def test_a_policy_for_all_tenants_is_seen_by_each_and_that_of_another_is_not(office):
    await office("retention", "set", "forever", "--all-tenants")
    await office("retention", "set", "30d", "--tenant", "other")
    listed = await office.json("retention", "list")
    assert [(item["tenant"], item["keep_ms"]) for item in listed["items"]] == [(None, None)]
    assert len((await office.json("retention", "list", "--all-tenants"))["items"]) == 2


@pytest.mark.parametrize("keep", ["soon", "-1d", "0s", ""])
async def test_a_span_that_is_none_is_refused(office, keep):
    assert (await office("retention", "set", "--", keep)).code != 0


async def test_a_policy_that_is_not_there_is_named(office):
    done = await office("retention", "remove", "--workflow", "nose")
    assert (done.code, "workflow 'nose'" in done.err) == (3, True)


async def test_a_dry_run_tells_what_would_go(office, run, client):
    told = await office.json("runs", "prune", "--older-than", "0s", "--dry-run")
    assert (told["dry_run"], told["runs"], told["counts"][0]["workflow"]) == (True, 1, "checkout")
    done = await office("runs", "prune", "--older-than", "0s", "--dry-run")
    assert done.out.splitlines()[1].split()[:4] == ["default", "checkout", "1", "1"]
    assert done.err == "1 run would go.\n"
    assert len(await client.runs()) == 1


async def test_runs_go_by_age_and_workflow(office, run, client):
    assert (await office.json("runs", "prune", "--older-than", "0s", "--workflow", "other"))["runs"] == 0
    assert (await office.json("runs", "prune", "--older-than", "0s", "--tenant", "other"))["runs"] == 0
    assert (await office.json("runs", "prune", "--older-than", "0s", "--limit", "5"))["runs"] == 1
    assert await client.runs() == []


async def test_without_an_age_runs_go_by_the_policies_alone(office, run):
    assert (await office.json("runs", "prune"))["runs"] == 0


async def test_runs_that_a_policy_keeps_longer_than_was_asked_for_are_told_of(office, run):
    await office("retention", "set", "90d")
    assert (await office.json("runs", "prune", "--older-than", "0s", "--dry-run"))["held"] == {"kept": 1}
    done = await office("runs", "prune", "--older-than", "0s")
    assert done.err == "0 runs are gone.\n1 family stays: kept, by a policy (`stepfast retention list`).\n"
    assert (await office.json("runs", "prune"))["held"] == {}


async def test_runs_that_are_kept_for_ever_are_told_of_too(office, run):
    await office("retention", "set", "forever", "--workflow", "checkout")
    assert (await office.json("runs", "prune", "--older-than", "0s"))["held"] == {"kept": 1}
    assert (await office.json("runs", "prune", "--older-than", "1d"))["held"] == {}
