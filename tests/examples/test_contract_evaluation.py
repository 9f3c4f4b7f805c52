"""The contract that is scored, approved and published, with people's answers from the testing kit."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepfast import RunFailed, RunState
from stepfast.sync import Stepfast
from stepfast.testing import engine
from tests.examples.support import EXAMPLES, copied, settings

HARMLESS = "1. Term. It ends after a year.\n"


@pytest.fixture
async def office(imported, database, monkeypatch):
    """An engine that has the template, the executors and the house's own clauses."""
    monkeypatch.setenv("SECONDS_A_WORD", "0")
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", f"1:{base64.b64encode(b'k' * 32).decode()}")
    executors = imported("contract_evaluation.executors")
    async with engine(database=database, workflows=[]) as opened:
        for domain in (executors.docs, executors.ai, executors.registry, executors.policy):
            for executor in domain.list():
                opened.app.executors.register(executor)
        await opened.app.register(Path("contract-evaluation.yaml"), actor="legal-ops")
        for clause in Path("clauses").glob("*.txt"):
            await opened.app.assets.put(clause, id=clause.stem, tags=["clause"])
        yield opened


async def started(office, content):
    contract = await office.app.assets.put(content, id="contract", media_type="text/plain")
    run = await office.start("contract-evaluation", contract=contract.id)
    await office.run_until_idle()
    return run


async def asked(office, run):
    (review,) = await office.reviews(run)
    return review.role, review.kind


async def test_a_risky_contract_is_published_when_an_analyst_and_legal_agree(office):
    run = await started(office, Path("contract.txt"))
    assert await asked(office, run) == ("analyst", "low_confidence")
    await office.decide(run, "continue", actor="ben")
    await office.run_until_idle()
    assert await asked(office, run) == ("legal", "review_required")
    await office.decide(run, "continue", actor="ann")
    assert await office.result(run) == {"doc": f"doc-{run.id}", "risk": 1.0}
    assert Path("registry", f"{run.id}.txt").read_text() == "4 clauses, the worst is 'Liability'"
    assert "contract.published" in [event.type for event in await office.events(run)]


def shown_on_the_page():
    """The lines of the report that the example's page shows; dots stand for what differs from run to run."""
    page = (EXAMPLES / "contract_evaluation" / "README.md").read_text()
    parts = [part.partition("```")[0] for part in page.split("```markdown\n")[1:]]
    return [line for part in parts for line in part.splitlines() if line]


async def test_its_report_says_what_the_page_shows_of_it(office):
    run = await started(office, Path("contract.txt"))
    for actor in ("ben", "ann"):
        await office.decide(run, "continue", actor=actor)
        await office.run_until_idle()
    await office.app.audit.seal()
    report = (await office.app.audit.report(run.id)).splitlines()
    patterns = [".+".join(re.escape(part) for part in line.split("...")) for line in shown_on_the_page()]
    assert patterns
    assert [each for each in patterns if not any(re.fullmatch(each, line) for line in report)] == []


async def test_what_an_analyst_corrects_is_what_counts(office):
    run = await started(office, "1. Delivery. It comes within a reasonable time.\n")
    await office.decide(run, "correct", {"title": "Delivery", "risk": 0.3, "confidence": 1.0}, actor="ben")
    assert (await office.result(run))["risk"] == 0.3


async def test_a_harmless_contract_needs_nobody(office):
    run = await started(office, HARMLESS)
    assert await office.result(run) == {"doc": f"doc-{run.id}", "risk": 0.0}


async def test_a_contract_that_legal_rejects_is_not_published(office):
    run = await started(office, "1. Liability. It is unlimited, and the penalty irrevocable.\n")
    await office.decide(run, "reject", actor="ann")
    with pytest.raises(RunFailed, match="rejected by ann"):
        await office.result(run)
    assert not Path("registry").exists()


async def test_what_the_policy_refuses_is_taken_back_when_a_person_refuses_it_too(office):
    run = await started(office, "1. Contact ann@example. Nobody else.\n")
    assert await asked(office, run) == (None, "policy_conflict")
    await office.decide(run, "reject", actor="ann")
    with pytest.raises(RunFailed, match="rejected by ann"):
        await office.result(run)
    assert list(Path("registry").iterdir()) == []


@contextmanager
def evaluating(folder, database, seconds_a_word):
    """A process of the example, killed by its own pid in the end."""
    surroundings = settings(STEPFAST_DATABASE_URL=database, SECONDS_A_WORD=seconds_a_word, STEPFAST_LEASE="2s")
    command = [sys.executable, "evaluate.py", "contract.txt"]
    process = subprocess.Popen(command, cwd=folder, env=surroundings, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def until_a_clause_is_scored(database):
    with Stepfast(database, workflows=[], worker=False) as app:
        while not app.runs("ai.score", state=RunState.COMPLETED):
            threading.Event().wait(0.02)


def test_a_clause_that_was_scored_is_not_scored_again_after_kill_9(tmp_path, database):
    folder = copied("contract_evaluation", tmp_path)
    Path(folder, "contract.txt").write_text(f"{HARMLESS}\n2. Rest. {'word ' * 20_000}\n")
    with evaluating(folder, database, "0.01") as first:
        told = [first.stdout.readline().strip() for _ in range(3)]
        assert sorted(told) == ["parsing asset:contract@1", "scoring Rest", "scoring Term"]
        until_a_clause_is_scored(database)
    with evaluating(folder, database, "0") as second:
        told = second.communicate()[0].splitlines()
    assert told[:-1] == ["scoring Rest", "summarising", "reserving", "publishing"]
    assert sorted(each.suffix for each in Path(folder, "reports").iterdir()) == [".html", ".md"]
