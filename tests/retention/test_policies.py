"""Policies: set, read, taken back, and each change told of."""

from __future__ import annotations

import json

import pytest

from stepfast import Invalid, NotFound
from stepfast.kernel.errors import KeyReused
from tests.support.sql import fetch

DAY = 86_400_000


async def test_a_policy_is_listed_with_who_set_it_and_why(opened):
    await opened.app.retention.set("90d", tenant="acme", workflow="say", reason="the law", actor="ann")
    (policy,) = await opened.app.retention.list()
    assert policy[:5] == ("acme", "say", 90 * DAY, "ann", "the law")
    assert policy.changed_at == opened.clock.now()


async def test_a_policy_that_is_set_again_replaces_the_first(opened):
    await opened.app.retention.set("90d")
    policy = await opened.app.retention.set("forever")
    assert (policy.keep_ms, len(await opened.app.retention.list())) == (None, 1)


async def test_the_policy_of_a_workflow_is_the_most_specific_one(opened):
    await opened.app.retention.set("90d")
    await opened.app.retention.set("30d", tenant="acme")
    assert (await opened.app.retention.get("say", tenant="acme")).keep_ms == 30 * DAY
    assert (await opened.app.retention.get("say")).keep_ms == 90 * DAY


async def test_without_a_policy_there_is_none(opened):
    assert await opened.app.retention.get("say") is None


async def test_a_policy_can_be_taken_back(opened):
    await opened.app.retention.set("90d", workflow="say")
    await opened.app.retention.remove(workflow="say")
    assert await opened.app.retention.list() == []


async def test_a_policy_that_is_not_there_cannot_be_taken_back(opened):
    with pytest.raises(NotFound, match="no policy for all tenants and workflow 'say'"):
        await opened.app.retention.remove(workflow="say")


async def test_each_change_is_told_of(opened, database):
    await opened.app.retention.set("90d", workflow="say", actor="ann", reason="the law")
    await opened.app.retention.remove(workflow="say", actor="bob")
    events = "select seq, tenant, actor, data from stepfast.event where type = 'retention_changed' order by position"
    (first, *facts), (second, *others) = await fetch(database, events)
    assert (first, second, facts[:2], others[:2]) == (1, 1, ["", "ann"], ["", "bob"])
    assert json.loads(facts[2]) == {"tenant": None, "workflow": "say", "keep_ms": 90 * DAY, "reason": "the law"}
    assert json.loads(others[2]) == {"tenant": None, "workflow": "say", "removed": True}


async def test_a_change_that_is_sent_twice_with_a_key_is_one(opened, database):
    await opened.app.retention.set("90d", key="once")
    await opened.app.retention.set("30d")
    await opened.app.retention.set("90d", key="once")
    (policy,) = await opened.app.retention.list()
    assert policy.keep_ms == 30 * DAY


async def test_a_key_that_was_used_for_another_change_is_refused(opened):
    await opened.app.retention.set("90d", key="once")
    with pytest.raises(KeyReused):
        await opened.app.retention.set("30d", key="once")


@pytest.mark.parametrize("keep", ["0s", "59s", -1, "soon", None, True, float("nan"), "200000d"])
async def test_a_span_that_is_none_is_refused(opened, keep):
    with pytest.raises(Invalid, match="keep is"):
        await opened.app.retention.set(keep)


@pytest.mark.parametrize("name", ["", "\0", "x" * 1_001, 7])
async def test_a_name_that_no_tenant_can_have_is_refused(opened, name):
    with pytest.raises(Invalid):
        await opened.app.retention.set("90d", tenant=name)
