"""kill -9 of workers and clerks while people answer: one answer counts, nothing follows a cancel, no token leaks."""

from __future__ import annotations

import asyncio
import base64
import os
import random
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from stepfast import IllegalMove, Run, Stepfast, StepfastError
from stepfast.kernel.states import ENDED
from tests.faults.review_victim import CLERK_POINTS, PEOPLE, WORKER_POINTS, noted, publish
from tests.support import victims
from tests.support.apps import migrated
from tests.support.dumps import dump
from tests.support.review_promises import (
    ACCEPTED,
    Attempt,
    Evidence,
    Got,
    Letter,
    broken_review_promises,
    evidence_of,
    places_with_secrets,
)
from tests.support.sql import execute
from tests.support.victims import died, ear, first_of

IS_LONG = bool(os.environ.get("STEPFAST_LONG"))
RUNS = 40 if IS_LONG else 12
LONGEST_S = 240
KEY = base64.b64encode(secrets.token_bytes(32)).decode()


class Member(NamedTuple):
    """A process of the crew, and the point at which it is to be killed, if it is."""

    role: str
    process: subprocess.Popen[bytes]
    point: str | None


class Storm:
    """Runs that ask people, workers and clerks that are killed in turn, and what all of them have noted."""

    def __init__(self, database: str, folder: Path, seed: int = 0, **options: Any) -> None:
        self._database = database
        self._folder = folder
        self._options = {"database": database, "folder": str(folder), **options}
        self._seed = seed
        self._choose = random.Random(seed)
        self._lives = 0
        self._runs: list[Run[str]] = []
        self._own: list[Attempt] = []
        self.deaths: set[str] = set()

    async def rage(self, runs: int, points: dict[str, list[str]]) -> list[str]:
        """Two workers and two clerks, each replaced when it is killed, until nobody is left to be and all is done."""
        (self._folder / "logs").mkdir()
        async with Stepfast(self._database, workflows=[publish], worker=False) as app:
            await self._start(app, runs)
            with ExitStack() as stack:
                others = stack.enter_context(ear(self._folder / "ears"))
                crew = [self._next(stack, role, points[role]) for role in ("worker", "clerk") for _ in range(2)]
                async with asyncio.timeout(LONGEST_S):
                    while await self._is_work_left(app, [member.point for member in crew]):
                        crew = [self._living(stack, member, points) for member in crew]
                        if await self._answer_what_is_left(app):
                            # Nobody may have a word to say any more, where it was this answer that was waited for.
                            continue
                        await first_of(others.hear(), *(died(member.process) for member in crew))
            return await self._broken(app)

    async def _start(self, app: Stepfast, runs: int) -> None:
        self._runs += await asyncio.gather(*(app.start(publish, number) for number in range(runs)))

    async def _is_work_left(self, app: Stepfast, to_come: list[str | None]) -> bool:
        has_ended = all([(await run.info()).state in ENDED for run in self._runs])
        if has_ended and any(to_come):
            # Whoever is to be killed at some point must get there.
            await self._start(app, 4)
        return not has_ended or any(to_come)

    def _living(self, stack: ExitStack, member: Member, points: dict[str, list[str]]) -> Member:
        if member.process.poll() is None:
            return member
        assert member.process.returncode == -signal.SIGKILL, f"A {member.role} ended by itself; see its log."
        self.deaths.add(str(member.point))
        return self._next(stack, member.role, points[member.role])

    def _next(self, stack: ExitStack, role: str, points: list[str]) -> Member:
        self._lives += 1
        options, point = {**self._options, "role": role, "seed": self._seed + self._lives}, None
        if points:
            point = points.pop(0)
            options |= {"die_at": point, "die_after": self._choose.randint(0, 2)}
        return Member(role, stack.enter_context(victim(options, self._folder / "logs" / f"{self._lives}")), point)

    async def _answer_what_is_left(self, app: Stepfast) -> bool:
        """A review that everybody has passed on is decided by one more token; whether one was refused meanwhile."""
        heard = {(line["letter"]["review_id"], line["letter"]["actor"]) for line in self._noted("attempts")}
        left = [
            view.review_id
            for view in await app.reviews.list(limit=1_000)
            if all((view.review_id, actor) in heard for actor in PEOPLE)
        ]
        return not all([await self._answer(app, review_id) for review_id in left])

    async def _answer(self, app: Stepfast, review_id: str) -> bool:
        try:
            token = await app.reviews.issue_token(review_id, actor="boss")
        except IllegalMove:
            return False
        letter = Letter(review_id, "boss", token)
        try:
            await app.reviews.resume(token, "continue")
        except StepfastError as refusal:
            self._own.append(Attempt(letter, "continue", refusal.code))
            return False
        self._own.append(Attempt(letter, "continue", ACCEPTED))
        return True

    def _noted(self, account: str) -> list[dict[str, Any]]:
        return noted(self._folder, account)

    def attempts(self) -> list[Attempt]:
        """Each attempt as it was heard, or with no outcome."""
        lines: dict[str, dict[str, Any]] = {}
        for line in self._noted("attempts"):
            lines[line["id"]] = lines.get(line["id"], {}) | line
        found = [Attempt(Letter(**line["letter"]), line["verdict"], line.get("outcome")) for line in lines.values()]
        return [*found, *self._own]

    async def evidence(self, app: Stepfast) -> Evidence:
        got = sorted({Got(**line) for line in self._noted("got")})
        found = await evidence_of(app, self.attempts(), got)
        return found._replace(cancelled=[line["run_id"] for line in self._noted("cancels")])

    async def _broken(self, app: Stepfast) -> list[str]:
        tokens = [letter["token"] for letter in self._noted("letters")] + [own.letter.token for own in self._own]
        logs = {f"log {path.name}": path.read_bytes() for path in (self._folder / "logs").iterdir()}
        leaks = places_with_secrets(tokens, await dump(self._database) | logs, KEY.encode(), base64.b64decode(KEY))
        return [*broken_review_promises(await self.evidence(app)), *leaks]


@contextmanager
def victim(options: dict[str, Any], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process; its log is looked through for tokens."""
    with log.open("wb") as lines, victims.victim("tests.faults.review_victim", options, lines) as process:
        yield process


@pytest.fixture(autouse=True)
def one_key_for_all(monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", f"1:{KEY}")


def calm() -> dict[str, list[str]]:
    return {"worker": [], "clerk": []}


@pytest.mark.timeout(LONGEST_S + 60)
async def test_whoever_is_killed_when_one_answer_counts_and_no_token_is_written_down(database, tmp_path):
    storm = Storm(database, tmp_path)
    points = {"worker": list(WORKER_POINTS), "clerk": list(CLERK_POINTS)}
    assert await storm.rage(RUNS, points) == []
    assert storm.deaths == {*WORKER_POINTS, *CLERK_POINTS}


async def test_the_broken_twin_that_accepts_before_it_stores_is_found_out(database, tmp_path):
    storm = Storm(database, tmp_path, broken="saved-before-seen")
    broken = await storm.rage(4, {"worker": [], "clerk": ["heard", "heard", "heard"]})
    assert [each for each in broken if each.startswith(("P1:", "P13:"))]


async def test_the_broken_twin_that_marks_no_token_takes_it_twice(database, tmp_path):
    broken = await Storm(database, tmp_path, broken="used-once").rage(6, calm())
    assert [each for each in broken if "was accepted" in each]


async def test_the_broken_twin_that_stores_tokens_as_they_are_is_found_out(database, tmp_path):
    broken = await Storm(database, tmp_path, broken="hashed").rage(2, calm())
    assert {each[:3] for each in broken} == {"P23"}


async def test_the_broken_twin_without_withdrawals_takes_answers_after_the_cancel(database, tmp_path):
    await migrated(database)
    await execute(database, "drop trigger withdraw_review" + ("" if "sqlite" in database else " on stepfast.wait"))
    broken = await Storm(database, tmp_path).rage(8, calm())
    assert [each for each in broken if each.startswith("P14:")]
