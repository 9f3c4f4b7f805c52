"""What you may bring yourself: the ports of the engine, and the data that passes through them."""

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, Blobs, check_key
from stepfast.kernel.ports import Clock, Store

__all__ = ["BlobFilter", "BlobInfo", "BlobKey", "Blobs", "Clock", "Store", "check_key"]
