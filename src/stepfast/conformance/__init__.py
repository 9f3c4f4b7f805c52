"""Suites that hold your own implementation of a port to what the engine relies on; run them with pytest.

from stepfast.conformance import BlobsConformance

class TestMyBlobs(BlobsConformance):
    @pytest.fixture
    def blobs(self):
        return MyBlobs(...)
"""

from stepfast.conformance.blobs import BlobsConformance
from stepfast.conformance.clock import ClockConformance

__all__ = ["BlobsConformance", "ClockConformance"]
