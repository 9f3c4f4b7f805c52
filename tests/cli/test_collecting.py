"""A process that does nothing but execute runs looks for garbage less often, and never in what it has loaded."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc
from stepfast.cli.collecting import collect_seldom
collect_seldom()
print(gc.isenabled(), gc.get_freeze_count() > 1_000, gc.get_threshold()[0] > 700)
class Knot: pass
knot = Knot(); knot.itself = knot; del knot
print(gc.collect() >= 1)
"""


def test_what_is_loaded_is_left_alone_and_new_cycles_are_still_found() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4
