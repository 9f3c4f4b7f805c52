"""For tests of workflows: a clock that moves only when it is told to."""

from stepfast.testing.clock import VirtualClock

__all__ = ["VirtualClock"]
