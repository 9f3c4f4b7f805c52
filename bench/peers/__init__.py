"""Stepfast beside its peers: the same work, in the same run, in turn."""
