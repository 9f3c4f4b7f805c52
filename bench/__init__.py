"""Measurements of Stepfast: `python -m bench`; beside its peers: `python -m bench.peers`."""
