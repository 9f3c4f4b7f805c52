"""What people give to the app: names that mean two things, and values that no store can hold."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from stepfast import Invalid, Retry, Start, Stepfast, WrongCall, progress, receive, step, workflow
from stepfast.kernel.views import Progress
from stepfast.serverless import lambda_handler
from tests.support.apps import app_on

HUGE: Any = 10**5_000
BAD_TEXTS = ("", "nul\0", "lone\ud800", "k" * 10_000, HUGE, b"bytes", ["list"])
BAD_NUMBERS = (0, -1, HUGE, 1.5, True, "7", b"7", [7])


@workflow
def named(key: str, tenant: str = "nobody") -> str:
    return f"{key} of {tenant}"


@workflow
async def waiting() -> str:
    progress(1, 3, "began")
    return await receive("go", str)


@pytest.fixture
async def app(database):
    async with app_on(database, [named, waiting], worker=False) as app:
        yield app


async def stored(app, run) -> tuple[str, str]:
    view = await run.info()
    return view.tenant, view.input


async def test_a_parameter_named_like_an_option_is_given_by_its_position(app):
    run = await app.start(named, "a", "b", tenant="acme", key="k")
    assert await stored(app, run) == ("acme", '{"key":"a","tenant":"b"}')


async def test_a_parameter_named_like_an_option_is_given_among_the_arguments(app):
    run = await app.start(named, arguments={"key": "a", "tenant": "b"}, tenant="acme")
    assert await stored(app, run) == ("acme", '{"key":"a","tenant":"b"}')


async def test_many_starts_take_arguments_too(app):
    [answer] = await app.start_many([Start(named, arguments={"key": "a"}, tenant="acme")])
    assert await stored(app, answer.run) == ("acme", '{"key":"a","tenant":"nobody"}')


async def test_an_option_that_was_meant_as_a_parameter_is_refused_with_both_ways_out(app):
    with pytest.raises(Invalid, match="by its position, or as arguments="):
        await app.start(named, key="a")


async def test_an_argument_that_is_given_twice_is_refused(app):
    with pytest.raises(Invalid, match="twice"):
        await app.start(waiting, arguments={"n": 1}, n=2)


BY_ITSELF = """
from stepfast import workflow

@workflow
def named(key: str, tenant: str) -> str:
    return f"{key} of {tenant}"

print(named.run(key="a", tenant="b"))
"""


def test_a_workflow_that_runs_by_itself_takes_every_keyword_as_its_own(tmp_path):
    done = subprocess.run([sys.executable, "-c", BY_ITSELF], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("a of b\n", 0)


OPTIONS = ("tenant", "key", "thread_id", "subject", "correlation_id", "actor")


@pytest.mark.parametrize("option", OPTIONS)
async def test_a_start_refuses_texts_that_no_store_can_hold(app, option):
    for text in BAD_TEXTS:
        with pytest.raises(Invalid, match=option):
            await app.start(waiting, **{option: text})
    assert await app.runs() == []


@pytest.mark.parametrize("option", ["metadata", "arguments", "tags"])
async def test_a_start_refuses_what_is_of_another_shape(app, option):
    for value in (7, HUGE, "text"):
        with pytest.raises(Invalid, match=option):
            await app.start(waiting, **{option: value})


async def test_metadata_that_json_cannot_hold_is_refused_with_its_place(app):
    with pytest.raises(Invalid, match=r"The metadata cannot be stored: at \.a\[0\] is nan"):
        await app.start(waiting, metadata={"a": [float("nan")]})


async def test_what_is_no_start_is_refused_among_many(app):
    refused, started = await app.start_many(["waiting", Start(waiting)])
    assert ("is no Start" in str(refused.error), started.is_new) == (True, True)


FILTERS = ("workflow", "queue", "tenant", "actor", "correlation_id", "subject", "thread_id", "tag")


@pytest.mark.parametrize("name", FILTERS)
async def test_a_list_refuses_texts_that_no_store_can_hold(app, name):
    for text in BAD_TEXTS:
        with pytest.raises(Invalid, match=name):
            await app.runs(**{name: text})


@pytest.mark.parametrize("name", ["limit", "version"])
async def test_a_list_refuses_numbers_that_no_store_can_hold(app, name):
    for number in BAD_NUMBERS:
        with pytest.raises(Invalid, match=f"^{name} is "):
            await app.runs(**{name: number})


async def test_a_history_refuses_numbers_that_no_store_can_hold(app):
    run = await app.start(waiting)
    for number in BAD_NUMBERS[1:]:
        with pytest.raises(Invalid, match=r"^after is "):
            await run.history(number)


async def test_many_are_chosen_by_filters_that_exist(app):
    with pytest.raises(Invalid, match="no filter 'colour'; there are workflow, version"):
        await app.change_many("cancel", {"colour": "red"})
    with pytest.raises(Invalid, match="give a dict"):
        await app.change_many("cancel", "red")


async def test_a_command_refuses_a_step_that_no_run_can_have(app):
    run = await app.start(waiting)
    for given in (HUGE, "", b"x"):
        with pytest.raises(Invalid, match="from_step"):
            await run.rerun(given)


async def test_a_worker_refuses_names_that_no_store_can_hold(app):
    for text in BAD_TEXTS:
        for given in ({"queues": [text]}, {"tenants": [text]}, {"label": text}):
            with pytest.raises(Invalid):
                app.worker(**given)
    with pytest.raises(Invalid, match="queues is 'abc'; give a list"):
        app.worker(queues="abc")


async def test_a_message_never_repeats_all_of_a_long_text(app):
    with pytest.raises(Invalid) as caught:
        await app.runs(state="k" * 10_000)
    assert len(str(caught.value)) < 300


def test_a_database_is_a_text():
    with pytest.raises(Invalid, match="database is a number of 16,610 bits"):
        Stepfast(HUGE)


@pytest.mark.parametrize(
    "policy",
    [
        {"attempts": "3"},
        {"attempts": HUGE},
        {"factor": "2"},
        {"factor": float("inf")},
        {"factor": float("nan")},
        {"jitter": None},
        {"on": [ValueError]},
        {"on": "ValueError"},
        {"never": (7,)},
    ],
)
def test_a_retry_policy_that_cannot_work_is_refused_where_it_is_written(policy):
    with pytest.raises(Invalid, match=f"^Retry.{min(policy)} is "):
        Retry(**policy)


@pytest.mark.parametrize("said", [(float("nan"),), ("half",), (HUGE,), (1, float("inf")), (1, 2, "lone\ud800")])
async def test_a_progress_that_cannot_be_stored_is_refused_in_the_code_that_says_it(database, said):
    @step(retry=Retry(attempts=1))
    async def tell() -> str:
        try:
            progress(*said)
        except Invalid as error:
            return error.code
        return "accepted"

    @workflow
    async def telling() -> str:
        return await tell()

    async with app_on(database, [telling]) as app:
        assert await (await app.start(telling)).result(timeout="30s") == "E-VAL-001"


async def test_a_run_that_was_started_here_knows_its_thread_and_subject(app):
    run = await app.start(waiting, thread_id="t-1", subject="order 17")
    assert (run.thread_id, run.subject) == ("t-1", "order 17")


async def test_a_run_from_elsewhere_knows_its_thread_and_subject_once_it_is_read(app):
    started = await app.start(waiting, thread_id="t-1", subject="order 17")
    run = app.get(started.id)
    with pytest.raises(WrongCall, match=r"await run\.info\(\)"):
        _ = run.thread_id
    await run.info()
    assert (run.thread_id, run.subject) == ("t-1", "order 17")


async def test_a_start_that_only_found_an_earlier_run_does_not_claim_its_own_thread(app):
    await app.start(waiting, key="k", thread_id="first")
    again = await app.start(waiting, key="k", thread_id="second")
    await again.info()
    assert again.thread_id == "first"


async def test_a_run_shows_its_progress_while_it_waits(app):
    run = await app.start(waiting)
    await run.execute()
    assert (await run.info()).progress == Progress(1, 3, "began")


async def test_the_reason_of_a_signal_is_kept_in_the_history(app):
    run = await app.start(waiting)
    await run.signal("go", "now", reason="she called", actor="ann")
    (event,) = [event for event in await run.history() if event.type == "signalled"]
    assert (event.actor, event.data) == ("ann", '{"name": "go", "n": 1, "reason": "she called"}')


@pytest.mark.parametrize("event", [None, [], 7, {"run_id": HUGE}])
def test_an_event_of_lambda_that_names_no_run_is_refused(event):
    with pytest.raises(Invalid, match="names no run"):
        lambda_handler(Stepfast("sqlite:///nowhere.db"))(event, None)


@pytest.mark.parametrize("option", ["workflows", "sinks", "executors", "policies"])
@pytest.mark.parametrize("given", [5, "one", named], ids=["number", "text", "one alone"])
def test_an_option_that_takes_several_refuses_what_is_no_list(option, given):
    with pytest.raises(Invalid, match=f"^{option} is .*; give a list of "):
        Stepfast("sqlite:///unused.db", **{option: given})
