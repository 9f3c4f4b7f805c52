"""Where events go: sinks that come along, and what a sink of one's own is made of."""

from __future__ import annotations

from stepfast.kernel.errors import SinkAway
from stepfast.kernel.sinks import Sink
from stepfast.kernel.views import EventView
from stepfast.sinks.callback import CallbackSink
from stepfast.sinks.filtered import FilteredSink
from stepfast.sinks.kafka import KafkaSink
from stepfast.sinks.log import LogSink
from stepfast.sinks.nats import NatsSink
from stepfast.sinks.openlineage import OpenLineageSink
from stepfast.sinks.redis import RedisSink
from stepfast.sinks.webhook import WebhookSink

__all__ = [
    "CallbackSink",
    "EventView",
    "FilteredSink",
    "KafkaSink",
    "LogSink",
    "NatsSink",
    "OpenLineageSink",
    "RedisSink",
    "Sink",
    "SinkAway",
    "WebhookSink",
]
