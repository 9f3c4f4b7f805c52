"""`stepfast runs list`."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace

from rich.console import Console

from stepfast.cli.printing import table_of
from stepfast.cli.runs_listing import WHOLE
from stepfast.kernel.errors import Invalid
from stepfast.kernel.numbers import MAX_NUMBER
from tests.cli.office import asking, checkout


async def test_runs_are_listed_newest_first(client, office):
    older, newer = await client.start(checkout, "a"), await client.start(checkout, "b")
    done = await office("runs", "list")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", newer.id, older.id]


async def test_a_line_tells_workflow_state_and_queue(client, office):
    await client.start(checkout, "a", queue="tills")
    done = await office("runs", "list")
    assert done.out.splitlines()[1].split()[1:4] == ["checkout@1", "pending", "tills"]


async def test_a_list_in_json_has_the_values_themselves(client, office):
    await client.start(checkout, "a", metadata={"vip": True})
    [item] = (await office.json("runs", "list"))["items"]
    assert (item["input"], item["metadata"]) == ({"order": "a", "cents": 100}, {"vip": True})


FILTERS = {
    "workflow": ("--workflow", "asking"),
    "state": ("--state", "cancelled"),
    "queue": ("--queue", "desk"),
    "tag": ("--tag", "blue"),
    "actor": ("--started-by", "ann"),
    "subject": ("--subject", "case-1"),
    "thread": ("--thread-id", "thread-1"),
    "correlation id": ("--correlation-id", "batch-1"),
}


async def test_every_filter_chooses_its_runs(client, office):
    chosen = await client.start(
        asking,
        queue="desk",
        tags=["blue"],
        actor="ann",
        subject="case-1",
        thread_id="thread-1",
        correlation_id="batch-1",
    )
    await chosen.cancel()
    await client.start(checkout, "a")
    for name, options in FILTERS.items():
        items = (await office.json("runs", "list", *options))["items"]
        assert [item["run_id"] for item in items] == [chosen.id], name


async def test_since_leaves_out_what_is_older(client, office):
    run = await client.start(checkout, "a")
    recent = await office.json("runs", "list", "--since", "1h")
    later = await office.json("runs", "list", "--since", "2100-01-01")
    assert ([item["run_id"] for item in recent["items"]], later["items"]) == ([run.id], [])


async def test_a_moment_that_is_none_is_a_mistake_of_usage(office):
    done = await office("runs", "list", "--since", "yesterday")
    assert (done.code, "'yesterday' is no moment" in done.err) == (2, True)


async def test_pages_follow_each_other_by_their_cursor(client, office):
    runs = [await client.start(checkout, str(n)) for n in range(5)]
    page = await office.json("runs", "list", "--limit", "2")
    seen = page["items"]
    while page["next_cursor"]:
        page = await office.json("runs", "list", "--limit", "2", "--cursor", page["next_cursor"])
        seen += page["items"]
    assert [item["run_id"] for item in seen] == [run.id for run in reversed(runs)]


async def test_a_table_names_the_cursor_of_the_next_page_on_stderr(client, office):
    first, second = await client.start(checkout, "a"), await client.start(checkout, "b")
    done = await office("runs", "list", "--limit", "1")
    assert (f"--cursor {second.id}" in done.err, first.id in done.out) == (True, False)


async def test_a_tenant_sees_its_own_runs_only(client, office):
    mine, theirs = await client.start(checkout, "a"), await client.start(checkout, "b", tenant="acme")
    default = await office.json("runs", "list")
    acme = await office.json("runs", "list", "--tenant", "acme")
    assert [default["items"][0]["run_id"], acme["items"][0]["run_id"]] == [mine.id, theirs.id]
    assert [len(default["items"]), len(acme["items"])] == [1, 1]


async def test_all_tenants_are_seen_when_asked_for(client, office):
    await client.start(checkout, "a")
    await client.start(checkout, "b", tenant="acme")
    items = (await office.json("runs", "list", "--all-tenants"))["items"]
    assert [item["tenant"] for item in items] == ["acme", "default"]


async def test_too_large_a_limit_is_told_of_as_it_was_given(office):
    for command in (["runs", "list"], ["runs", "cancel", "--all"], ["dead-letters", "list"], ["audit", "list"]):
        done = await office(*command, "--limit", "9" * 20)
        assert (done.code, done.err.startswith(f"E-VAL-001: limit is {'9' * 20}; ")) == (2, True), command
    assert (await office("runs", "list", "--limit", str(MAX_NUMBER - 1))).code == 0


async def test_no_runs_are_a_word_on_stderr_and_nothing_on_stdout(office):
    done = await office("runs", "list")
    assert done == (0, "", "No runs.\n")


async def test_a_list_can_be_watched_until_the_timeout(client, office):
    run = await client.start(checkout, "a")
    done = await office("runs", "list", "--watch", "--timeout", "2s")
    assert (done.code, run.id in done.out) == (124, True)


async def test_a_watched_list_in_a_pipe_has_each_page_below_the_one_before(client, office, monkeypatch):
    looked: list[float] = []

    async def leave_after_two_pages(seconds: float) -> None:
        looked.append(seconds)
        if len(looked) == 2:
            raise Invalid("Two pages were seen.")

    monkeypatch.setattr("stepfast.cli.runs_listing.asyncio", SimpleNamespace(sleep=leave_after_two_pages))
    await client.start(checkout, "a")
    page = (await office("runs", "list")).out
    assert (await office("runs", "list", "--watch")).out == page * 2


async def test_a_cursor_that_no_page_gave_is_a_mistake_of_the_caller(client, office):
    done = await office("runs", "list", "--cursor", "zzz")
    assert (done.code, "cursor is 'zzz'" in done.err) == (2, True)


async def test_nobody_can_speak_for_one_tenant_and_for_all(client, office):
    done = await office("runs", "list", "--tenant", "acme", "--all-tenants")
    assert (done.code, "--tenant 'acme' and --all-tenants were given" in done.err) == (2, True)


def test_a_narrow_terminal_cuts_neither_ids_nor_states():
    row = ("01a1ecbe-0000-7000-8000-000000000001", f"{'a_long_name' * 5}@1", "cancelled", "default", "2026-11-18", "5s")
    told = StringIO()
    narrow = Console(file=told, width=80)
    narrow.print(table_of(("run", "workflow", "state", "queue", "queued", "took"), [row], WHOLE))
    assert [value in told.getvalue() for value in (row[0], row[2])] == [True, True]
