"""Graphs beside functions: the same ten steps as a plan, a large layered graph, and reading a long template."""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import sys
import time
from typing import Any

from bench.databases import Databases, check_stored
from bench.figures import Figures, emit
from bench.processes import run_child, run_loop
from bench.workflows import STEPS, ten_steps, trivial
from stepfast import Graph, Stepfast, WorkerSettings
from stepfast.workflows.expressions import compile_expression
from stepfast.workflows.templates.loading import load_template

RUNS = 200
ROUNDS = 7
LAYERS, WIDTH, TIES = 20, 50, 5
EXPRESSION = "steps.parse.output.risk > 0.4 && inputs.rubric == 'standard'"
SCOPE = {"steps": {"parse": {"output": {"risk": 0.5}}}, "inputs": {"rubric": "standard"}}
EVALUATIONS = 100_000


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        figures = run_child("bench.workloads.graphs", url)
        asyncio.run(check_stored(url, "step", 2 * (ROUNDS + 1) * RUNS * STEPS + 2 * LAYERS * WIDTH))
        return figures


def chain() -> Graph[Any, Any]:
    """The steps of `ten_steps`, one after the other."""
    graph: Graph[Any, Any] = Graph("ten_in_a_graph", input=int)
    graph.sequence(*(graph.use(trivial, id=f"s{number}", run=graph.input, number=number) for number in range(STEPS)))
    return graph


def layered() -> Graph[Any, Any]:
    """A thousand steps in layers, with five ties each to the layer before."""
    graph: Graph[Any, Any] = Graph("layered", input=int)
    chance, before = random.Random(1), list[Any]()
    for layer in range(LAYERS):
        ties = [chance.sample(before, TIES) if before else [] for _ in range(WIDTH)]
        before = [
            graph.use(trivial, id=f"s{layer}_{number}", needs=ties[number], run=graph.input, number=number)
            for number in range(WIDTH)
        ]
    return graph


def long_template() -> str:
    """A thousand steps in YAML, each with an expression."""
    lines = ["stepfast: 1", "workflow: long", "version: 1", "inputs: {n: {schema: {type: integer}}}", "steps:"]
    for number in range(LAYERS * WIDTH):
        given = f"steps.s{number - 1}.output.number + 1" if number else "inputs.n"
        lines.append(f'  - {{id: s{number}, use: trivial, with: {{run: 1, number: "${{ {given} }}"}}}}')
    return "\n".join(lines)


async def work(url: str) -> None:
    chained, large = chain(), layered()
    workflows: list[Any] = [ten_steps, chained, large]
    async with Stepfast(url, workflows=workflows, worker=WorkerSettings(concurrency=RUNS)) as app:
        as_function, as_graph = await side_by_side(app, ten_steps, chained)
        await (await app.start(large, 1))
        begun = time.process_time()
        await (await app.start(large, 1))
        overhead_s = time.process_time() - begun
    emit(
        {
            "graph_steps_per_s": RUNS * STEPS / as_graph,
            "graph_to_function": as_function / as_graph,
            "layered_overhead_us": 1e6 * overhead_s / (LAYERS * WIDTH),
            "template_validation_ms": 1e3 * _seconds_to_load(),
            "expression_us": 1e6 * _seconds_to_evaluate() / EVALUATIONS,
        }
    )


async def side_by_side(app: Stepfast, *workflows: Any) -> list[float]:
    """The seconds of each, in turn: medians, for a round is short and the machine is not quiet."""
    for workflow in workflows:
        await round_of(app, workflow)
    seconds: list[list[float]] = [[] for _ in workflows]
    for _ in range(ROUNDS):
        for workflow, own in zip(workflows, seconds, strict=True):
            # A collection of all that is there takes a fifth of a round, and would fall into one by chance.
            gc.collect()
            own.append(await round_of(app, workflow))
    return [statistics.median(own) for own in seconds]


async def round_of(app: Stepfast, workflow: Any) -> float:
    """The seconds that many runs take, from the first start to the last result."""
    begun = time.perf_counter()
    runs = await asyncio.gather(*(app.start(workflow, number) for number in range(RUNS)))
    await asyncio.gather(*(run.result() for run in runs))
    return time.perf_counter() - begun


def _seconds_to_load() -> float:
    text = long_template()
    begun = time.perf_counter()
    load_template(text)
    return time.perf_counter() - begun


def _seconds_to_evaluate() -> float:
    expression = compile_expression(EXPRESSION)
    begun = time.perf_counter()
    for _ in range(EVALUATIONS):
        expression.evaluate(SCOPE)
    return time.perf_counter() - begun


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
