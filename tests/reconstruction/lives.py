"""Random workflows and random trouble, for tests of what events say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from stepfast import (
    Later,
    Outside,
    Pending,
    Rejected,
    Retry,
    Run,
    StepfastError,
    WaitTimeout,
    annotate,
    callback_token,
    continue_as,
    current_run,
    each,
    emit,
    progress,
    review,
    step,
    workflow,
)
from stepfast.testing import Engine
from stepfast.workflows.functions import AnyWorkflow
from stepfast.workflows.plans.plan import Ask, Constant, Each, Fail, OnFailure, Sleep
from tests.plans.harness import Executors, plan_workflow, use
from tests.plans.harness import step as plan_step
from tests.support.programs import Program, shared_kinds
from tests.support.turns import turn

SPANS_MS = (1, 500, 1_000, 5_000, 60_000)
SIGNALS = ("paid", "sent")
STATES = ("pending", "running", "waiting", "paused", "completed", "failed")

BODIES: Counter[tuple[str, str]] = Counter()
"""How often the body of each step ran, by run and label."""
TOKENS: list[str] = []
"""Those by which outside work is called back."""
FAILING: dict[str, bool] = {}
"""Which steps of a plan fail for certain, or do not; the others do so by chance."""
CHANCE = Random(0)
"""What the outside work and the steps that fail at times go by."""


@step(retry=Retry(attempts=3, base="5s", jitter=0))
async def work(label: str, failures: int) -> str:
    run_id = current_run().id
    BODIES[run_id, label] += 1
    await turn()
    if BODIES[run_id, label] <= failures:
        raise ConnectionError(label)
    return label


@step(retry=Retry(attempts=2, base=0.2, jitter=0), total_timeout="1h")
async def fall(label: str) -> str:
    BODIES["", label] += 1
    if BODIES["", label] < 3:
        raise ValueError(label)
    return label


@step(retry=Retry(attempts=2, base="2s", jitter=0))
async def look_after(handle: str) -> Pending | str:
    return Pending() if CHANCE.random() < 0.6 else handle


@step
async def hand_out(label: str) -> Outside[str]:
    return Outside(label, poll=look_after, every="20s", deadline="10m")


@step
async def hand_over(label: str) -> Outside[str]:
    TOKENS.append(await callback_token())
    return Outside(label, callback=True, deadline="10m")


@step
async def put_off(label: str) -> str:
    BODIES[current_run().id, label] += 1
    if BODIES[current_run().id, label] == 1:
        raise Later("5s")
    return label


@workflow
async def perform(program: Program) -> Any:
    return await do(program)


@workflow(retry=Retry(attempts=2, base="5s", jitter=0))
async def perform_twice(program: Program) -> Any:
    return await do(program)


@workflow
async def perform_on(program: Program, lives: int = 2) -> Any:
    done = await do(program)
    if lives > 1:
        continue_as(program, lives - 1)
    return done


async def do(program: Program) -> Any:
    kind, *parts = program
    return await KINDS[kind](*parts)


async def call(label: str, failures: int) -> str:
    return await work(label, failures)


async def fail_at_first(label: str) -> str:
    return await fall(label)


async def outside(label: str) -> Any:
    return await hand_out(label)


async def over(label: str) -> Any:
    return await hand_over(label)


async def later(label: str) -> str:
    return await put_off(label)


async def tell(label: str) -> str:
    await emit("shop.told", {"label": label})
    await annotate("told", label)
    progress(1, 2, label)
    return label


async def ask(label: str) -> str:
    try:
        return (await review(label, show={"label": label}, expires="2m")).verdict
    except (Rejected, WaitTimeout):
        return "no"


async def start_child(program: Program, joins: bool) -> str:
    child = await perform.start(program)
    if joins:
        with suppress(StepfastError):
            await child
    return "started"


async def by_children(*programs: Program) -> list[Any]:
    return await each(perform, programs)


KINDS: dict[str, Callable[..., Any]] = {
    "call": call,
    "fail": fail_at_first,
    "outside": outside,
    "over": over,
    "later": later,
    "tell": tell,
    "ask": ask,
    "start": start_child,
    **shared_kinds(do),
    "by_children": by_children,
}
LEAVES = ("call", "call", "fail", "outside", "over", "later", "tell", "ask", "rest", "hear", "hear")
NODES = ("start", "in_turn", "in_turn", "at_once", "first", "in_time", "by_children")


class Author:
    """Writes programs; every step in one has a label of its own."""

    def __init__(self, chance: Random, name: str) -> None:
        self._chance = chance
        self._name = name
        self._labels = 0

    def program(self, depth: int) -> Program:
        kind = self._chance.choice(NODES if depth else LEAVES)
        match kind:
            case "call":
                return [kind, self._label(), self._chance.choice((0, 0, 1, 2))]
            case "rest":
                return [kind, self._span()]
            case "hear":
                return [kind, self._chance.choice(SIGNALS), self._span()]
            case "start":
                return [kind, self.program(depth - 1), self._chance.random() < 0.5]
            case "in_time":
                return [kind, self._span(), self.program(depth - 1)]
            case _ if kind in LEAVES:
                return [kind, self._label()]
        return [kind, *(self.program(depth - 1) for _ in range(self._chance.randint(1, 3)))]

    def _label(self) -> str:
        self._labels += 1
        return f"{self._name}-{self._labels}"

    def _span(self) -> int:
        return self._chance.choice(SPANS_MS)


async def plan_work(name: str) -> str:
    if FAILING.get(name, CHANCE.random() < 0.4):
        raise ValueError(f"{name} is broken")
    return name


async def steady_work(name: str) -> str:
    return name


PLAN = plan_workflow(
    plan_step("tell", use("toil", name="tell"), on_failure=OnFailure.CONTINUE),
    plan_step("index", use("toil", name="index"), on_failure=OnFailure.SKIP_DEPENDENTS),
    plan_step("search", use("toil", name="search"), needs=("index",)),
    plan_step("nap", Sleep(Constant("1h"))),
    plan_step("pay", use("toil", name="pay"), needs=("nap",)),
    executors=Executors(toil=plan_work),
    name="bearing",
)
UNDOING_PLAN = plan_workflow(
    plan_step("take", use("steady", name="take"), undo=use("toil", name="give back")),
    plan_step("count", use("toil", name="count"), each=Each(Constant([1, 2, 3])), needs=("take",), queue="elsewhere"),
    plan_step("ask", Ask(Constant("Go on?"), Constant({"a": 1})), needs=("take",)),
    plan_step("pay", use("toil", name="pay"), needs=("take",), on_failure=OnFailure.COMPENSATE),
    plan_step("fail", Fail(Constant("no")), needs=("pay",), on_failure=OnFailure.COMPENSATE),
    executors=Executors(toil=plan_work, steady=steady_work),
    name="undoing",
)
PLANS = (PLAN, UNDOING_PLAN)
PLAN_STEPS = ("tell", "index", "search", "nap", "pay", "take", "ask")
# What queued steps of plans are executed by, in runs of their own; nothing else of the process is meant.
EXECUTORS = [step(name="toil")(plan_work), step(name="steady")(steady_work)]
WORKFLOWS: list[AnyWorkflow] = [perform, perform_twice, perform_on, *PLANS]

TROUBLE = (
    *("signal", "signal", "pause", "resume", "crash", "crash later", "time", "time", "decide", "decide", "leave"),
    *("work", "work", "work", "work", "work", "time", "time", "resume", "resume"),
    *("cancel", "retry", "rerun", "rollback", "rollback to a state", "skip"),
    *("an hour", "resolve", "call back", "annotate"),
)


async def make(trouble: str, opened: Engine, run: Run[Any], chance: Random) -> None:
    """Let one thing happen to a run."""
    match trouble:
        case "signal":
            await opened.signal(run, chance.choice(SIGNALS), "x")
        case "crash":
            await opened.crash()
        case "crash later":
            opened.crash_after(chance.randint(1, 12))
        case "leave":
            await opened.app.parts.remove_worker(opened._hired, 0)
            opened._worker = None
            await opened.insist(opened._hire)
        case "time":
            opened.clock.advance(chance.choice(SPANS_MS) / 1_000)
        case "an hour":
            opened.clock.advance(3_600)
        case "work":
            await opened.run_until_idle()
        case _:
            await command(trouble, opened, run, chance)


async def command(action: str, opened: Engine, run: Run[Any], chance: Random) -> None:
    """Let somebody do something to a run."""
    match action:
        case "decide":
            for asked in (await opened.reviews())[:1]:
                await opened.decide(asked, chance.choice(asked.verdicts), actor="ann")
        case "rollback":
            to = chance.randint(1, (await run.history(limit=10_000))[-1].seq)
            await opened.insist(lambda: run.rollback(to))
        case "rollback to a state":
            state = chance.choice(STATES)
            await opened.insist(lambda: run.rollback(state))
        case "skip":
            name = chance.choice(PLAN_STEPS)
            await opened.insist(lambda: run.skip(name, "by hand"))
        case "rerun":
            from_step = chance.choice([None, *(each.seq for each in await run.steps())])
            await opened.insist(lambda: run.rerun(from_step))
        case "resolve" | "call back" | "annotate":
            await tell_of(action, opened, run)
        case _:
            await opened.insist(getattr(run, action))


async def tell_of(action: str, opened: Engine, run: Run[Any]) -> None:
    """Let somebody say something of a run, or of what it left to others."""
    match action:
        case "resolve":
            items = [item.id for item in await opened.app.exceptions.list(limit=1)]
            await opened.insist(lambda: opened.app.exceptions.resolve("".join(items), actor="ann"))
        case "call back":
            for token in TOKENS[-1:]:
                await opened.complete_callback(token, "called")
        case "annotate":
            await opened.insist(lambda: run.annotate("seen", True))


async def eventful(opened: Engine) -> None:
    """A run that is woken, loses its holder and starts over: what must be seen to tell its state."""
    run = await opened.start(perform, ["in_turn", ["hear", "paid", 60_000], ["call", "a", 0], ["hear", "sent", 60_000]])
    await opened.run_until_idle()
    await opened.signal(run, "paid", "x")
    opened.crash_after("work")
    await opened.run_until_idle()
    await opened.signal(run, "sent", "x")
    await opened.run_until_idle()
    await run.rerun()
    await opened.run_until_idle()


async def whole(opened: Engine) -> None:
    """Everything that can happen to a run, once or more: each kind of event that changes what a run shows."""
    await eventful(opened)
    await answered(opened)
    await taken_back(opened)
    await put_aside(opened)
    for label, program in (("over", ["over", "over"]), ("later", ["later", "later"]), ("fails", ["fail", "fails"])):
        run = await opened.start(perform, program)
        await opened.run_until_idle()
        if label == "over":
            await opened.complete_callback(TOKENS[-1], "called")
        opened.clock.advance(10)
        await opened.run_until_idle()
        if label == "fails":
            await run.retry()
            await opened.run_until_idle()
    await opened.result(await opened.start(perform_on, ["call", "again", 1]))
    await opened.result(await opened.start(perform, ["first", ["call", "quick", 0], ["rest", 60_000]]))


async def answered(opened: Engine) -> None:
    """Two reviews: one is answered, nobody answers the other."""
    run = await opened.start(perform, ["in_turn", ["ask", "one"], ["ask", "two"]])
    await opened.run_until_idle()
    await opened.decide(run, "continue", actor="ann")
    await opened.run_until_idle()
    opened.clock.advance(180)
    await opened.run_until_idle()


async def taken_back(opened: Engine) -> None:
    """A run that is held, taken back, goes on and is called off."""
    run = await opened.start(perform, ["in_turn", ["call", "b", 0], ["ask", "three"]])
    await opened.run_until_idle()
    await run.pause()
    await run.resume()
    await opened.run_until_idle()
    await run.rollback("work")
    await run.resume()
    await opened.run_until_idle()
    await run.cancel()


async def put_aside(opened: Engine) -> None:
    """Plans whose steps fail: one goes on from that, and the other undoes what it did."""
    FAILING.update({"tell": True, "index": True, "pay": False, "give back": False})
    run = await opened.start(PLAN)
    await opened.run_until_idle()
    await run.skip("nap", "by hand")
    await opened.run_until_idle()
    for item in await opened.app.exceptions.list(run_id=run.id):
        await opened.app.exceptions.resolve(item.id, actor="ann")
    await opened.start(UNDOING_PLAN)
    await opened.run_until_idle()


async def live(opened: Engine, seed: int) -> None:
    """One run and what happens to it, of which much is refused."""
    chance = Random(seed)
    CHANCE.seed(seed)
    TOKENS.clear()
    FAILING.clear()
    program = Author(chance, str(seed)).program(chance.randint(0, 3))
    drawn = chance.choice((perform, perform, perform_twice, perform_on, *PLANS))
    run = await (opened.start(drawn) if drawn in PLANS else opened.start(drawn, program))
    for trouble in chance.choices(TROUBLE, k=chance.randint(4, 24)):
        with suppress(StepfastError):
            await make(trouble, opened, run, chance)
    await opened.run_until_idle()
    with suppress(StepfastError):
        await opened.insist(run.cancel)
