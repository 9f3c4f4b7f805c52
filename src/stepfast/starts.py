"""Requests for new runs: from a workflow, its arguments and the caller's options to the row that a store keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfast.kernel.decisions import NewRun
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.numbers import check_priority
from stepfast.kernel.texts import check_optional_text, check_text, check_texts, shown
from stepfast.workflows.codec import ValueCodec, digest
from stepfast.workflows.functions import AnyWorkflow, Workflow

if TYPE_CHECKING:
    from stepfast.kernel.asset_ports import Assets
    from stepfast.runs import Run
    from stepfast.workflows.templates.loading import Template

PAGE_RUNS = 1_000
PAGE_BYTES = 4 * 1024 * 1024
METADATA = ValueCodec(Any, "The metadata")


class Start:
    """One start among many for `app.start_many`; takes what `app.start` takes."""

    __slots__ = ("args", "options", "workflow")

    def __init__(self, workflow: AnyWorkflow | Template | str, /, *args: Any, **options: Any) -> None:
        self.workflow = workflow
        self.args = args
        self.options = options


def check_start(request: object) -> None:
    if not isinstance(request, Start):
        raise Invalid(f"{shown(request)} is no Start; write Start(workflow, ...) for each of many starts.")


class StartAnswer(NamedTuple):
    """What became of one of many starts: a new run, the run that its key had started before, or an error."""

    run: Run[Any] | None
    is_new: bool
    error: StepfastError | None = None


class Options(NamedTuple):
    """What a start says apart from the workflow's own arguments."""

    tenant: str | None = None
    key: str | None = None
    queue: str | None = None
    priority: int | None = None
    delay: Duration | None = None
    tags: Iterable[str] | None = None
    metadata: Mapping[str, Any] | None = None
    thread_id: str | None = None
    subject: str | None = None
    correlation_id: str | None = None
    actor: str | None = None
    arguments: Mapping[str, Any] | None = None
    """Keywords of the workflow too: for parameters that have the name of an option."""


async def found_run(
    definition: Workflow,
    run_id: RunId,
    home_tenant: str,
    args: tuple[Any, ...],
    given: Mapping[str, Any],
    assets: Assets,
) -> NewRun:
    """A run as it will be stored, with what is found at its start in the place of what was asked for."""
    if not definition.finds_inputs:
        return new_run(definition, run_id, home_tenant, args, given)
    from stepfast.workflows.inputs import AssetsOf

    options, keywords = _split(definition, len(args), given)
    tenant = check_text("tenant", home_tenant if options.tenant is None else options.tenant)
    found = await definition.look_up(args, keywords, AssetsOf(assets, tenant))
    run = new_run(definition, run_id, home_tenant, (), {**options._asdict(), "arguments": found})
    # Assets move on: the same start with the same key is known by what was asked for.
    return run._replace(digest=digest(f"{definition.name}:{definition.given_text(args, keywords)}"))


def new_run(
    definition: Workflow, run_id: RunId, home_tenant: str, args: tuple[Any, ...], given: Mapping[str, Any]
) -> NewRun:
    """A run as it will be stored, `given` being options and keywords; whatever does not fit is refused here."""
    options, keywords = _split(definition, len(args), given)
    text, _ = definition.arguments.restore(definition.arguments.bind(args, keywords))
    return NewRun(
        run_id=run_id,
        tenant=check_text("tenant", home_tenant if options.tenant is None else options.tenant),
        workflow=definition.name,
        version=definition.version,
        kind="workflow",
        queue=check_text("queue", definition.queue if options.queue is None else options.queue),
        code=definition.code,
        priority=check_priority("priority", definition.priority if options.priority is None else options.priority),
        input=text,
        digest=digest(f"{definition.name}:{text}"),
        key=check_optional_text("key", options.key),
        delay_ms=0 if options.delay is None else span_ms(options.delay, "delay"),
        timeout_ms=definition.timeout_ms,
        actor=check_optional_text("actor", options.actor),
        correlation_id=check_optional_text("correlation_id", options.correlation_id),
        thread_id=check_optional_text("thread_id", options.thread_id),
        subject=check_optional_text("subject", options.subject),
        tags=tuple(sorted(set(check_texts("tags", options.tags or ())))),
        metadata=_metadata_text(options.metadata),
        definition=definition.digest,
    )


async def pages(asked: Iterable[Awaitable[NewRun | StepfastError]]) -> AsyncIterator[list[NewRun | StepfastError]]:
    """New runs, and errors in the place of those that do not fit, in bounded pages and in order."""
    page: list[NewRun | StepfastError] = []
    room = PAGE_BYTES
    for each in asked:
        run = await each
        page.append(run)
        room -= len(run.input) if isinstance(run, NewRun) else 0
        if len(page) == PAGE_RUNS or room <= 0:
            yield page
            page, room = [], PAGE_BYTES
    if page:
        yield page


def _split(definition: Workflow, positional: int, given: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """What a caller gave as options of the start, and as keywords of the workflow."""
    options = Options(**{name: value for name, value in given.items() if name in Options._fields})
    keywords = _keywords(definition, options, {name: given[name] for name in given.keys() - set(Options._fields)})
    _refuse_shadowed(definition, positional, keywords, given)
    return options, keywords


def _keywords(definition: Workflow, options: Options, kwargs: dict[str, Any]) -> dict[str, Any]:
    if options.arguments is None:
        return kwargs
    arguments = _check_mapping("arguments", options.arguments)
    if twice := arguments.keys() & kwargs.keys():
        raise Invalid(f"workflow {definition.name!r}: {min(twice)!r} is given twice, in `arguments` and as a keyword.")
    return {**arguments, **kwargs}


def _refuse_shadowed(definition: Workflow, positional: int, keywords: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Say how a parameter is given that has the name of an option, where the option was given instead."""
    for name in definition.arguments.missing(positional, keywords):
        if given.get(name) is not None:
            raise Invalid(
                f"workflow {definition.name!r} needs a value for its parameter {name!r}, and {name}= is an option of "
                f'every start. Give the parameter by its position, or as arguments={{"{name}": ...}}.'
            )


def _check_mapping(what: str, given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise Invalid(f"{what} is {shown(given)}; give a dict.")
    return dict(given)


def _metadata_text(metadata: Mapping[str, Any] | None) -> str | None:
    return None if metadata is None else METADATA.encode(_check_mapping("metadata", metadata))
