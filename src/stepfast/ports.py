"""What you may bring yourself: the ports of the engine, and the data that passes through them."""

from stepfast.engine.clock import SystemClock
from stepfast.kernel.asset_ports import Assets
from stepfast.kernel.assets import AssetFilter, AssetView, MadeBy, NewAsset
from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, Blobs, check_key
from stepfast.kernel.ports import Clock, Store

__all__ = [
    "AssetFilter",
    "AssetView",
    "Assets",
    "BlobFilter",
    "BlobInfo",
    "BlobKey",
    "Blobs",
    "Clock",
    "MadeBy",
    "NewAsset",
    "Store",
    "SystemClock",
    "check_key",
]
