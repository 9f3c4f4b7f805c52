"""What the pages for the replaced systems say of us is so; that their code runs is for the test of all pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replacing.names import exists
from tests.replacing.pages import PAGES, Row, examples, rows

ROWS = [(page, row) for page in PAGES for row in rows(page)]
THERE = [(page, row) for page, row in ROWS if row.is_there]
LATER = [(page, row) for page, row in ROWS if not row.is_there]

SYSTEMS = {"s0.md", "s1.md", "s2.md", "s3.md", "s4.md"}


def named(page_or_row: object) -> str:
    return page_or_row.stem if isinstance(page_or_row, Path) else str(page_or_row)


def test_each_replaced_system_has_a_page():
    assert {page.name for page in PAGES} == SYSTEMS | {"index.md"}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_page_maps_names(page: Path):
    assert rows(page)


@pytest.mark.parametrize(("page", "row"), THERE, ids=named)
def test_a_name_that_is_mapped_is_there(page: Path, row: Row):
    assert [name for name in row.ours.names if not exists(name)] == []


@pytest.mark.parametrize(("page", "row"), THERE, ids=named)
def test_a_name_that_is_mapped_leads_to_our_page(page: Path, row: Row):
    assert row.ours.links


@pytest.mark.parametrize(("page", "row"), THERE, ids=named)
def test_a_name_that_is_mapped_has_an_example_that_runs(page: Path, row: Row):
    assert row.theirs.names
    assert set(row.theirs.names) - examples(page) == set()


@pytest.mark.parametrize(("page", "row"), LATER, ids=named)
def test_what_is_said_to_come_is_not_there_yet(page: Path, row: Row):
    assert [name for name in row.ours.names if exists(name)] == [], f"{page.name} is out of date: say what it is now."


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_an_example_is_of_a_name_that_the_page_maps(page: Path):
    assert examples(page) - {name for row in rows(page) for name in row.theirs.names} == set()


NAMES = {
    "index.md": [
        *("job_id", "run_id", "workflowRunId", "instanceId", "thread_id", "evaluation_id", "resume_token"),
        *("project_id", "tenant_id", "stage", "task", "node", "is_shadow", "queued", "PENDING", "SUSPENDED"),
        *("partially completed", "canceled", "retried", "SKIPPED"),
    ],
    "s0.md": [
        *("WORKER_CONCURRENCY_<QUEUE>", "WORKER_MAX_RETRIES", "WORKER_RETRY_BACKOFF_BASE_MS"),
        *("WORKER_RETRY_BACKOFF_MAX_MS", "RESUME_TOKEN_TTL_HOURS", "WORKFLOW_CHECKPOINT_BACKEND"),
        *("WORKFLOW_RUNTIME", "TENANT_BURST_LIMIT", "dlq_pending", "dlq_recorded", "failed", "resume_submitted"),
        *("job_id", "thread_id", "evaluation_id", "resume_token", "drain", "internal job run", "checkpoints"),
    ],
    "s1.md": [
        *("engine", "scheduler", "registry", "state manager", "recovery manager", "parallel executor"),
        *("repositories", "metrics collector", "executor", "domain", "pause", "resume", "rollback", "instanceId"),
    ],
    "s2.md": [
        *("run.create", "claimPending", "transition", "cancel", "rerunFrom", "job.execute", "pollSuspended"),
        *("reapStale", "outbox.flush", "replayDLQ", "persistence", "blobStore", "jobTransport", "eventSink"),
        *("scheduler", "clock", "registry", "enqueue", "dequeue", "complete", "suspend", "fail", "require"),
        *("optional", "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "FAILED", "CANCELLED", "SKIPPED"),
    ],
    "s3.md": [
        *("template", "operation", "dependencies", "asset input", "collection input", "query input"),
        *("event input", "payload input", "continue", "reject", "correct", "retry", "escalate", "review required"),
        *("blocked", "low confidence", "policy conflict", "partially completed", "reconstruct run", "lineage"),
    ],
    "s4.md": ["run_id", "project_id", "is_shadow", "claim", "lease", "heartbeat", "reaper", "SIGTERM"],
}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_names_that_people_look_for_are_on_the_page(page: Path):
    assert set(NAMES[page.name]) - {name for row in rows(page) for name in row.theirs.names} == set()


REAL = ["app.start", "app.start(delay=)", "run.rerun(from_step=)", "@step(queue=)", "stepfast runs list", "E-RUN-003"]
UNREAL = ["app.strat", "app.start(dealy=)", "run.reurn", "@stepp", "stepfast runs lits", "E-RUN-999", "STEPFAST_LAESE"]


@pytest.mark.parametrize("name", REAL)
def test_a_name_that_is_there_is_found(name: str):
    assert exists(name)


@pytest.mark.parametrize("name", UNREAL)
def test_a_name_that_is_not_there_is_not_found(name: str):
    assert not exists(name)
