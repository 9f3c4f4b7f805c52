"""A process to be killed while people are asked: a worker that tells them, or a clerk who answers for them.

Called as `python -m tests.faults.review_victim OPTIONS` with a JSON object: database, folder (where it keeps account of
what it did), role ("worker" or "clerk"), seed, die_at (a point of POINTS), die_after (how often it gets there first),
broken (a guard to take out).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from stepfast import Retry, ReviewInfo, RunState, Stepfast, review, step, workflow
from stepfast.kernel.commands import Cancel, Changed, Request
from stepfast.kernel.decisions import Park
from stepfast.kernel.errors import IllegalMove, StepfastError
from stepfast.kernel.reviews import Decide, IssueToken
from stepfast.stores.postgres import reviews as postgres_reviews
from stepfast.stores.sqlite import changing
from stepfast.tokens import Secret
from tests.support.apps import MORTAL
from tests.support.review_promises import ACCEPTED
from tests.support.victims import Ear, tell, tell_of_calls

PEOPLE = ("ann", "bob", "carl")
WORKER_POINTS = ("opening", "opened", "issued", "mailed", "parked", "taken")
CLERK_POINTS = ("deciding", "decided", "heard", "cancelled")
OPTIONS: dict[str, Any] = {}
LOG = logging.getLogger("clerk")
APPS: list[Stepfast] = []


@step(retry=Retry(attempts=1))
async def mail(info: ReviewInfo) -> None:
    for actor in PEOPLE:
        try:
            token = await APPS[0].reviews.issue_token(info["review_id"], actor=actor)
        except IllegalMove:
            # Whoever was told before the crash has answered.
            return
        note("letters", {"review_id": info["review_id"], "title": info["title"], "actor": actor, "token": token})
        reached("mailed")


@workflow
async def publish(number: int) -> str:
    answer = await review(str(number), show={"number": number}, expires="1h", escalate_to="dora", notify=mail)
    note("got", {"review_id": answer.review_id, "verdict": answer.verdict, "actor": answer.actor})
    return answer.verdict


def note(account: str, fact: dict[str, Any]) -> None:
    # One write of a short line to a file opened for appending is never torn, also not by a kill.
    file = os.open(Path(OPTIONS["folder"], account), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, json.dumps(fact).encode() + b"\n")
    os.close(file)
    tell(ears())


def ears() -> Path:
    """Where every process of the storm listens, and the test."""
    return Path(OPTIONS["folder"], "ears")


def noted(folder: Path, account: str) -> list[dict[str, Any]]:
    """What all processes have noted, in order."""
    path = folder / account
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def reached(point: str) -> None:
    """Die here, if this is the point, and the time has come."""
    if OPTIONS.get("die_at") != point:
        return
    OPTIONS["die_after"] = OPTIONS.get("die_after", 0) - 1
    if OPTIONS["die_after"] < 0:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(store: Any) -> None:
    """See to it that points around calls of the store are noticed."""
    save, change = store.save, store.change

    async def watched_save(decisions: Sequence[Any], again: bool = False) -> Any:
        asks = any(decision.reviews for decision in decisions)
        if asks:
            reached("opening")
        answers = await save(decisions, again)
        if asks:
            reached("opened")
        if any(decision.taken for decision in decisions):
            reached("taken")
        if any(isinstance(decision.release, Park) for decision in decisions):
            reached("parked")
        return answers

    async def watched_change(requests: Sequence[Request]) -> Any:
        kinds = {type(request.command) for request in requests}
        if Decide in kinds:
            reached("deciding")
        answers = await change(requests)
        for kind, point in ((Decide, "decided"), (IssueToken, "issued"), (Cancel, "cancelled")):
            if kind in kinds:
                reached(point)
        return answers

    store.save, store.change = watched_save, watched_change


async def answer_for_people(app: Stepfast) -> None:
    """Show every token that was mailed, each twice; of every fourth run only when it has been cancelled."""
    choose, done, others = random.Random(OPTIONS.get("seed", 0)), 0, Ear(ears())
    while True:
        letters = noted(Path(OPTIONS["folder"]), "letters")
        for letter in letters[done:]:
            if letter["actor"] == "ann" and int(letter["title"]) % 4 == 3:
                await cancel(app, letter["review_id"].rpartition(".")[0])
            for _ in range(2):
                await show(app, letter, choose)
        done = len(letters)
        await others.hear()


async def cancel(app: Stepfast, run_id: str) -> None:
    try:
        await app.get(run_id).cancel()
    except StepfastError:
        return
    note("cancels", {"run_id": run_id})


async def show(app: Stepfast, letter: dict[str, str], choose: random.Random) -> None:
    verdict = "escalate" if letter["actor"] == "ann" else choose.choice(["continue", "continue", "reject"])
    known = {name: letter[name] for name in ("review_id", "actor", "token")}
    attempt = {"id": uuid4().hex, "letter": known, "verdict": verdict}
    note("attempts", attempt)
    try:
        await app.reviews.resume(letter["token"], verdict)
    except StepfastError as error:
        outcome = error.code
        LOG.exception("refused")
    else:
        outcome = ACCEPTED
    note("attempts", attempt | {"outcome": outcome})
    reached("heard")


def accept_before_it_is_stored(store: Any) -> None:
    """Take out "saved before seen" of answers: they are in memory until the store is next asked to change something."""
    change = store.change
    owed: list[Sequence[Request]] = []

    async def change_later(requests: Sequence[Request]) -> Any:
        while owed:
            await change(owed.pop())
        if not all(isinstance(request.command, Decide) for request in requests):
            return await change(requests)
        owed.append(requests)
        now = await store.now()
        return [Changed(request.run_id, RunState.WAITING, 1, "default", now) for request in requests]

    store.change = change_later


def mark_no_token(store: Any) -> None:
    """Take out the mark of tokens that were used."""
    text = changing.REVIEW_SQL["use_token"]
    changing.REVIEW_SQL["use_token"] = f"{text.rstrip(' ;')} and false"
    texts = postgres_reviews._texts()
    texts["use_token"] = f"{texts['use_token'].rstrip(' ;')} and false"


def store_tokens_as_they_are(store: Any) -> None:
    """Take out the hash."""
    Secret.hash_of = lambda self, text: text._content.decode()  # type: ignore[method-assign]


GUARDS = {
    "saved-before-seen": accept_before_it_is_stored,
    "used-once": mark_no_token,
    "hashed": store_tokens_as_they_are,
}


async def main() -> None:
    is_worker = OPTIONS["role"] == "worker"
    async with Stepfast(OPTIONS["database"], workflows=[publish], worker=MORTAL if is_worker else False) as app:
        APPS.append(app)
        store = app._open_parts().store
        if "broken" in OPTIONS:
            GUARDS[OPTIONS["broken"]](store)
        # Before anybody dies of what is behind them.
        tell_of_calls(store, ears(), "save", "change")
        watch(store)
        await (asyncio.Event().wait() if is_worker else answer_for_people(app))


if __name__ == "__main__":
    OPTIONS.update(json.loads(sys.argv[1]))
    logging.basicConfig(level=logging.DEBUG)
    asyncio.run(main())
