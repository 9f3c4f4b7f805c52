"""Garbage collection in a process that does nothing but execute runs."""

from __future__ import annotations

import gc

# Python looks for cycles after every 700 new objects. Runs under way are thousands of objects that all live until their
# next commit, so that nearly everything would be looked at several times over, and nothing found: ended runs leave no
# cycles behind. Steps may, so it still looks, but after more objects than a worker's runs have at any moment.
THRESHOLDS = (50_000, 20, 20)


def collect_seldom() -> None:
    """Leave what was loaded so far alone for good, and look for cycles in the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
