"""`from stepfast import storage`: what the body of a step keeps for itself and for people, and the assets it makes."""

from stepfast.workflows.storage import (
    artifact,
    delete,
    exists,
    load,
    names,
    read_asset,
    save,
    write_asset,
)

list = names

__all__ = ["artifact", "delete", "exists", "list", "load", "read_asset", "save", "write_asset"]
