"""The invoice that is undone when somebody refuses it."""

from __future__ import annotations

import pytest

from stepfast import RunFailed
from stepfast.testing import crash_points, engine


@pytest.fixture
def invoice(imported):
    return imported("invoice_approval.invoice")


async def test_a_small_invoice_is_paid_without_anybody(database, invoice, capsys):
    async with engine(database=database, workflows=[invoice.approval]) as opened:
        assert await opened.run(invoice.approval, invoice.Invoice("inv-1", 800)) == "payment-inv-1"
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        "checking",
        "reserving",
        "booking",
        "paying",
    ]


async def test_a_large_invoice_is_paid_when_the_controller_agrees(database, invoice):
    async with engine(database=database, workflows=[invoice.approval]) as opened:
        run = await opened.start(invoice.approval, invoice.Invoice("inv-2", 1_200))
        await opened.run_until_idle()
        (asked,) = await opened.reviews(run)
        assert (asked.title, asked.role) == ("Pay 1200 for inv-2?", "controller")
        await opened.decide(run, "continue", actor="ann")
        assert await opened.result(run) == "payment-inv-2"


async def test_what_was_reserved_is_released_when_the_controller_rejects_it(database, invoice, capsys):
    async with engine(database=database, workflows=[invoice.approval]) as opened:
        run = await opened.start(invoice.approval, invoice.Invoice("inv-3", 1_200))
        await opened.run_until_idle()
        await opened.decide(run, "reject", actor="ann")
        with pytest.raises(RunFailed, match="was rejected by ann"):
            await opened.result(run)
    assert capsys.readouterr().out.splitlines()[-1] == "releasing budget-inv-3"


async def test_everything_is_undone_backwards_when_the_bank_refuses(database, invoice, capsys):
    async with engine(database=database, workflows=[invoice.approval]) as opened:
        with pytest.raises(RunFailed, match="the account for inv-4 is closed"):
            await opened.run(invoice.approval, invoice.Invoice("inv-4", invoice.UNLUCKY))
    assert capsys.readouterr().out.splitlines()[-2:] == ["reversing entry-inv-4", "releasing budget-inv-4"]


async def test_it_is_undone_wherever_the_process_dies(invoice, capsys):
    async def scenario(opened):
        capsys.readouterr()
        with pytest.raises(RunFailed, match="is closed"):
            await opened.run(invoice.approval, invoice.Invoice("inv-5", invoice.UNLUCKY))
        told = capsys.readouterr().out.splitlines()
        # A body that died before its record is done again, and nothing is left out.
        assert list(dict.fromkeys(told))[-2:] == ["reversing entry-inv-5", "releasing budget-inv-5"]
        assert len(told) <= 6 + opened.crashes

    tried = await crash_points(scenario, workflows=[invoice.approval])
    assert len(tried.points) > 20
