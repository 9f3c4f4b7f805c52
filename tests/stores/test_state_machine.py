"""SQLite, PostgreSQL and a model get the same commands, and must agree on every answer and every row.

The short form is part of every test run; `STEPFAST_LONG=1` looks much further.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from stepfast.kernel.commands import Cancel, Command, Discard, Pause, Request, Rerun, Resume, RetryRun, TimeOut
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.ids import RunId
from stepfast.kernel.reviews import ReviewCommand
from tests.stores import postgres, sqlite
from tests.stores.harness import VERDICT, Harness
from tests.stores.machine import BOTH_CODES, REVIEW_COMMANDS, Stores, World, recent

IS_LONG = bool(os.environ.get("STEPFAST_LONG"))
EXTENT = settings(
    max_examples=2_000 if IS_LONG else 40,
    stateful_step_count=60 if IS_LONG else 40,
    deadline=None,
    derandomize=not IS_LONG,
    database=None,
    # Shrinking takes minutes; the long form does it for what the short one has found.
    phases=tuple(Phase) if IS_LONG else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def world_of(path: Path, url: str) -> Iterator[World]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def open_both() -> list[Harness]:
            one = await stack.enter_async_context(sqlite.harness_on(path))
            await sqlite.hurry(one)
            return [one, await stack.enter_async_context(postgres.harness_on(url))]

        yield World(runner, runner.run(open_both()))
        runner.run(stack.aclose())


class Stories(Stores):
    """Courses of events that chance alone seldom brings about."""

    def act(self, run: HeldRun | None, *acts: str) -> None:
        """Let the holder of a run save one decision after the other; a run that nobody holds is left alone."""
        for act in acts:
            if run is not None and self.model.holds(run.fence):
                self.save_batch([(run, act)])

    def ask(self, run_id: RunId, *commands: Command) -> None:
        for command in commands:
            self.carry_out([Request(run_id, command, actor="ann")])

    def take(self, run_id: RunId) -> HeldRun | None:
        """Claim a run if it can be."""
        before = len(self.holds)
        self.claim_run(self.live_worker(), 0, BOTH_CODES, run_id)
        return self.holds[-1] if len(self.holds) > before else None

    def held_run(self, back: int) -> HeldRun:
        self.make_sure_that_something_is_held()
        return self.hold(back, is_stale=False)

    @rule(
        back=recent,
        then=st.sampled_from(["close", "complete", "continue", "park", "park"]),
        asked=st.sampled_from([(), (Pause(),), (Cancel(),)]),
        ends=st.lists(st.sampled_from(["complete", "fail"]), max_size=3),
        afterwards=st.sampled_from([RetryRun(), Rerun(), Cancel()]),
    )
    def a_family(self, back: int, then: str, asked: tuple[Command, ...], ends: list[str], afterwards: Command) -> None:
        parent = self.held_run(back)
        self.act(parent, "group")
        children = [life.run.run_id for life in self.model.lives.values() if life.run.joins == self.last_group]
        self.act(parent, then)
        self.ask(parent.run_id, *asked)
        for child, end in zip(children, ends, strict=False):
            self.act(self.take(child), end)
        self.upkeep(False, 3, 100)
        for child in children[:1]:
            self.ask(child, afterwards)

    @rule(
        back=recent,
        first=st.sampled_from([("fail", RetryRun()), ("fail", Rerun("2")), ("complete", Rerun()), ("fail", Discard())]),
        then=st.sampled_from(["try_again", "continue", "try_later"]),
        last=st.sampled_from(["try_again", "continue", "complete"]),
    )
    def several_lives(self, back: int, first: tuple[str, Command], then: str, last: str) -> None:
        run = self.held_run(back)
        self.act(run, "step", "step", first[0])
        self.ask(run.run_id, first[1])
        for act in (then, last):
            self.act(self.take(run.run_id), "step", act)
            self.advance(1_000)

    @rule(
        back=recent,
        questions=st.integers(1, 2),
        then=st.sampled_from(["park", "park", "take", "complete", "continue", "hold_back"]),
        commands=st.lists(
            st.tuples(st.sampled_from(REVIEW_COMMANDS), st.sampled_from([None, "ann", "eve"])), max_size=4
        ),
        span_ms=st.sampled_from([0, 1_000]),
        afterwards=st.sampled_from([(), (Cancel(),), (Pause(), Resume()), (Rerun(),), (RetryRun(),)]),
    )
    def people_are_asked(
        self,
        back: int,
        questions: int,
        then: str,
        commands: list[tuple[Callable[[int], ReviewCommand], str | None]],
        span_ms: int,
        afterwards: tuple[Command, ...],
    ) -> None:
        run = self.held_run(back)
        for _ in range(questions):
            self.act(run, "ask")
        asked = [where.wait_id for where in self.model.reviews if where.run_id == run.run_id][-questions:]
        self.act(run, then)
        for number, (command, actor) in zip(itertools.cycle(asked or [1]), commands, strict=False):
            self.advance(span_ms)
            self.carry_out([Request(run.run_id, command(number), actor=actor)])
        self.ask(run.run_id, *afterwards)
        self.act(self.take(run.run_id), "take", "park")

    @rule(span_ms=st.sampled_from([999, 1_000]), timeout_ms=st.sampled_from([None, 500, 2_000]))
    def a_pause_past_a_delay(self, span_ms: int, timeout_ms: int | None) -> None:
        self.start([{"delay_ms": 1_000, "timeout_ms": timeout_ms}], None)
        run_id = self.run_ids[-1]
        self.ask(run_id, Pause())
        self.advance(span_ms)
        self.ask(run_id, Resume())
        self.upkeep(False, 3, 100)

    @rule(is_held=st.booleans(), asked=st.sampled_from([(), (Pause(),)]))
    def a_deadline_passes(self, is_held: bool, asked: tuple[Command, ...]) -> None:
        self.start([{"timeout_ms": 1_000}], None)
        run_id = self.run_ids[-1]
        if is_held:
            self.take(run_id)
        self.ask(run_id, *asked)
        self.advance(1_000)
        self.upkeep(False, 3, 100)
        self.ask(run_id, TimeOut(VERDICT))


@pytest.mark.timeout(7_200 if IS_LONG else 600)
def test_both_stores_do_what_the_model_does(tmp_path, migrated_postgres_url):
    with world_of(tmp_path / "stepfast.db", migrated_postgres_url) as world:

        class OnTheseStores(Stories):
            def __init__(self) -> None:
                super().__init__(world)

        run_state_machine_as_test(OnTheseStores, settings=EXTENT)
