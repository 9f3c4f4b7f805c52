"""Our own stores, held to the suite that the package offers; here it looks into their rows as well."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import apsw
import pytest

from stepfast.conformance import StoreConformance
from stepfast.stores.grants import RoleKind
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.urls import store_for
from tests.stores import postgres
from tests.stores.harness import TABLES
from tests.support.roles import granted


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path):
        self.path = tmp_path / "stepfast.db"
        return lambda clock: store_for(f"sqlite:///{self.path}", clock)

    async def rows(self, store):
        connection = apsw.Connection(str(self.path))
        try:
            return {table: sorted(map(str, connection.execute(f"select * from {table}"))) for table in TABLES}
        finally:
            connection.close()


class TestPostgresStore(StoreConformance):
    """By a role that was let in and does not own the schema: it can do all that is asked of a store."""

    @pytest.fixture
    async def make_store(self, migrated_postgres_url):
        self.url = migrated_postgres_url
        async with granted(migrated_postgres_url, RoleKind.ENGINE) as url:
            yield lambda clock: PostgresStore(url)

    async def set_clock(self, store, moment):
        await postgres.set_clock(self.url, moment)
        async with postgres.asking(self.url) as connection:
            await connection.execute("grant select on stepfast.test_clock to public")

    async def rows(self, store):
        async with postgres.asking(self.url) as connection:
            return {
                table: sorted(map(str, await connection.fetch(f"select * from stepfast.{table}"))) for table in TABLES
            }


def test_no_part_of_the_suite_hides_a_test_of_another():
    names = [name for part in StoreConformance.__bases__ for name in vars(part) if name.startswith("test_")]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_the_suites_can_be_had_without_pytest():
    """It is for those who test, and no part of what is installed with the package."""
    without = "import sys; sys.modules['pytest'] = None; import stepfast.conformance"
    subprocess.run([sys.executable, "-c", without], check=True)
