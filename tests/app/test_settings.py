"""Settings that the app itself goes by."""

from __future__ import annotations

from stepfast import Start, Stepfast
from tests.support.apps import app_on
from tests.support.workflows import say


async def test_runs_belong_to_the_tenant_of_the_settings(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TENANT", "acme")
    async with app_on(database, [say], worker=False) as client:
        await client.start(say, "a")
        await client.start_many([Start(say, "b"), Start(say, "c", tenant=None), Start(say, "d", tenant="globex")])
        assert sorted(view.tenant for view in await client.runs()) == ["acme", "acme", "acme", "globex"]


async def test_without_a_setting_the_tenant_is_default(database):
    async with app_on(database, [say], worker=False) as client:
        assert (await (await client.start(say, "a")).info()).tenant == "default"


def test_an_app_knows_what_its_installation_is_for(monkeypatch):
    assert Stepfast().environment == "development"
    monkeypatch.setenv("STEPFAST_ENV", "production")
    assert Stepfast().environment == "production"
