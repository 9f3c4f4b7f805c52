"""Providers that break one promise each: the suite of the package finds every one of them out."""

from __future__ import annotations

import itertools

import pytest

from stepfast.conformance import AssetsConformance
from tests.assets.providers import OwnAssets


class OverwritesTheNewest(OwnAssets):
    """Keeps one version of each asset."""

    async def get(self, tenant, asset_id, version=None):
        return await self._inner.get(tenant, asset_id)


class ShowsEverythingToEveryone(OwnAssets):
    async def get(self, tenant, asset_id, version=None):
        for whose in (tenant, "acme"):
            if found := await self._inner.get(whose, asset_id, version):
                return found
        return None


class PutsTwiceForAKey(OwnAssets):
    async def put(self, new, content):
        return await self._inner.put(new._replace(key=None), content)


class OverwritesWhereAFreshIdIsWanted(OwnAssets):
    async def put(self, new, content):
        return await self._inner.put(new._replace(fresh=False), content)


class ForgetsWhatIsNotSaid(OwnAssets):
    async def put(self, new, content):
        tags = () if new.tags is None else new.tags
        return await self._inner.put(new._replace(tags=tags), content)


class SortsCollections(OwnAssets):
    async def collection(self, tenant, name):
        found = await self._inner.collection(tenant, name)
        return None if found is None else sorted(found)


class CollectsWhatIsNotThere(OwnAssets):
    async def collect(self, tenant, name, ids, actor):
        there = [each for each in ids if await self._inner.get(tenant, each)]
        return await self._inner.collect(tenant, name, there, actor)


class ListsOlderVersions(OwnAssets):
    async def list(self, where):
        found = await self._inner.list(where)
        return [await self._inner.get(where.tenant, asset.id, 1) for asset in found]


class MixesIdsUp(OwnAssets):
    """As a folder on a file system that knows no capitals does."""

    async def put(self, new, content):
        return await self._inner.put(new._replace(id=new.id.lower()), content)

    async def get(self, tenant, asset_id, version=None):
        return await self._inner.get(tenant, asset_id.lower(), version)


class CountsInTheProcess(OwnAssets):
    """Looks, and puts by what it saw."""

    async def put(self, new, content):
        before = await self._inner.get(new.tenant, new.id)
        put = await self._inner.put(new, content)
        return put._replace(version=1 if before is None else before.version + 1)


TWINS = [
    (OverwritesTheNewest, "test_an_earlier_version_stays_as_it_is"),
    (ShowsEverythingToEveryone, "test_tenants_know_nothing_of_each_other"),
    (PutsTwiceForAKey, "test_a_key_answers_as_the_first_time"),
    (OverwritesWhereAFreshIdIsWanted, "test_a_taken_id_is_left_alone_where_a_fresh_one_is_wanted"),
    (ForgetsWhatIsNotSaid, "test_what_is_not_said_of_a_version_is_as_before"),
    (SortsCollections, "test_a_collection_holds_what_it_was_given_last_in_that_order"),
    (CollectsWhatIsNotThere, "test_a_collection_of_something_missing_stays_as_it_was"),
    (ListsOlderVersions, "test_a_list_goes_by_the_newest_versions"),
    (MixesIdsUp, "test_ids_are_kept_apart_whatever_they_look_like"),
    (CountsInTheProcess, "test_puts_at_once_are_versions_without_a_gap"),
]


def failures(kind, folder):
    """The tests of the suite that a kind of provider does not pass."""
    numbers = itertools.count()
    return [name for name in dir(AssetsConformance) if name.startswith("test_") and fails(kind, name, folder, numbers)]


def fails(kind, name, folder, numbers):
    try:
        getattr(AssetsConformance(), name)(kind(f"sqlite:///{folder}/{next(numbers)}.db"))
    except Exception:  # noqa: BLE001 - a broken provider may fail in any way
        return True
    return False


@pytest.mark.parametrize(("kind", "test"), TWINS, ids=[kind.__name__ for kind, _ in TWINS])
def test_a_provider_that_breaks_a_promise_does_not_pass(kind, test, tmp_path):
    assert fails(kind, test, tmp_path, itertools.count())


def test_a_provider_that_keeps_them_passes(tmp_path):
    assert failures(OwnAssets, tmp_path) == []
