"""`from stepfast import durable`: time, chance and ids that are the same on every replay of a run."""

from stepfast.workflows.deterministic import log, now, random, uuid

__all__ = ["log", "now", "random", "uuid"]
