"""For tests of workflows: an engine in the test's hands, virtual time, crashes at every point, recordings."""

from stepfast.testing.clock import VirtualClock
from stepfast.testing.crashes import CrashPoint, ProcessDied
from stepfast.testing.engine import Engine
from stepfast.testing.enumeration import CrashPoints, crash_points
from stepfast.testing.opening import BlockingEngine, crash_after, engine
from stepfast.testing.recordings import Recording, record, replay
from stepfast.testing.single import run_step
from stepfast.testing.sinks import CollectingSink
from stepfast.testing.worker import Stuck
from stepfast.workflows.fitting import Fit, Verdict

__all__ = [
    "BlockingEngine",
    "CollectingSink",
    "CrashPoint",
    "CrashPoints",
    "Engine",
    "Fit",
    "ProcessDied",
    "Recording",
    "Stuck",
    "Verdict",
    "VirtualClock",
    "crash_after",
    "crash_points",
    "engine",
    "record",
    "replay",
    "run_step",
]
