"""`stepfast workflows validate|schema|plan`: templates before anything runs; no database is needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from stepfast.cli.exits import ERROR
from stepfast.cli.loading import find_app
from stepfast.cli.options import common_options
from stepfast.cli.output import keep_stdout, put
from stepfast.cli.printing import print_json, print_table, say
from stepfast.executors import Executors
from stepfast.kernel.texts import counted
from stepfast.settings import Found, read_settings
from stepfast.workflows.plans.drawing import describe, mermaid
from stepfast.workflows.templates.loading import BOM, Template, load_template
from stepfast.workflows.templates.problems import Problem, TemplateInvalid
from stepfast.workflows.templates.profile import MAX_BYTES

STDIN = "-"
# One byte more than any template may have, so that a longer one is seen to be too long.
MAX_READ = MAX_BYTES + len(BOM) + 1
UNCHECKED = "Executors were not looked at, as no app is named with --app."


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@common_options("app", "output", "debug")
def validate(files: tuple[str, ...], app: str | None, output: str) -> None:
    """Check templates, and say everything that is wrong with them, each fault with its place and the remedy.

    FILE is YAML or JSON; `-` is standard input. With an app the executors that are used, what they are given and their
    configs are checked too. The exit code is 1 when something is wrong.
    """
    executors = _executors(app)
    good: list[Template] = []
    problems: list[Problem] = []
    for file in files:
        try:
            good.append(_loaded(file, executors))
        except TemplateInvalid as error:
            problems += error.problems
    if output == "json":
        print_json(_report(good, problems))
    else:
        _tell(good, problems, executors)
    if problems:
        click.get_current_context().exit(ERROR)


@click.command()
@common_options("app", "debug")
def schema(app: str | None) -> None:
    """Print the JSON Schema of templates, for editors; with an app its executors are in it, by name.

    In an editor that speaks to yaml-language-server, a comment in the first line of a template is enough:
    `# yaml-language-server: $schema=workflow.schema.json`.
    """
    # Both are slow to import, and needed only here.
    from stepfast.workflows.templates.schema import composed_schema, schema_text, shipped_schema

    executors = _executors(app)
    made = shipped_schema() if executors is None else composed_schema(executors.list())
    put(schema_text(made), end="")


@click.command()
@click.argument("file")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Draw it, in the language of Mermaid.")
@common_options("app", "output", "debug")
def plan(file: str, as_mermaid: bool, app: str | None, output: str) -> None:
    """What a template does: its steps in the order in which they can begin, and what each waits for.

    FILE is YAML or JSON; `-` is standard input.
    """
    template = _loaded(file, _executors(app))
    if as_mermaid:
        put(mermaid(template.plan), end="")
    elif output == "json":
        print_json(describe(template.plan))
    else:
        head = ("step", "order", "verb", "does", "after", "on failure")
        print_table(head, _rows(describe(template.plan)))


def _executors(app: str | None) -> Executors | None:
    keep_stdout()
    given = {} if app is None else {"STEPFAST_APP": Found(app, "--app")}
    found = find_app(read_settings(given))
    return None if found is None else found.executors


def _loaded(file: str, executors: Executors | None) -> Template:
    if file == STDIN:
        return load_template(sys.stdin.buffer.read(MAX_READ), executors, name="standard input")
    return load_template(Path(file), executors)


def _tell(good: list[Template], problems: list[Problem], executors: Executors | None) -> None:
    for problem in problems:
        say(f"{problem} [{problem.code}]")
    for template in good:
        steps = counted(len(list(template.plan)), "step")
        say(f"{template.file}: {template.name} version {template.version} is good: {steps}.")
    if executors is None:
        say(UNCHECKED)


def _report(good: list[Template], problems: list[Problem]) -> dict[str, Any]:
    return {
        "valid": not problems,
        "templates": [
            {"file": each.file, "workflow": each.name, "version": each.version, "digest": each.digest} for each in good
        ],
        "problems": [problem.as_json() for problem in problems],
    }


def _rows(block: dict[str, Any], depth: int = 0) -> Iterator[tuple[object, ...]]:
    order = {name: number for number, layer in enumerate(block.get("layers", ()), 1) for name in layer}
    for step in block.get("steps", ()):
        yield (
            f"{'  ' * depth}{step['id']}",
            order.get(step["id"]),
            f"each {step['verb']}" if "each" in step else step["verb"],
            step.get("executor") or step.get("workflow") or step.get("event"),
            ", ".join(step.get("after", ())),
            step["on_failure"],
        )
        for inner in (step, *step.get("cases", ()), *step.get("catch", ())):
            yield from _rows(inner, depth + 1)
