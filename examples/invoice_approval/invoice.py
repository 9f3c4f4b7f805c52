"""Approves and pays an invoice: budget is reserved, the ledger is written, a person may have to agree, the bank pays.

`python invoice.py 1200` starts one; when the bank refuses (`python invoice.py 666`) what was done before is undone.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass

from stepfast import Graph, Retry, RunFailed, StageContext, Stepfast, step

LIMIT = 1_000
UNLUCKY = 666


@dataclass
class Invoice:
    """What somebody wants to be paid."""

    number: str
    euros: int


@dataclass
class Checked:
    """An invoice that was looked through."""

    number: str
    euros: int
    needs_approval: bool


class BankRefused(Exception):
    """The bank does not pay, and asking again does not help."""


@step
async def reserve(number: str, euros: int) -> str:
    print(f"reserving {euros} for {number}", flush=True)
    return f"budget-{number}"


@step
async def release(reservation: str) -> None:
    print(f"releasing {reservation}", flush=True)


@step
async def book(number: str, euros: int, reservation: str) -> str:
    print(f"booking {euros} for {number}", flush=True)
    return f"entry-{number}"


@step
async def reverse(entry: str) -> None:
    print(f"reversing {entry}", flush=True)


@step(retry=Retry(attempts=3, base="1s", never=(BankRefused,)))
async def pay(number: str, euros: int) -> str:
    """The invoice's number goes along, so that the bank does not pay it twice."""
    print(f"paying {euros} for {number}", flush=True)
    if euros == UNLUCKY:
        raise BankRefused(f"the account for {number} is closed")
    return f"payment-{number}"


approval = Graph("invoice-approval", input=Invoice, output=str)


@approval.stage
async def check(ctx: StageContext[Invoice]) -> Checked:
    """Look the invoice through."""
    print(f"checking {ctx.input.number}", flush=True)
    return Checked(ctx.input.number, ctx.input.euros, ctx.input.euros > LIMIT)


reserved = approval.use(
    reserve,
    number=check.output.number,
    euros=check.output.euros,
    undo=approval.undo(release, reservation=lambda output: output),
)
approved = approval.review(
    "approve",
    lambda input: f"Pay {input.euros} for {input.number}?",
    show=check.output,
    role="controller",
    when=check.output.needs_approval,
    needs=[reserved],
    verdicts=["continue", "reject"],
    on_failure="compensate",
)
booked = approval.use(
    book,
    number=check.output.number,
    euros=check.output.euros,
    reservation=reserved.output,
    needs=[approved],
    undo=approval.undo(reverse, entry=lambda output: output),
)
paid = approval.use(pay, number=check.output.number, euros=check.output.euros, needs=[booked], on_failure="compensate")
approval.returns(paid.output)

app = Stepfast(os.environ.get("STEPFAST_DATABASE_URL") or "sqlite:///invoices.db", workflows=[approval])


async def main(euros: int) -> None:
    invoice = Invoice(f"inv-{euros}", euros)
    async with app:
        run = await app.start(approval, invoice, key=invoice.number)
        try:
            print(await run)
        except RunFailed as failure:
            print(f"not paid: {failure.__cause__}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
