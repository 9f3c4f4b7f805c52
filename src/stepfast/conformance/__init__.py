"""Suites that hold your own implementation of a port to what the engine relies on; run them with pytest.

from stepfast.conformance import BlobsConformance, StoreConformance

class TestMyBlobs(BlobsConformance):
    @pytest.fixture
    def blobs(self):
        return MyBlobs(...)

class TestMyStore(StoreConformance):
    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda clock: MyStore(tmp_path, clock)
"""

from stepfast.conformance.assets import AssetsConformance
from stepfast.conformance.blobs import BlobsConformance
from stepfast.conformance.clock import ClockConformance
from stepfast.conformance.sinks import SinkConformance
from stepfast.conformance.store import StoreConformance

__all__ = ["AssetsConformance", "BlobsConformance", "ClockConformance", "SinkConformance", "StoreConformance"]
