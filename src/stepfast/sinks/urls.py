"""Sinks by their URL, for those who set them outside of code: of brokers, the log, and whatever packages bring."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from stepfast.kernel.errors import Invalid
from stepfast.kernel.sinks import Sink
from stepfast.sinks.broker import unreadable
from stepfast.sinks.kafka import KafkaSink
from stepfast.sinks.log import LogSink
from stepfast.sinks.nats import NatsSink
from stepfast.sinks.redis import RedisSink
from stepfast.workflows.executors.plugins import Problem, load

GROUP = "stepfast.sinks"
SHARED = ("name", "types", "tenants", "timeout", "connect_timeout")


def sink_at(url: str) -> Sink:
    """The sink that a URL stands for; an error names what is wrong with it and never the URL itself."""
    scheme = url.partition(":")[0].lower()
    make = OURS.get(scheme) or _of_a_package(scheme)
    return make(url)


def _redis(url: str) -> Sink:
    parts, given = _read(url, "redis", (*SHARED, "stream", "per_tenant", "maxlen"))
    return RedisSink(url=parts, **given)


def _nats(url: str) -> Sink:
    address, given = _read(url, "nats", (*SHARED, "subject", "stream"))
    parts = urlsplit(address)
    access, _, hosts = parts.netloc.rpartition("@")
    entry = f"{access}@" if access else ""
    return NatsSink(servers=[f"{parts.scheme}://{entry}{host}" for host in hosts.split(",")], **given)


def _kafka(url: str) -> Sink:
    address, given = _read(url, "kafka", (*SHARED, "mechanism", "tls"))
    parts = urlsplit(address)
    topic = unquote(parts.path.strip("/"))
    if not topic:
        raise Invalid("The URL of a sink for Kafka has no topic. Write kafka://host:9092/topic.")
    access, _, hosts = parts.netloc.rpartition("@")
    user, _, password = access.partition(":")
    if access:
        given |= {"user": unquote(user), "password": unquote(password)}
    return KafkaSink(brokers=hosts.split(","), topic=topic, **given)


def _log(url: str) -> Sink:
    _, given = _read(url, "log", ("name", "types", "tenants"))
    return LogSink(**given)


OURS: dict[str, Callable[[str], Sink]] = {
    "redis": _redis,
    "rediss": _redis,
    "nats": _nats,
    "tls": _nats,
    "kafka": _kafka,
    "log": _log,
}


def _of_a_package(scheme: str) -> Callable[[str], Sink]:
    """What an installed package has under an entry point of that name: a function that makes a sink of a URL."""
    problems = list[Problem]()
    for loaded in load(GROUP, problems):
        if loaded.plugin.name == scheme:
            make: Callable[[str], Sink] = loaded.thing
            return make
    for problem in problems:
        if problem.plugin.name == scheme:
            raise Invalid(str(problem))
    known = ", ".join(f"{each}://" for each in OURS)
    raise Invalid(
        f"No sink is known for URLs that begin with {scheme[:50]!r}. Those of Stepfast are {known}; packages can bring "
        f"others by entry points of the group {GROUP}."
    )


def _read(url: str, name: str, known: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """A URL without what is ours in its query, and that as arguments; its name is by its kind unless it has one."""
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise unreadable([name], f"{name}://host?name=events") from None
    given: dict[str, Any] = {"name": name}
    for key in known:
        if key in query:
            given[key] = _value(key, query.pop(key))
    if query and name != "redis":
        raise Invalid(f"The URL of a sink has {', '.join(sorted(query))}, which is none of {', '.join(known)}.")
    return urlunsplit(parts._replace(query=urlencode(query))), given


def _value(key: str, text: str) -> Any:
    if key in ("types", "tenants"):
        return text.split(",")
    if key in ("per_tenant", "tls"):
        if text not in ("true", "false"):
            raise Invalid(f"{key} in the URL of a sink is {text[:50]!r}; it is true or false.")
        return text == "true"
    if key == "maxlen":
        if not text.isdecimal():
            raise Invalid(f"{key} in the URL of a sink is {text[:50]!r}; it is a whole number.")
        return int(text)
    return text
