"""Transformations: executors that make assets of assets, each use of them a run of its own."""
