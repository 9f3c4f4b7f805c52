"""Our own assets are held to what everybody's must do."""

from __future__ import annotations

import pytest

from stepfast.conformance import AssetsConformance
from tests.assets.providers import OwnAssets


class TestAssetsInAStore(AssetsConformance):
    @pytest.fixture
    def assets(self, database, place):
        return OwnAssets(database, place)
