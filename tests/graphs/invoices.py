"""What the graphs of tests are about: invoices, steps that take them, and how a run of one ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import BaseModel

from stepfast import Graph, Retry, StageContext, step, workflow
from stepfast.testing.engine import Engine


class Line(BaseModel):
    id: str
    price: int


class Invoice(BaseModel):
    id: str
    day: date = date(2026, 1, 1)
    lines: list[Line] = []


@dataclass
class Parsed:
    lines: list[Line]
    day: date


class ScoreConfig(BaseModel):
    factor: int = 1
    model: str = "small"


INVOICE = Invoice(id="a", lines=[Line(id="x", price=2), Line(id="y", price=3)])


@step
async def price_of(line: Line) -> int:
    if line.price < 0:
        raise ValueError(f"{line.id} has a price below zero")
    return line.price


@step(retry=Retry(attempts=1))
async def refuse(invoice: Invoice) -> str:
    raise ConnectionError(f"nobody takes {invoice.id}")


@workflow
async def archive(invoice: Invoice) -> str:
    return f"archived {invoice.id}"


def parsing(name: str = "invoice", **options: Any) -> tuple[Graph[Invoice, Any], Any]:
    graph = Graph(name, input=Invoice)

    @graph.stage(**options)
    async def parse(ctx: StageContext[Invoice]) -> Parsed:
        return Parsed(ctx.input.lines, ctx.input.day)

    return graph, parse


async def ended(at: Engine, graph: Any, *args: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """How a run ended, and its steps by id."""
    run = await at.start(graph, *args, **options)
    await at.run_until_idle()
    return await at.info(run), {each.call.name: each for each in await at.steps(run)}
