"""Entry point of the `stepfast` command: signals first, everything else after."""

from __future__ import annotations

import sys

from stepfast.cli.signals import SIGNALS


def main() -> int:
    """Run the command line; what it returns is the exit code."""
    # A worker may be told to leave while it is still importing, and that takes the longest.
    if sys.argv[1:2] == ["worker"]:
        SIGNALS.install()
    from stepfast.cli.commands import run

    return run()


if __name__ == "__main__":
    sys.exit(main())
