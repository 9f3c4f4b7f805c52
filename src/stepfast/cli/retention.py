"""`stepfast retention` and `stepfast runs prune`: how long runs are kept, and letting go those that were."""

from __future__ import annotations

import sys
from typing import Any

import click

from stepfast.cli.actors import actor_options
from stepfast.cli.client import Client, with_client
from stepfast.cli.options import span
from stepfast.cli.printing import moment, print_json, print_table, say, visible
from stepfast.cli.shapes import page_object
from stepfast.engine.pruning import PruneReport
from stepfast.kernel.retention import ALL, Held, Policy
from stepfast.kernel.texts import counted
from stepfast.retention import FOREVER

_DAY_MS = 86_400_000

WORKFLOW = click.option("--workflow", metavar="NAME", help="One workflow; without it, all of them.")
REASON = click.option("--reason", metavar="TEXT", help="Why; kept in the history.")
KEY = click.option("--key", metavar="KEY", help="What makes this change one of a kind: a second time does nothing.")


def _keep(ctx: click.Context, param: click.Parameter, value: str) -> str | None:
    return value if value == FOREVER else span(ctx, param, value)


@click.command("list")
@with_client
def list_policies(client: Client) -> None:
    """The policies of the tenant, and those that are for all."""
    found = [each for each in client.perform(lambda app: app.retention.list()) if _is_seen(client, each)]
    if client.is_json:
        print_json(page_object(map(_object, found), None))
    elif found:
        print_table(("tenant", "workflow", "keep", "by", "since", "why"), [*map(_row, found)])
    else:
        say("There is no policy: runs are kept for ever.")


@click.command("set")
@with_client
@click.argument("keep", callback=_keep)
@WORKFLOW
@REASON
@KEY
@actor_options
def set_policy(
    client: Client, keep: str, workflow: str | None, reason: str | None, key: str | None, asked_by: str | None
) -> None:
    """Keep runs for so long after their end, like 90d, or `forever`; with --all-tenants, those of all tenants."""
    told = {"tenant": client.tenant, "workflow": workflow, "reason": reason, "key": key, "actor": asked_by}
    policy = client.perform(lambda app: app.retention.set(keep, **told))
    if client.is_json:
        print_json(_object(policy))
    else:
        say(f"Runs of {_whose(policy)} are kept {_span(policy.keep_ms)}.")


@click.command()
@with_client
@WORKFLOW
@REASON
@KEY
@actor_options
def remove(client: Client, workflow: str | None, reason: str | None, key: str | None, asked_by: str | None) -> None:
    """Take a policy back; runs go by the next one that fits, or are kept for ever."""
    told = {"tenant": client.tenant, "workflow": workflow, "reason": reason, "key": key, "actor": asked_by}
    client.perform(lambda app: app.retention.remove(**told))
    if client.is_json:
        print_json({"removed": True})
    else:
        say("The policy is removed.")


@click.command()
@with_client
@click.option(
    "--older-than", metavar="SPAN", callback=span, help="Also runs without a policy, if they ended so long ago."
)
@WORKFLOW
@click.option("--limit", type=click.IntRange(1, 1_000_000), help="How many families of runs at most.")
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would go.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
@actor_options
def prune(
    client: Client,
    older_than: str | None,
    workflow: str | None,
    limit: int | None,
    dry_run: bool,
    yes: bool,
    asked_by: str | None,
) -> None:
    """Let go runs that were kept long enough, each with all that it has started; workers do so by themselves.

    Without --older-than runs go by the policies alone. Broken off, it goes on where it was when it is called again.
    """
    _confirm(client, older_than, workflow, dry_run or yes)
    which: dict[str, Any] = {"tenant": client.tenant, "workflow": workflow, "limit": limit, "actor": asked_by}
    report = client.perform(lambda app: app.retention.prune(older_than=older_than, dry_run=dry_run, **which))
    if client.is_json:
        counts = [count._asdict() for count in report.counts]
        print_json({"dry_run": dry_run, "runs": report.runs, "counts": counts, "held": report.held})
    else:
        _tell(report, dry_run)


def _confirm(client: Client, older_than: str | None, workflow: str | None, is_sure: bool) -> None:
    if is_sure or not sys.stdin.isatty():
        return
    tenant = "of all tenants" if client.tenant is None else f"of tenant {client.tenant}"
    what = f"runs {tenant}" if workflow is None else f"runs {tenant} with workflow {workflow}"
    age = "that were kept as long as their policy says" if older_than is None else f"older than {older_than}"
    click.confirm(visible(f"Delete {what} {age}?"), abort=True, err=True)


def _tell(report: PruneReport, dry_run: bool) -> None:
    if report.counts:
        print_table(("tenant", "workflow", "families", "runs", "events"), report.counts)
    words = ("run would go", "runs would go") if dry_run else ("run is gone", "runs are gone")
    say(f"{counted(report.runs, *words)}.")
    for why, count in sorted(report.held.items()):
        told = f"{why}, by a policy (`stepfast retention list`)" if why == Held.KEPT else why
        say(f"{counted(count, 'family stays', 'families stay')}: {told}.")


def _is_seen(client: Client, policy: Policy) -> bool:
    return client.tenant is None or policy.tenant in (ALL, client.tenant)


def _row(policy: Policy) -> tuple[Any, ...]:
    names = (policy.tenant or "(all)", policy.workflow or "(all)")
    return (*names, _span(policy.keep_ms), policy.actor, moment(policy.changed_at), policy.reason)


def _object(policy: Policy) -> dict[str, Any]:
    return {**policy._asdict(), "tenant": policy.tenant or None, "workflow": policy.workflow or None}


def _whose(policy: Policy) -> str:
    tenant = f"tenant {policy.tenant}" if policy.tenant else "all tenants"
    return f"{tenant} and workflow {policy.workflow}" if policy.workflow else tenant


def _span(keep_ms: int | None) -> str:
    if keep_ms is None:
        return "for ever"
    return f"{keep_ms // _DAY_MS}d" if keep_ms % _DAY_MS == 0 else f"{keep_ms // 1_000}s"
