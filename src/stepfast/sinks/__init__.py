"""Where events go: sinks that come along, and what a sink of one's own is made of."""

from __future__ import annotations

from stepfast.kernel.sinks import Sink
from stepfast.kernel.views import EventView
from stepfast.sinks.callback import CallbackSink
from stepfast.sinks.filtered import FilteredSink
from stepfast.sinks.log import LogSink
from stepfast.sinks.webhook import WebhookSink

__all__ = ["CallbackSink", "EventView", "FilteredSink", "LogSink", "Sink", "WebhookSink"]
