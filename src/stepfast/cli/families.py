"""The groups of commands: each by what it is about, with its commands by name and summary."""

from __future__ import annotations

import click

from stepfast.cli.groups import Entry, LazyGroup

RUNS = {
    "list": Entry("stepfast.cli.runs_listing:list_runs", "A page of runs, newest first."),
    "show": Entry("stepfast.cli.runs_showing:show", "One run with its steps, artifacts and annotations."),
    "events": Entry("stepfast.cli.runs_showing:events", "The history of a run."),
    "at": Entry("stepfast.cli.runs_past:at", "A run as of an event or a moment."),
    "reconstruct": Entry("stepfast.cli.runs_past:reconstruct", "All that is known of a run; also as a report."),
    "watch": Entry("stepfast.cli.runs_showing:watch", "The events of a run as they come, until it ends."),
    "why": Entry("stepfast.cli.runs_showing:why", "What a run waits for, and who or what can move it."),
    "start": Entry("stepfast.cli.runs_starting:start", "Start a run of a workflow."),
    "execute": Entry("stepfast.cli.runs_starting:execute", "Execute a run here and now."),
    "signal": Entry("stepfast.cli.runs_starting:signal", "Send a named value to a run."),
    "annotate": Entry("stepfast.cli.annotating:annotate", "Note a fact of a run or one of its steps."),
    "annotations": Entry("stepfast.cli.annotating:list_annotations", "Facts that were noted of a run, or of all."),
    "cancel": Entry("stepfast.cli.runs_changing:cancel", "End runs now."),
    "pause": Entry("stepfast.cli.runs_changing:pause", "Let no further step of runs begin."),
    "resume": Entry("stepfast.cli.runs_changing:resume", "Let paused runs go on."),
    "retry": Entry("stepfast.cli.runs_changing:retry", "Let failed runs go on without the failure that ended them."),
    "rerun": Entry("stepfast.cli.runs_changing:rerun", "Let ended runs start over, from a step or the beginning."),
    "rollback": Entry(
        "stepfast.cli.runs_changing:rollback", "Take runs back to a step, event or state, and hold them."
    ),
    "prune": Entry("stepfast.cli.retention:prune", "Let go runs that were kept long enough."),
    "skip": Entry("stepfast.cli.runs_changing:skip", "Let a step count as done with an output given by hand."),
}


@click.group(cls=LazyGroup, entries=RUNS)
def runs() -> None:
    """List, watch, start and change runs.

    A run is named by its id, or by the first digits of it, eight or more, if no other run's id begins so.
    """


DEAD_LETTERS = {
    "list": Entry("stepfast.cli.dead_letters:list_letters", "A page of dead letters, newest run first."),
    "show": Entry("stepfast.cli.dead_letters:show", "One dead letter."),
    "replay": Entry("stepfast.cli.dead_letters:replay", "Let the runs go on without the failure that ended them."),
    "discard": Entry("stepfast.cli.dead_letters:discard", "Put dead letters aside; the runs stay failed."),
    "groups": Entry("stepfast.cli.dead_letters:groups", "Equal failures as one line each."),
}


@click.group(cls=LazyGroup, entries=DEAD_LETTERS)
def dead_letters() -> None:
    """Runs that failed for good and that no other run waits for: look, replay, discard."""


CALLBACKS = {
    "complete": Entry("stepfast.cli.callbacks:complete", "Say by its token that outside work is done."),
    "fail": Entry("stepfast.cli.callbacks:fail", "Say by its token that outside work has failed."),
}


@click.group(cls=LazyGroup, entries=CALLBACKS)
def callbacks() -> None:
    """End the outside work of a step, by the token that its body gave away."""


REVIEWS = {
    "list": Entry("stepfast.cli.reviews_reading:list_reviews", "A page of reviews, newest run first."),
    "show": Entry("stepfast.cli.reviews_reading:show", "One review whole."),
    "decide": Entry("stepfast.cli.reviews_answering:decide", "Answer a review."),
    "resume": Entry("stepfast.cli.reviews_answering:resume", "Answer a review by its token."),
    "stats": Entry("stepfast.cli.reviews_reading:stats", "What became of reviews, and how quickly."),
}


@click.group(cls=LazyGroup, entries=REVIEWS)
def reviews() -> None:
    """What runs ask of people: look, answer, see how quickly it is done.

    A review is named by its id, RUN.NUMBER, of which the run may be cut short; a run alone means its only open review.
    """


EXCEPTIONS = {
    "list": Entry("stepfast.cli.exceptions:list_items", "A page of exception items, newest run first."),
    "show": Entry("stepfast.cli.exceptions:show", "One item, with what people have said of it."),
    "assign": Entry("stepfast.cli.exceptions:assign", "Say who sees to an item."),
    "comment": Entry("stepfast.cli.exceptions:comment", "Say something about an item."),
    "resolve": Entry("stepfast.cli.exceptions:resolve", "Put a failure aside."),
    "count": Entry("stepfast.cli.exceptions:count", "How many items there are of each kind."),
    "groups": Entry("stepfast.cli.exceptions:groups", "Equal items as one line each."),
}


@click.group(cls=LazyGroup, entries=EXCEPTIONS)
def exceptions() -> None:
    """What a person should look at: reviews, failures, and runs whose code does not fit.

    An item is named by its id, like RUN.failed:1, of which the run may be cut short; a run alone means its only open
    item.
    """


EXECUTORS = {
    "list": Entry("stepfast.cli.executors:list_executors", "What steps can call by name, and plugins that are broken."),
    "health": Entry("stepfast.cli.executors:health", "Whether executors could do their work now."),
}


@click.group(cls=LazyGroup, entries=EXECUTORS)
def executors() -> None:
    """The executors of an app and of installed packages: what steps can call by name."""


ASSETS = {
    "list": Entry("stepfast.cli.assets:list_assets", "A page of assets in their newest versions."),
    "show": Entry("stepfast.cli.assets:show", "One asset, with who has read and written it."),
    "lineage": Entry("stepfast.cli.assets:lineage", "What steps have read and written."),
}


@click.group(cls=LazyGroup, entries=ASSETS)
def assets() -> None:
    """Content that outlives runs, in versions that never change.

    An asset is named by its id, which is its tenant's own, or as ID@VERSION.
    """


AUDIT = {
    "export": Entry("stepfast.cli.audit:export", "Write the trail to a file that proves itself."),
    "list": Entry("stepfast.cli.audit_reading:list_events", "Events of all runs, by who, what, where and when."),
    "show": Entry("stepfast.cli.audit_reading:show", "One event, by its position."),
    "keygen": Entry("stepfast.cli.audit:keygen", "Make a pair of keys, to seal and to verify."),
    "seal": Entry("stepfast.cli.audit:seal", "Seal what was written since the last seal."),
    "verify": Entry("stepfast.cli.audit:verify", "Prove that the trail is what was written."),
}


@click.group(cls=LazyGroup, entries=AUDIT)
def audit() -> None:
    """The audit trail: every event of every run, sealed with keys that are not in the database (STEPFAST_SEAL_KEYS)."""


SINKS = {
    "list": Entry("stepfast.cli.sinks:list_sinks", "Every sink, and what it has not had yet."),
    "remove": Entry("stepfast.cli.sinks:remove", "Forget a sink that nobody publishes to any more."),
    "replay": Entry("stepfast.cli.sinks:replay", "Have dead letters of a sink delivered once more."),
    "show": Entry("stepfast.cli.sinks:show", "One sink, with the events that it did not take."),
}


@click.group(cls=LazyGroup, entries=SINKS)
def sinks() -> None:
    """Where the events of runs are published to; sinks are part of the app (`Stepfast(..., sinks=[...])`)."""


RETENTION = {
    "list": Entry("stepfast.cli.retention:list_policies", "Every policy that counts for the tenant."),
    "remove": Entry("stepfast.cli.retention:remove", "Take a policy back."),
    "set": Entry("stepfast.cli.retention:set_policy", "Keep runs for so long after their end."),
}


@click.group(cls=LazyGroup, entries=RETENTION)
def retention() -> None:
    """How long runs are kept after their end: by tenant and workflow, by one of them, or all alike."""


QUEUES = {
    "list": Entry("stepfast.cli.queues:list_queues", "Every queue that has open runs or a worker."),
    "show": Entry("stepfast.cli.queues:show", "One queue, with the workers that serve it."),
}


@click.group(cls=LazyGroup, entries=QUEUES)
def queues() -> None:
    """The queues that have open runs or a worker; they are shared by all tenants."""


WORKERS = {
    "list": Entry("stepfast.cli.workers:list_workers", "The workers that are alive, and those that died lately."),
    "show": Entry("stepfast.cli.workers:show", "One worker: what it serves, and when it was last heard of."),
}


@click.group(cls=LazyGroup, entries=WORKERS)
def workers() -> None:
    """The workers that are alive, and those that died lately; they serve all tenants."""


WORKFLOWS = {
    "check": Entry("stepfast.cli.workflows_check:check", "Whether the app's code fits the runs that are open."),
    "plan": Entry("stepfast.cli.templates:plan", "What a template does, in order; or its picture."),
    "schema": Entry("stepfast.cli.templates:schema", "The JSON Schema of templates, for editors."),
    "validate": Entry("stepfast.cli.templates:validate", "Everything that is wrong with templates."),
    "list": Entry("stepfast.cli.workflows:list_workflows", "The workflows of the app, registered ones, and workers'."),
    "show": Entry("stepfast.cli.workflows:show", "One workflow, with its content or as a picture."),
    "register": Entry("stepfast.cli.workflows_register:register", "Keep a template for good."),
}


@click.group(cls=LazyGroup, entries=WORKFLOWS)
def workflows() -> None:
    """The workflows of an app, and who can execute them."""
