"""Secrets are in their place and nowhere else: not in the database, the log, events, exports, errors or output."""

from __future__ import annotations

import base64
import io
import logging
import traceback
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from stepfast import StepfastError, step
from stepfast.engine.publishing import Publisher
from stepfast.kernel.sinks import Backoff
from stepfast.kernel.views import EventView
from stepfast.sinks import CallbackSink, LogSink, RedisSink, WebhookSink
from stepfast.sinks.filtered import FilteredSink
from stepfast.sinks.nats import NatsSink
from stepfast.testing import Engine, engine, run_step
from stepfast.tokens import Secret
from stepfast.workflows.executors.allowed import Allowed
from tests.cli.invoking import invoke
from tests.support.dumps import dump
from tests.support.tour import WORKFLOWS, Toured, tour

TOKEN_KEY, SEAL_KEY, WEBHOOK = (bytes([97 + number]) * 32 for number in range(3))
PASSWORD, BROKER = "letmein-database", "letmein-broker"
NOWHERE = "127.0.0.1:9"

Places = dict[str, bytes]


def as_set(key: bytes) -> str:
    """A key as an operator sets it."""
    return f"1:{base64.b64encode(key).decode()}"


def hook() -> WebhookSink:
    secret = f"whsec_{base64.b64encode(WEBHOOK).decode()}"
    return WebhookSink("hook", f"http://{NOWHERE}/events", secret, allowed=Allowed(networks=("127.0.0.0/8",)))


def sinks() -> list[Any]:
    """Sinks with something to hide, none of which gets through."""
    return [
        hook(),
        RedisSink("redis", f"redis://ann:{BROKER}@{NOWHERE}/0", connect_timeout="1s"),
        NatsSink("nats", f"nats://ann:{BROKER}@{NOWHERE}", connect_timeout="1s"),
    ]


def secrets_of(toured: Toured) -> dict[str, bytes]:
    """Whatever must not be found, by what it is."""
    keys = {"token key": TOKEN_KEY, "seal key": SEAL_KEY, "webhook secret": WEBHOOK}
    found = dict(keys)
    found |= {f"{name} as text": base64.b64encode(key).rstrip(b"=") for name, key in keys.items()}
    found |= {"password of the database": PASSWORD.encode(), "password of a broker": BROKER.encode()}
    found |= {"open resume token": toured.token.encode(), "open callback token": toured.callback.encode()}
    found |= {f"used token {number}": token.encode() for number, token in enumerate(toured.used)}
    # A token says where it belongs; what makes it one is its end.
    return found | {f"end of {name}": text[-20:] for name, text in found.items() if "token" in name and len(text) > 60}


def spilled(places: Places, secrets: dict[str, bytes]) -> list[str]:
    """Where which secret was found."""
    return [
        f"{name} in {place}" for place, text in places.items() for name, secret in secrets.items() if secret in text
    ]


class Log(logging.Handler):
    """Everything that is logged at any level, with all that hangs on it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.text = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        self.text.write(f"{record.getMessage()} {record.__dict__}\n")
        if record.exc_info:
            self.text.write("".join(traceback.format_exception(*record.exc_info)))


@pytest.fixture
def log():
    handler, logger = Log(), logging.getLogger("stepfast")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


@pytest.fixture
def guarded(database, tmp_path, monkeypatch):
    """The address of a database, with a password where it can have one, and keys in the environment."""
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", as_set(TOKEN_KEY))
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", as_set(SEAL_KEY))
    monkeypatch.setenv("STEPFAST_SEAL_FILE", str(tmp_path / "seals.jsonl"))
    return database.replace("postgres:@", f"postgres:{PASSWORD}@")


async def told(call: Awaitable[Any]) -> str:
    """What somebody is told who errs, with all that a traceback has."""
    try:
        return repr(await call)
    except StepfastError as error:
        return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


async def seen(
    opened: Engine, toured: Toured, database: str, url: str, files: Path, log: Log, more: list[Any]
) -> Places:
    """Everything that the engine has left anywhere, by place."""
    app, heard = opened.app, list[EventView]()
    publishers = [
        Publisher(app.parts.store, opened.clock, sink, "me", Backoff(tries=2), from_start=True)
        for sink in (CallbackSink("heard", heard.append), LogSink("log"), *sinks(), *more)
    ]
    for _ in range(3):
        for publisher in publishers:
            await publisher.make_pass()
        opened.clock.advance("1h")
    await app.audit.seal()
    places: Places = {"events": str(heard).encode()}
    places["export"] = "".join([line async for line in app.audit.export()]).encode()
    places["report"] = (await app.audit.report(toured.runs["sold"].id)).encode()
    for name, run in toured.runs.items():
        places[f"run {name}"] = str([await run.info(), await run.steps(), await run.history()]).encode()
    places["lists"] = str(
        [await app.reviews.list(state=None), await app.exceptions.list(), await app.sinks.list(), app]
    ).encode()
    places["letters"] = str([await app.sinks.letters(each.name) for each in await app.sinks.list()]).encode()
    places |= {f"error {n}": text.encode() for n, text in enumerate(await errors(app, toured))}
    for command in COMMANDS:
        given = [part.format(run=toured.runs["asked"].id, review=toured.open_review) for part in command]
        done = await invoke(*given, "--database", url)
        places[f"output of {command[0]} {command[1]}"] = (done.out + done.err).encode()
    places |= {f"file {path.name}": path.read_bytes() for path in files.rglob("*") if path.is_file()}
    return places | await dump(database) | {"log": log.text.getvalue().encode()}


COMMANDS = [
    ("doctor", "--output", "json"),
    ("runs", "show", "{run}", "-o", "json"),
    ("runs", "events", "{run}", "-o", "json"),
    ("reviews", "show", "{review}", "-o", "json"),
    ("sinks", "list", "-o", "json"),
    ("sinks", "show", "hook", "-o", "json"),
    ("audit", "verify"),
    ("audit", "export"),
]


async def errors(app: Any, toured: Toured) -> list[str]:
    """What people are told who use what they should not, or use it wrongly."""
    return [
        await told(app.reviews.resume(toured.used[0], "continue")),
        await told(app.reviews.resume(toured.token, "sing")),
        await told(app.reviews.resume(toured.token, "continue", tenant="other")),
        await told(app.callbacks.complete(toured.used[-1], 1)),
        await told(app.callbacks.complete(toured.callback, object())),
        await told(app.callbacks.fail(toured.callback, "no", tenant="other")),
    ]


async def everything(guarded: str, database: str, files: Path, log: Log, *more: Any) -> list[str]:
    """Drive every feature, and look everywhere."""
    async with engine(database=guarded, workflows=WORKFLOWS) as opened:
        toured = await tour(opened, "default", "walnut")
        places = await seen(opened, toured, database, guarded, files, log, list(more))
        return spilled(places, secrets_of(toured))


@pytest.fixture
def files(tmp_path):
    return tmp_path


async def test_no_secret_is_found_anywhere_after_everything_was_used(guarded, database, files, log):
    assert await everything(guarded, database, files, log) == []


async def test_the_broken_twin_that_stores_tokens_as_they_are_is_found_out(guarded, database, files, log, monkeypatch):
    monkeypatch.setattr(Secret, "hash_of", lambda self, text: text._content.decode())
    found = await everything(guarded, database, files, log)
    assert any(each.startswith("open resume token in") for each in found)


async def test_the_broken_twin_whose_sink_tells_its_secret_is_found_out(guarded, database, files, log):
    class Talkative(FilteredSink):
        async def deliver(self, events):
            raise ConnectionError(f"{BROKER} does not let me in")

    found = await everything(guarded, database, files, log, Talkative("talkative"))
    assert "password of a broker in lists" in found


SETTINGS = {
    "token keys": ("STEPFAST_TOKEN_KEYS", "1:letmein!"),
    "seal keys": ("STEPFAST_SEAL_KEYS", "1:letmein!"),
    "a database's address": ("STEPFAST_DATABASE_URL", "postgres://ann:letmein!@127.0.0.1:9/x?sslmode=perhaps"),
    "a database that is away": ("STEPFAST_DATABASE_URL", "postgresql://ann:letmein!@127.0.0.1:9/x"),
    "a database of no kind": ("STEPFAST_DATABASE_URL", "oracle://ann:letmein!@127.0.0.1:9/x"),
}


@pytest.mark.parametrize(("name", "value"), SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("command", [("doctor",), ("runs", "list"), ("audit", "verify")], ids=" ".join)
async def test_a_setting_that_is_wrong_is_told_without_its_secret(name, value, command, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPFAST_DATABASE_URL", f"sqlite:///{tmp_path}/app.db")
    monkeypatch.setenv(name, value)
    done = await invoke(*command)
    assert "letmein" not in done.out + done.err


async def test_a_secret_of_pydantic_is_refused_and_not_shown():
    @step
    async def log_in(password: SecretStr) -> None: ...

    refused = await told(run_step(log_in, SecretStr("letmein!")))
    assert "Use a reference to the secret instead" in refused
    assert "letmein" not in refused


@pytest.mark.parametrize("secret", ["letmein!", "whsec_letmein!", "whsec_" + base64.b64encode(b"letmein").decode()])
def test_a_wrong_secret_of_a_webhook_is_refused_and_not_shown(secret):
    with pytest.raises(StepfastError) as refused:
        WebhookSink("hook", "https://example.com", secret)
    assert secret not in str(refused.value)


@pytest.mark.parametrize("sink", sinks(), ids=lambda sink: sink.name)
def test_a_sink_does_not_show_its_secret(sink):
    shown = f"{sink!r} {sink}"
    assert BROKER not in shown
    assert base64.b64encode(WEBHOOK).decode() not in shown
