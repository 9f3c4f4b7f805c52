"""What one tenant has is, for another, as if it did not exist: through every public method, by every kind of name.

Each method is asked twice as a tenant that owns little: for what another tenant has, and for what nobody has. The
answers must be the same, and must not hold a word of the other tenant.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from typing import Any, NamedTuple

import pytest

from stepfast import Run, RunFailed, Start, Stepfast, StepfastError, TokenForeign
from stepfast.doors import Doors
from stepfast.engine.publishing import Publisher
from stepfast.kernel.blobs import reference_to
from stepfast.kernel.causes import group_id
from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import CallbackForeign
from stepfast.kernel.ports import Store
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.sinks import Backoff
from stepfast.sinks import CallbackSink
from stepfast.testing import Engine, engine
from tests.support.asking import KEYS
from tests.support.tour import WORKFLOWS, Toured, repeating, tour

OWNER, STRANGER = "walnut-farm", "stranger"
WORD = "walnut"


class Names(NamedTuple):
    """Everything that a tenant's things are called by."""

    run_id: str
    failed: str
    review: str
    item: str
    token: str
    callback: str
    asset: str
    document: str
    collection: str
    key: str
    word: str
    correlation: str
    plan: str
    position: int
    artifact: Any
    group: str


class Asking(NamedTuple):
    """A stranger with names, and a run of its own."""

    app: Stepfast
    names: Names
    own: Run[Any]

    @property
    def run(self) -> Run[Any]:
        return self.app.get(self.names.run_id, tenant=STRANGER)

    @property
    def failed(self) -> Run[Any]:
        return self.app.get(self.names.failed, tenant=STRANGER)


def beside(run_id: str) -> str:
    """The id of no run, which sorts where another does."""
    return run_id[:-6] + ("000000" if run_id[-6:] != "000000" else "111111")


def unknown(names: Names) -> Names:
    """The same kinds of names, of nothing that anybody has."""
    run_id, failed = beside(names.run_id), beside(names.failed)
    return Names(
        run_id=run_id,
        failed=failed,
        review=f"{beside(names.review.partition('.')[0])}.{names.review.partition('.')[2]}",
        item=f"{beside(names.item.partition('.')[0])}.{names.item.partition('.')[2]}",
        token=names.token,
        callback=names.callback,
        asset="asset-nobody",
        document="document-nobody",
        collection="collection-nobody",
        key="key-nobody",
        word="nobody",
        correlation="case-nobody",
        plan="plan-nobody",
        position=names.position,
        artifact=names.artifact._replace(digest=reference_to(b"nobody").digest),
        group=group_id(ItemKind.FAILED, "nobody", "nobody"),
    )


async def names_of(opened: Engine, toured: Toured) -> Names:
    sold, failed = toured.runs["sold"], toured.runs["failed"]
    (receipt, *_) = await sold.artifacts(all=True)
    (group, *_) = await opened.app.dead_letters.groups(tenant=OWNER)
    return Names(
        *(sold.id, failed.id, toured.open_review, toured.item, toured.token, toured.callback, toured.asset),
        document=f"document-{WORD}",
        collection=f"collection-{WORD}",
        key=f"key-{WORD}",
        word=WORD,
        correlation=f"case-{WORD}",
        plan=f"plan-{WORD}",
        position=(await sold.history())[-1].position,
        artifact=receipt,
        group=group.id,
    )


T: dict[str, Any] = {"tenant": STRANGER}


def reference(a: Asking) -> str:
    """What a row holds of content that is kept elsewhere."""
    return str(a.names.artifact.reference.text)


Case = Callable[[Asking], Any]

CASES: dict[str, Case] = {
    "app.change_many": lambda a: a.app.change_many("cancel", {**T, "subject": a.names.word}),
    "app.change_pages": lambda a: a.app.change_pages("rerun", {**T, "correlation_id": a.names.correlation}),
    "app.check": lambda a: a.app.check(STRANGER),
    "app.get": lambda a: a.app.get(a.names.run_id, tenant=STRANGER).info(),
    "app.register": lambda a: a.app.register({"stepfast": 1, "workflow": a.names.plan, "version": 1, "steps": []}, **T),
    "app.runs": lambda a: pages_of_runs(a),
    "app.start": lambda a: a.app.start(repeating, "own", key=a.names.key, **T),
    "app.start_many": lambda a: a.app.start_many(
        [Start(a.names.plan, **T), Start(repeating, "own", key=a.names.key, **T)]
    ),
    "app.startable": lambda a: a.app.startable(a.names.plan, STRANGER),
    "run.annotate": lambda a: a.run.annotate("seen", 1, key=f"note-{a.names.word}"),
    "run.annotations": lambda a: a.run.annotations(),
    "run.artifact": lambda a: both(a.run.artifact("receipt"), a.own.artifact(a.names.artifact)),
    "run.artifacts": lambda a: a.run.artifacts(all=True),
    "run.cancel": lambda a: a.run.cancel(key=f"cancel-{a.names.word}"),
    "run.at": lambda a: a.run.at(1),
    "run.execute": lambda a: a.run.execute(),
    "run.history": lambda a: a.run.history(),
    "run.info": lambda a: a.run.info(),
    "run.pause": lambda a: a.run.pause(key=f"pause-{a.names.word}"),
    "run.read": lambda a: both(a.run.read(reference(a)), a.own.read(reference(a))),
    "run.reconstruct": lambda a: a.run.reconstruct(),
    "run.rerun": lambda a: a.run.rerun("shaky"),
    "run.result": lambda a: a.run.result(timeout="10ms"),
    "run.resume": lambda a: a.run.resume(),
    "run.retry": lambda a: a.failed.retry(),
    "run.rollback": lambda a: both(a.run.rollback("charge"), a.run.rollback(3)),
    "run.signal": lambda a: a.run.signal("go", 1, key=f"signal-{a.names.word}"),
    "run.skip": lambda a: a.run.skip("charge", 1),
    "run.steps": lambda a: a.run.steps(),
    "run.why": lambda a: a.run.why(),
    "annotations.list": lambda a: both(
        a.app.annotations.list("quality", value=a.names.word, **T),
        a.app.annotations.list(run_id=a.names.run_id, **T),
        a.app.annotations.list(cursor=a.names.position, **T),
    ),
    "assets.collect": lambda a: a.app.assets.collect("mine", [a.names.asset], **T),
    "assets.collection": lambda a: a.app.assets.collection(a.names.collection, **T),
    "assets.downstream": lambda a: a.app.assets.downstream(a.names.asset, **T),
    "assets.get": lambda a: both(a.app.assets.get(a.names.asset, **T), a.app.assets.get(a.names.document, 1, **T)),
    "assets.lineage": lambda a: both(
        a.app.assets.lineage(a.names.document, **T), a.app.assets.lineage(run_id=a.names.run_id, **T)
    ),
    "assets.list": lambda a: both(a.app.assets.list(**T), a.app.assets.list(tag=a.names.word, **T)),
    "assets.put": lambda a: a.app.assets.put("own", "own", made_by=(a.names.run_id, "charge#1"), **T),
    "assets.read": lambda a: a.app.assets.read(a.names.asset, **T),
    "assets.upstream": lambda a: a.app.assets.upstream(a.names.document, **T),
    "audit.export": lambda a: both(
        events_of(a.app.audit.export(**T)), events_of(a.app.audit.export(run_id=a.names.run_id, **T))
    ),
    "audit.get": lambda a: a.app.audit.get(a.names.position, **T),
    "audit.list": lambda a: both(
        a.app.audit.list(**T),
        a.app.audit.list(run_id=a.names.run_id, **T),
        a.app.audit.list(actor=a.names.word, correlation_id=a.names.run_id, cursor=a.names.position + 1, **T),
    ),
    "audit.report": lambda a: a.app.audit.report(a.names.run_id, **T),
    "dead_letters.discard": lambda a: a.app.dead_letters.discard(a.names.failed, **T),
    "dead_letters.discard_many": lambda a: a.app.dead_letters.discard_many(workflow="failing", **T),
    "dead_letters.discard_pages": lambda a: a.app.dead_letters.discard_pages(group=a.names.group, **T),
    "dead_letters.get": lambda a: a.app.dead_letters.get(a.names.failed, **T),
    "dead_letters.groups": lambda a: a.app.dead_letters.groups(**T),
    "dead_letters.list": lambda a: both(
        a.app.dead_letters.list(resolved=True, **T), a.app.dead_letters.list(cursor=a.names.failed, **T)
    ),
    "dead_letters.replay": lambda a: a.app.dead_letters.replay(a.names.failed, **T),
    "dead_letters.replay_many": lambda a: a.app.dead_letters.replay_many(**T),
    "dead_letters.replay_pages": lambda a: a.app.dead_letters.replay_pages(group=a.names.group, **T),
    "exceptions.assign": lambda a: a.app.exceptions.assign(a.names.item, "me", **T),
    "exceptions.comment": lambda a: a.app.exceptions.comment(a.names.item, "mine", **T),
    "exceptions.count": lambda a: a.app.exceptions.count(resolved=True, **T),
    "exceptions.get": lambda a: a.app.exceptions.get(a.names.item, **T),
    "exceptions.groups": lambda a: a.app.exceptions.groups(**T),
    "exceptions.list": lambda a: both(
        a.app.exceptions.list(resolved=True, **T), a.app.exceptions.list(run_id=a.names.failed, **T)
    ),
    "exceptions.resolve": lambda a: a.app.exceptions.resolve(a.names.item, **T),
    "retention.prune": lambda a: a.app.retention.prune(older_than="1ms", dry_run=True, **T),
    "reviews.check": lambda a: a.app.reviews.check(**T),
    "reviews.comment": lambda a: a.app.reviews.comment(a.names.review, "mine", **T),
    "reviews.decide": lambda a: a.app.reviews.decide(a.names.review, "continue", **T),
    "reviews.delegate": lambda a: a.app.reviews.delegate(a.names.review, "me", actor="ben", **T),
    "reviews.get": lambda a: a.app.reviews.get(a.names.review, **T),
    "reviews.issue_token": lambda a: a.app.reviews.issue_token(a.names.review, actor="me", **T),
    "reviews.list": lambda a: both(
        a.app.reviews.list(state=None, **T), a.app.reviews.list(run_id=a.names.review.partition(".")[0], **T)
    ),
    "reviews.reassign": lambda a: a.app.reviews.reassign(a.names.review, "me", **T),
    "reviews.stats": lambda a: a.app.reviews.stats(**T),
    "transformations.list": lambda a: both(
        a.app.transformations.list(run_id=a.names.run_id, **T), a.app.transformations.list(asset=a.names.asset, **T)
    ),
    "workflows.get": lambda a: a.app.workflows.get(a.names.plan, **T),
    "workflows.list": lambda a: a.app.workflows.list(a.names.plan, **T),
    "workflows.register": lambda a: a.app.workflows.register(
        {"stepfast": 1, "workflow": a.names.plan, "version": 2, "steps": []}, **T
    ),
}

# Who has a token has been given it by its tenant: it is told to be foreign, and not that there is no such thing.
BY_TOKEN: dict[str, Case] = {
    "reviews.resume": lambda a: a.app.reviews.resume(a.names.token, "continue", **T),
    "callbacks.complete": lambda a: a.app.callbacks.complete(a.names.callback, 1, **T),
    "callbacks.fail": lambda a: a.app.callbacks.fail(a.names.callback, "mine", **T),
    "callbacks.progress": lambda a: a.app.callbacks.progress(a.names.callback, 1, **T),
}

# What belongs to whoever runs the engine, and to no tenant.
OF_OPERATORS = {
    *("app." + name for name in ("as_client", "close", "codes", "definition", "definitions", "findings", "now", "on")),
    *("app." + name for name in ("open", "retire_worker", "serverless", "worker", "workflow_named")),
    *("audit." + name for name in ("seal", "status", "verify", "verify_lines")),
    *("executors." + name for name in ("domain", "get", "health", "list", "plugins", "register", "unregister")),
    *("queues." + name for name in ("backlog", "get", "list")),
    *("retention." + name for name in ("get", "list", "remove", "set")),
    *("sinks." + name for name in ("add", "get", "held", "letters", "list", "remove", "replay")),
    *("workers." + name for name in ("get", "list")),
}

# Parts of an app that people have no business with.
INSIDE = {"compiler", "token_keys"}


def methods(app: Stepfast) -> set[str]:
    """Every public method of an app, of a run, and of what an app has by name."""
    doors = {"app": Stepfast, "run": Run}
    doors |= {
        name: type(getattr(app, name))
        for name in {*vars(app), *(name for name, member in vars(Doors).items() if isinstance(member, cached_property))}
        if not name.startswith("_")
        and name not in INSIDE
        and type(getattr(app, name)).__module__.startswith("stepfast")
    }
    return {
        f"{door}.{name}"
        for door, kind in doors.items()
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and callable(member)
    }


async def both(*asked: Any) -> list[Any]:
    return [await outcome(each) for each in asked]


async def pages_of_runs(a: Asking) -> list[Any]:
    filters: list[dict[str, Any]] = [
        {"subject": a.names.word},
        {"tag": a.names.word},
        {"thread_id": a.names.word},
        {"correlation_id": a.names.correlation},
        {"actor": "ann"},
        {"state": "failed"},
    ]
    found = [await a.app.runs(**T, **each) for each in filters]
    return [*found, await a.app.runs("selling", cursor=a.names.run_id, **T)]


async def events_of(lines: AsyncIterator[str]) -> list[Any]:
    """What an export holds besides the seals, which are those of all tenants."""
    told = [json.loads(line) async for line in lines]
    return [line for line in told if line["kind"] != "seal"]


async def outcome(asked: Any) -> Any:
    """What comes of a call, in a form that can be compared."""
    try:
        answer = await asked if inspect.isawaitable(asked) else [each async for each in asked]
    except (StepfastError, RunFailed) as error:
        return [type(error).__name__, error.code, str(error)]
    return await plain(answer)


async def plain(answer: Any) -> Any:
    if isinstance(answer, Run):
        view = await answer.info()
        return ["run", view.tenant, view.workflow]
    if isinstance(answer, list | tuple) and not hasattr(answer, "_fields"):
        return [await plain(each) for each in answer]
    if type(answer).__name__ == "StartAnswer":
        return ["started", await plain(answer.run), answer.is_new, str(answer.error)]
    return str(answer)


def veiled(told: Any, names: Names) -> str:
    """What was told, without the names that the stranger has asked by."""
    text = json.dumps(told).replace(names.artifact.digest, "<digest>")
    for field, value in sorted(names._asdict().items(), key=lambda item: -len(str(item[1]))):
        if isinstance(value, str):
            text = text.replace(value, f"<{field}>").replace(value.partition(".")[0], f"<{field}>")
    return text


@pytest.fixture
def opening(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])

    def opening(around=lambda store: store):
        return engine(database=database, workflows=WORKFLOWS, around=around)

    return opening


async def stage(opened: Engine) -> tuple[Names, Run[Any]]:
    """A tenant that has everything, and another with a run of its own."""
    names = await names_of(opened, await tour(opened, OWNER, WORD))
    own = await opened.start(repeating, "own", tenant=STRANGER)
    await opened.run_until_idle()
    return names, own


async def crossings(opened: Engine, names: Names, own: Run[Any], cases: dict[str, Case]) -> list[str]:
    """The methods by which the stranger can tell what another tenant has from what nobody has."""
    found = []
    for name, ask in cases.items():
        told = []
        for called in (names, unknown(names)):
            answer = await outcome(ask(Asking(opened.app, called, own)))
            text = veiled(answer, called).replace(own.id, "<own>")
            # Both are keys of its own by now: it has started runs with them, and its events name them as the cause.
            told.append(text.replace(names.key, "<key>").replace(unknown(names).key, "<key>"))
        if told[0] != told[1] or OWNER in told[0] or WORD in told[0]:
            found.append(f"{name}: {told[0][:300]} | {told[1][:300]}")
    return found


async def test_every_public_method_is_asked(opening):
    async with opening() as opened:
        assert methods(opened.app) == CASES.keys() | BY_TOKEN.keys() | OF_OPERATORS


async def test_what_another_tenant_has_is_as_if_nobody_had_it(opening):
    async with opening() as opened:
        names, own = await stage(opened)
        assert await crossings(opened, names, own, CASES) == []


async def test_a_token_of_another_tenant_is_foreign_and_changes_nothing(opening):
    async with opening() as opened:
        names, own = await stage(opened)
        for name, ask in BY_TOKEN.items():
            refused = await outcome(ask(Asking(opened.app, names, own)))
            assert refused[0] in (TokenForeign.__name__, CallbackForeign.__name__), name
            assert OWNER not in refused[2], name
            assert WORD not in refused[2], name
        review = await opened.app.reviews.get(names.review)
        assert (review.state, review.answers) == ("open", ())


async def test_asking_changes_nothing_of_what_another_tenant_has(opening):
    async with opening() as opened:
        names, own = await stage(opened)
        before = await holdings(opened.app)
        await crossings(opened, names, own, CASES)
        assert await holdings(opened.app) == before


async def holdings(app: Stepfast) -> list[str]:
    """All that the owner sees of what it has."""
    runs = await app.runs(tenant=OWNER, limit=1_000)
    histories = [await app.get(run.run_id, tenant=OWNER).history() for run in runs]
    lists = [
        await app.dead_letters.list(tenant=OWNER, resolved=True),
        await app.exceptions.list(tenant=OWNER, resolved=True),
        await app.reviews.list(tenant=OWNER, state=None),
        await app.assets.list(tenant=OWNER),
        await app.annotations.list(tenant=OWNER, limit=1_000),
        await app.workflows.list(tenant=OWNER),
    ]
    return [str(each) for each in (*runs, *histories, *lists)]


async def test_a_sink_for_one_tenant_gets_nothing_of_another(opening):
    async with opening() as opened:
        await stage(opened)
        got: list[Any] = []
        sink = CallbackSink("theirs", got.append, tenants=[STRANGER])
        publisher = Publisher(opened.app.parts.store, opened.clock, sink, "me", Backoff(tries=3), from_start=True)
        while await publisher.make_pass():
            pass
        for _ in range(5):
            await publisher.make_pass()
    assert {event.tenant for event in got} == {STRANGER}
    assert WORD not in str(got)


class Tenantless:
    """A store that does not ask whose something is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run(self, tenant: str | None, run_id: RunId) -> Any:
        return await self._store.run(None, run_id)

    async def change(self, requests: Any) -> Any:
        return await self._store.change([request._replace(tenant=None) for request in requests])

    async def deliver(self, delivery: Any) -> Any:
        return await self._store.deliver(delivery._replace(tenant=None))

    async def runs(self, where: Any) -> Any:
        return await self._store.runs(where._replace(tenant=None))

    async def dead_letters(self, where: Any) -> Any:
        return await self._store.dead_letters(where._replace(tenant=None))

    async def exceptions(self, where: Any) -> Any:
        return await self._store.exceptions(where._replace(tenant=None))

    async def reviews(self, where: Any) -> Any:
        return await self._store.reviews(where._replace(tenant=None))

    async def review(self, tenant: str | None, review_id: Any) -> Any:
        return await self._store.review(None, review_id)

    async def annotations(self, where: Any) -> Any:
        return await self._store.annotations(where._replace(tenant=None))

    async def asset(self, tenant: str, asset_id: str, version: int | None) -> Any:
        return await self._store.asset(OWNER, asset_id, version)


FOUND_OUT = {
    *("app.get", "app.runs", "run.annotate", "run.annotations", "run.artifacts", "run.cancel", "run.history"),
    *("run.info", "run.signal", "run.steps", "run.why", "annotations.list", "assets.get", "dead_letters.get"),
    *("dead_letters.list", "exceptions.comment", "exceptions.get", "exceptions.list", "reviews.decide", "reviews.get"),
    *("reviews.issue_token", "reviews.list"),
}


async def test_the_broken_twin_that_does_not_ask_whose_something_is_is_found_out(opening):
    async with opening(Tenantless) as opened:
        names, own = await stage(opened)
        crossed = {found.partition(":")[0] for found in await crossings(opened, names, own, CASES)}
    assert crossed >= FOUND_OUT
