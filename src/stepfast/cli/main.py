"""Entry point of the `stepfast` command: signals first, everything else after."""

from __future__ import annotations

import sys

from stepfast.cli.signals import SIGNALS, take_sigterm_for_ctrl_c


def main() -> int:
    """Run the command line; what it returns is the exit code."""
    # A worker may be told to leave while it is still importing, and that takes the longest.
    if sys.argv[1:2] == ["worker"]:
        SIGNALS.install()
    else:
        take_sigterm_for_ctrl_c()
    from stepfast.cli.streams import open_missing

    # Before anything else is opened: it would take the place of a stream that is closed.
    open_missing()
    from stepfast.cli.commands import run

    try:
        return run()
    except SystemExit as leaving:
        _leave_without_the_threads(leaving)
        raise


def _leave_without_the_threads(leaving: SystemExit) -> None:
    """A step that was cut off in its thread must not keep the command from ending."""
    import threading

    if threading.active_count() > 1:
        from stepfast.cli.leaving import leave_soon

        leave_soon(leaving.code if isinstance(leaving.code, int) else 0)


if __name__ == "__main__":
    sys.exit(main())
