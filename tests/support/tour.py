"""A tour through all that the engine does for one tenant: for tests that look at everything it leaves behind."""

from __future__ import annotations

import json
from asyncio import events
from contextlib import suppress
from typing import Any, NamedTuple

from stepfast import (
    Later,
    Outside,
    Retry,
    Run,
    StepfastError,
    annotate,
    callback_token,
    continue_as,
    emit,
    progress,
    race,
    receive,
    review,
    sleep,
    step,
    storage,
    workflow,
)
from stepfast.kernel.plan_rules import UNDO
from stepfast.kernel.states import StepState
from stepfast.testing import Engine
from stepfast.workflows.bodies import Partial
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.notes import NoteCall
from stepfast.workflows.steps import ask_durably

ONCE = Retry(attempts=1)
ACTOR = "ann"
TOKENS: list[str] = []
"""What steps have given away; the newest is the last."""
TRIED: list[str] = []
ENGINES: list[Engine] = []
"""Those under way; the newest is the last."""


@step
async def charge(word: str) -> str:
    annotate("quality", word)
    progress(1, 2, "half")
    await storage.save("draft", word)
    await storage.artifact("receipt", word)
    await storage.write_asset(f"document-{word}", word, tags=["paper"])
    return word


@step(retry=Retry(attempts=2, base="1ms"))
async def shaky(word: str) -> str:
    TRIED.append(word)
    if TRIED.count(word) == 1:
        raise ConnectionError("away")
    return word


@step
async def not_now(word: str) -> None:
    TRIED.append(f"{word} later")
    if TRIED.count(f"{word} later") == 1:
        raise Later("1s")


@step
async def perish(word: str) -> None:
    TRIED.append(f"{word} perishes")
    if TRIED.count(f"{word} perishes") == 1:
        await ENGINES[-1].crash()


@step(retry=ONCE)
async def refuse(word: str) -> str:
    raise ValueError(f"no card for {word}")


@step
async def print_it(word: str) -> Any:
    TOKENS.append(await callback_token())
    return Outside({"word": word}, callback=True, deadline="1h")


@workflow
async def helper(word: str) -> str:
    return await charge(f"{word}-child")


@workflow
async def selling(word: str) -> str:
    await charge(word)
    await shaky(word)
    await not_now(word)
    await perish(word)
    await emit("order.sold", {"word": word})
    await annotate("phase", "sold")
    await helper(word)
    await race(long=sleep("10m"), short=sleep("1s"))
    await receive("go", str)
    return word


@workflow
async def asking(word: str, quorum: int = 1, on_expiry: str = "fail") -> str:
    boss = "boss" if on_expiry == "escalate" else None
    answer = await review(
        f"Publish {word}?", show={"word": word}, quorum=quorum, expires="1h", on_expiry=on_expiry, escalate_to=boss
    )
    return str(answer.verdict)


@workflow
async def printing(word: str) -> Any:
    return await print_it(word)


@workflow
async def failing(word: str) -> str:
    await charge(f"{word}-before")
    return await refuse(word)


@workflow
async def repeating(word: str, left: int = 1) -> str:
    if left:
        continue_as(word, left - 1)
    return word


@workflow
async def partly(word: str) -> Any:
    await _note("skipped", StepState.SKIPPED, "skip", reason="`when` is false")
    await _note("undone", StepState.COMPLETED, UNDO)
    try:
        await refuse(word)
    except ValueError as error:
        return Partial(word, (error,))


async def _note(name: str, state: StepState, kind: str, **more: Any) -> Any:
    loop = events._get_running_loop()
    assert isinstance(loop, RunLoop)
    return await ask_durably(loop, NoteCall(name, state, json.dumps(None), "{}", kind=kind, **more))


def template(word: str) -> dict[str, Any]:
    """A workflow that is data."""
    steps = [{"id": "wait", "sleep": "1s"}]
    return {"stepfast": 1, "workflow": f"plan-{word}", "version": 1, "steps": steps, "output": word}


WORKFLOWS: list[Any] = [selling, helper, asking, printing, failing, repeating, partly]


class Toured(NamedTuple):
    """What a tour has left: runs by what became of them, and the names of other things."""

    tenant: str
    word: str
    runs: dict[str, Run[Any]]
    open_review: str
    token: str
    """Of the review that is open."""
    callback: str
    """Of outside work that is not done."""
    used: list[str]
    """Tokens of both kinds that have done their work."""
    asset: str
    item: str


async def tour(opened: Engine, tenant: str, word: str) -> Toured:
    """Do everything once for a tenant; `word` is in all that its runs are given, show, make and say."""
    ENGINES.append(opened)
    # What an earlier tour of the same word has tried is none of this one's.
    TRIED.clear()
    app = opened.app
    origin: dict[str, Any] = {"tenant": tenant, "actor": ACTOR, "subject": word, "tags": [word], "thread_id": word}
    runs: dict[str, Run[Any]] = {}

    async def begin(name: str, flow: Any, *args: Any, **options: Any) -> Run[Any]:
        runs[name] = await opened.start(flow, word, *args, **origin, **options)
        await opened.run_until_idle()
        return runs[name]

    sold = await begin("sold", selling, key=f"key-{word}", correlation_id=f"case-{word}", metadata={"word": word})
    for _ in range(4):
        opened.clock.advance("5s")
        await opened.run_until_idle()
    await sold.pause(key=f"pause-{word}", reason=word, actor=ACTOR)
    await sold.annotate("paused by", ACTOR, key=f"note-{word}", step="charge", actor=ACTOR)
    await sold.resume(actor=ACTOR)
    await opened.run_until_idle()
    await sold.signal("go", word, key=f"signal-{word}", reason=word, actor=ACTOR)
    await opened.result(sold)
    await sold.rerun("shaky", reason=word)
    await opened.run_until_idle()
    await sold.rollback("charge", reason=word)
    used = await _people(opened, begin, word)
    printed = await begin("printed", printing)
    with suppress(StepfastError):
        await app.callbacks.fail(TOKENS[-1][:-4] + "AAAA", "wrong")
    await app.callbacks.progress(TOKENS[-1], 1, 2)
    await app.callbacks.complete(TOKENS[-1], word)
    used.append(TOKENS[-1])
    await opened.result(printed)
    await begin("printing", printing)
    item = await _failures(opened, begin, word)
    await (await begin("cancelled", asking)).cancel(reason=word, actor=ACTOR, key=f"cancel-{word}")
    await begin("repeated", repeating)
    await begin("partial", partly)
    await app.register(template(word), tenant=tenant, actor=ACTOR)
    waiting = await begin("waiting", asking)
    (open_review,) = await opened.reviews(waiting)
    token = await app.reviews.issue_token(open_review.review_id, actor="ben")
    put = await app.assets.put(word, f"asset-{word}", tenant=tenant, tags=[word], metadata={"word": word})
    await app.assets.collect(f"collection-{word}", [put.id], tenant=tenant)
    return Toured(tenant, word, runs, open_review.review_id, token, TOKENS[-1], used, put.id, item)


async def _people(opened: Engine, begin: Any, word: str) -> list[str]:
    """Reviews in all their ways; the tokens that were used."""
    reviews = opened.app.reviews
    (asked,) = await opened.reviews(await begin("asked", asking, 2))
    await reviews.comment(asked.review_id, word, actor=ACTOR)
    await reviews.reassign(asked.review_id, role="legal", actor=ACTOR, reason=word)
    await reviews.decide(asked.review_id, "continue", note=word, actor=ACTOR, role="legal")
    token = await reviews.issue_token(asked.review_id, actor="ben")
    with suppress(StepfastError):
        await reviews.resume(token[:-4] + "AAAA", "continue")
    await reviews.resume(token, "continue", note=word)
    await opened.run_until_idle()
    await opened.expire(await begin("expired", asking))
    escalated = await begin("escalated", asking, 1, "escalate")
    await opened.expire(escalated)
    await opened.decide(escalated, "continue", actor="boss")
    await opened.run_until_idle()
    return [token]


async def _failures(opened: Engine, begin: Any, word: str) -> str:
    """Dead letters in all their ways; the exception item of one that is open."""
    app = opened.app
    retried, discarded, failed = [await begin(name, failing) for name in ("retried", "discarded", "failed")]
    await retried.retry(reason=word)
    await opened.run_until_idle()
    await app.dead_letters.discard(discarded.id, reason=word, actor=ACTOR)
    (item,) = await app.exceptions.list(run_id=failed.id)
    await app.exceptions.assign(item.id, "ben", actor=ACTOR, reason=word)
    await app.exceptions.comment(item.id, word, actor=ACTOR)
    return item.id
