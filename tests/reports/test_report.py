"""Reports on runs of a real engine: what they say, what proves them, and whom they are for."""

from __future__ import annotations

import base64
import json

import pytest

from stepfast import Retry, RunFailed, Stepfast, review, step, workflow
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.reviews import parse_review_id
from stepfast.reports import people, proving
from stepfast.sync import Stepfast as SyncStepfast
from stepfast.testing import engine
from stepfast.workflows.codec import digest
from tests.reports.support import Page
from tests.support.apps import QUICK
from tests.support.sql import tamper
from tests.support.workflows import say

broken: set[str] = set()


@step(name="report_charge", retry=Retry(attempts=1))
async def charge(order: str) -> str:
    if order in broken:
        raise ConnectionError("the bank does not answer")
    return f"receipt for {order}"


@workflow(name="report_checkout")
async def checkout(order: str) -> str:
    answer = await review(f"Charge for {order}?", show={"order": order, "sum": 17}, role="sales")
    return f"{await charge(order)}, {answer.verdict}"


@pytest.fixture
async def shop(database, monkeypatch):
    broken.clear()
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", f"1:{base64.b64encode(b'k' * 32).decode()}")
    async with engine(database=database, workflows=[checkout, say]) as opened:
        yield opened


async def decided(shop, order="order-17", by_token=False):
    """A run that somebody has let go on."""
    run = await shop.start(checkout, order, actor="ann", subject="customer 3")
    await shop.run_until_idle()
    shop.clock.advance("90m")
    (asked,) = await shop.reviews(run)
    if by_token:
        token = await shop.app.reviews.issue_token(asked.review_id, actor="ben")
        await shop.app.reviews.resume(token, "continue", note="a good customer")
    else:
        token = ""
        await shop.decide(run, "continue", actor="ben", note="a good customer")
    return run, token


async def test_a_run_is_told_from_its_request_to_its_proof(shop):
    run, _ = await decided(shop)
    await shop.result(run)
    await shop.app.audit.seal()
    text = await shop.app.audit.report(run.id)
    for said in (
        "**The run completed**",
        "by ann, about customer 3.",
        "### “Charge for order-17?”",
        "Asked of anybody who is sales",
        "**Go on** by ben",
        "1 h 30 min after it was asked, through the application or its command line.",
        '{"order": "order-17", "sum": 17}',
        "name the same: this is what the decision was about.",
        "a good customer",
        "Nothing for 1 h 30 min.",
        "Step “report\\_charge” is done.",
        "**The events fit their seals, and the seals their key.**",
    ):
        assert said in text
    assert "Attention" not in text


async def test_a_failure_and_its_retry_are_told_with_who_and_why(shop):
    broken.add("order-17")
    run, _ = await decided(shop)
    with pytest.raises(RunFailed):
        await shop.result(run)
    failed = await shop.app.audit.report(run.id)
    assert "**The run failed**" in failed
    assert "Cause: ConnectionError: the bank does not answer" in failed
    broken.clear()
    await run.retry(reason="the bank is back", actor="cleo")
    await shop.result(run)
    text = await shop.app.audit.report(run.id)
    assert "cleo had the run tried again" in text
    assert "Reason given: “the bank is back”." in text
    assert "| 2 | " in text.partition("## Steps at a glance")[0]
    assert "Attention" not in text


async def test_no_token_and_no_hash_of_one_is_in_a_report(shop):
    run, token = await decided(shop, by_token=True)
    await shop.result(run)
    texts = [await shop.app.audit.report(run.id, form) for form in ("md", "html")]
    (asked,) = await shop.app.reviews.list(run_id=run.id, state="decided")
    whole = await shop.app.parts.store.review(None, parse_review_id(asked.review_id))
    assert "with a token" in texts[0]
    assert not [text for text in texts for secret in (token, whole.tokens[0].hash) if secret in text]


async def test_the_page_of_a_run_is_well_formed(shop):
    run, _ = await decided(shop)
    await shop.result(run)
    page = Page(await shop.app.audit.report(run.id, "html"))
    assert page.troubles == []
    assert ("html", "lang", "en") in page.attributes
    assert page.tags.count("h1") == 1
    assert "report_charge: completed" in page.text


TAMPERING = {
    "an event's actor": "update stepfast.event set actor = 'eve' where type = 'review_decided'",
    "an event is removed": "delete from stepfast.event where type = 'step_completed'",
    "a leaf": "update stepfast.leaf set digest = 'aa' where number = 1",
    "a seal's root": "update stepfast.seal set root = 'aa' where number = 1",
    "what was shown": 'update stepfast.review set shown = \'{"order": "order-17", "sum": 1}\'',
}


@pytest.mark.parametrize("statement", TAMPERING.values(), ids=TAMPERING)
async def test_rows_that_were_changed_are_an_alarm(shop, database, statement):
    run, _ = await decided(shop)
    await shop.result(run)
    await shop.app.audit.seal()
    await tamper(database, statement)
    assert "> **Attention:**" in await shop.app.audit.report(run.id)


async def test_the_broken_twin_that_checks_no_leaf_lets_a_changed_actor_pass(shop, database, monkeypatch):
    async def nothing_wrong(*given):
        return []

    monkeypatch.setattr(proving, "_check", nothing_wrong)
    run, _ = await decided(shop)
    await shop.result(run)
    await shop.app.audit.seal()
    await tamper(database, TAMPERING["an event's actor"])
    assert "Attention" not in await shop.app.audit.report(run.id)


async def test_the_broken_twin_that_computes_no_digest_lets_another_text_pass(shop, database, monkeypatch):
    monkeypatch.setattr(people, "digest", lambda text: digest('{"order":"order-17","sum":17}'))
    run, _ = await decided(shop)
    await shop.result(run)
    await tamper(database, TAMPERING["what was shown"])
    assert "Attention" not in await shop.app.audit.report(run.id)


async def test_the_first_seal_of_a_run_that_is_gone_is_an_alarm(shop, database):
    run, _ = await decided(shop)
    await shop.app.audit.seal()
    await shop.result(run)
    await shop.app.audit.seal()
    await tamper(database, "delete from stepfast.leaf where number = 1")
    await tamper(database, "delete from stepfast.seal where number = 1")
    assert "seal 1: seal\\_removed" in await shop.app.audit.report(run.id)


async def test_the_seals_of_one_run_are_found_among_many(shop):
    for number in range(9):
        await shop.run(say, str(number))
        await shop.app.audit.seal()
    run = await shop.start(checkout, "order-17")
    await shop.run_until_idle()
    await shop.app.audit.seal()
    await shop.run(say, "between")
    await shop.app.audit.seal()
    await shop.decide(run, "continue", actor="ben")
    await shop.result(run)
    await shop.app.audit.seal()
    await shop.run(say, "after")
    await shop.app.audit.seal()
    text = await shop.app.audit.report(run.id)
    listed = text.partition("| Seal | Made | Key | Root |")[2]
    rows = [line.split(" | ")[0] for line in listed.splitlines() if line.startswith("| ") and "---" not in line]
    assert rows == ["| 10", "| 12"]
    assert "All are sealed." in text


async def test_a_run_that_is_not_sealed_is_not_said_to_be_proved(shop):
    run, _ = await decided(shop)
    assert "nothing proves that they are what was written" in await shop.app.audit.report(run.id)


async def test_without_keys_a_report_says_that_no_signature_was_checked(shop):
    run, _ = await decided(shop)
    await shop.app.audit.seal()
    shop.app.signer = None
    assert "so the signatures were not checked" in await shop.app.audit.report(run.id)


async def test_the_run_of_another_tenant_has_no_report(shop):
    run, _ = await decided(shop)
    with pytest.raises(NotFound, match="not found"):
        await shop.app.audit.report(run.id, tenant="acme")


async def test_a_bad_form_is_refused_before_anything_is_read(shop):
    with pytest.raises(Invalid, match="use 'md' or 'html'"):
        await shop.app.audit.report("01977420-dc00-7000-8000-000000000001", "pdf")


def test_blocking_code_gets_reports_too(database):
    with SyncStepfast(database, workflows=[say], worker=QUICK) as app:
        run = app.start(say, "hello")
        run.result()
        assert "**The run completed**" in app.audit.report(run.id)


async def test_a_large_value_is_named_and_cut(database):
    async with Stepfast(database, workflows=[say], worker=QUICK) as app:
        run = await app.start(say, "x" * 2_000_000)
        await run
        text = await app.audit.report(run.id)
    assert len(text) < 100_000
    assert "Kept apart: 2,0" in text or "Cut: 2,0" in text
    assert json.dumps("x" * 3_000) not in text
