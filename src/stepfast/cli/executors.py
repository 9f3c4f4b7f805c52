"""`stepfast executors`: what steps can call by name, and whether it works."""

from __future__ import annotations

from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.exits import ERROR
from stepfast.cli.loading import find_app
from stepfast.cli.printing import print_json, print_table, took
from stepfast.cli.shapes import page_object
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.plugins import Problem


@click.command("list")
@with_client
@click.option("--domain", metavar="NAME", help="Those of one domain only.")
def list_executors(client: Client, domain: str | None) -> None:
    """The executors of the app, if one is named, of installed packages, and the built-in ones.

    A package whose executors cannot be used is listed as broken, with its error. The database is not needed.
    """
    app = _app(client)
    found, problems = app.executors.list(domain), app.executors.problems
    if client.is_json:
        broken = [_problem_object(problem) for problem in problems]
        print_json({**page_object(map(_executor_object, found), None), "problems": broken})
        return
    head = ("executor", "domain", "kind", "queue", "origin", "description")
    print_table(head, [*map(_row, found), *map(_broken_row, problems)])


@click.command()
@with_client
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--wait", default="5s", show_default=True, metavar="TIME", help="How long each may take to answer.")
@click.pass_context
def health(ctx: click.Context, client: Client, names: tuple[str, ...], wait: str) -> None:
    """Ask executors, all at once, whether they could do their work now; without names, every one.

    The exit code is 1 when one of them could not, or does not answer in time; without names, also when a package brings
    executors that cannot be used.
    """
    app = _app(client)
    answers = client.run(app.executors.health(names or None, wait, apart=True))
    problems = () if names else app.executors.problems
    if client.is_json:
        items = [{"name": name, **answer._asdict()} for name, answer in answers.items()]
        print_json({**page_object(items, None), "problems": [_problem_object(problem) for problem in problems]})
    else:
        rows: list[tuple[object, ...]] = [
            (name, "ok" if answer.ok else "fail", took(answer.took_ms), answer.message)
            for name, answer in answers.items()
        ]
        print_table(("executor", "health", "took", "message"), [*rows, *map(_broken_health, problems)])
    if problems or not all(answer.ok for answer in answers.values()):
        ctx.exit(ERROR)


def _app(client: Client) -> Stepfast:
    return find_app(client.settings) or Stepfast(workflows=[])


def _executor_object(executor: Executor) -> dict[str, Any]:
    return {
        "name": executor.name,
        "domain": executor.domain,
        "kind": executor.kind,
        "queue": executor.queue,
        "origin": executor.origin,
        "description": executor.description,
        "has_health": executor.health is not None,
        "inputs": executor.inputs,
        "output": executor.output,
        "config": executor.config,
    }


def _problem_object(problem: Problem) -> dict[str, Any]:
    return {**problem.plugin._asdict(), "error": problem.error}


def _row(executor: Executor) -> tuple[object, ...]:
    place = (executor.queue, executor.origin, executor.description)
    return (executor.name, executor.domain, executor.kind, *place)


def _broken_health(problem: Problem) -> tuple[object, ...]:
    return (problem.plugin.name, "broken", None, f"{problem.plugin.origin}: {problem.error}")


def _broken_row(problem: Problem) -> tuple[object, ...]:
    return (problem.plugin.name, None, "broken", None, problem.plugin.origin, problem.error)
