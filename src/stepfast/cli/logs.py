"""The log of commands that run long: to stderr, in the form and from the level that STEPFAST_LOG names."""

from __future__ import annotations

import logging

from stepfast.log import ROOT, JsonFormatter, TextFormatter
from stepfast.setting_kinds import LogSettings


def show_log(settings: LogSettings) -> None:
    """Show the engine's log, and what the application itself logs from level info on.

    The handler sits at the root, so that an application that configures logging by itself takes it over.
    """
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if settings.form == "json" else TextFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(max(level, logging.INFO))
    logging.getLogger(ROOT).setLevel(level)
