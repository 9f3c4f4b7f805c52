"""`stepfast workflows check`: whether the code at hand fits the runs that are open, before it is deployed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.checks import CheckedRun, CheckReport
from stepfast.cli.client import Client, with_client
from stepfast.cli.exits import ERROR
from stepfast.cli.printing import print_json, print_table, say
from stepfast.kernel.texts import counted
from stepfast.workflows.fitting import Verdict

ADVICE = {
    Verdict.ADDED_STEP: "see that the code still comes to what was recorded behind it",
    Verdict.DROPPED_WAIT: "see that nobody brings what it waits for any more",
    Verdict.MISMATCH: "keep the recorded calls, or give the changed workflow a new version",
    Verdict.UNKNOWN_CODE: "keep this version in the code until its runs have ended",
    Verdict.NOT_COMPILED: "keep the executors that it uses until its runs have ended",
    Verdict.UNREADABLE: "check where STEPFAST_BLOBS leads; the code was not tried",
}


@click.command()
@with_client
def check(client: Client) -> None:
    """Replay every open run with the app's code, in memory, and say which would not go on.

    Run it with the new code against the database in use, before a deploy. It writes nothing and runs no step. All
    tenants' runs are looked at unless --tenant names one. The exit code is 1 when a run would have to wait for other
    code, a large value of one cannot be read, or a graph or template of the app has other content than is registered
    under its version. A call that is new before recorded ones (added_step), and one that still waits and that the code
    has no more (dropped_wait), are told of and leave it at 0.
    """

    async def read(app: Stepfast) -> CheckReport:
        return await app.check(client.named_tenant)

    report = client.perform(read, needs_code=True)
    if client.is_json:
        print_json(_report_object(report))
    else:
        _tell(report, client.tenant)
    _tell_of_strangers(report)
    if not report.is_safe:
        click.get_current_context().exit(ERROR)


def _tell(report: CheckReport, tenant: str | None) -> None:
    """All tenants' runs are looked at, and other commands speak for one: so that is named where it is another."""
    if report.runs:
        with_tenant = any(checked.tenant != tenant for checked in report.runs)
        head = ("run", *(("tenant",) if with_tenant else ()), "workflow", "state", "verdict", "step", "what to do")
        print_table(head, [_row(checked, with_tenant) for checked in report.runs])
        for checked in report.runs:
            if checked.breaks or checked.fit.is_good:
                say(f"{checked.run_id}: {checked.fit.detail}")
    for unsafe in report.unsafe:
        say(str(unsafe))
    for changed in report.changed:
        say(str(changed))
    say(f"{counted(report.checked, 'open run')} checked, {report.breaking:,} would not go on with this code.")


def _tell_of_strangers(report: CheckReport) -> None:
    """A workflow that was taken out of the code looks like that of another app: only people know which it is."""
    strangers = Counter(checked.workflow for checked in report.runs if _is_strange(checked))
    if strangers:
        named = ", ".join(f"{number:,} of {workflow}" for workflow, number in sorted(strangers.items()))
        say(
            f"{counted(strangers.total(), 'open run')} of workflows that this app does not have: {named}. "
            "If no other app on this database has them, they would wait for ever."
        )


def _is_strange(checked: CheckedRun) -> bool:
    return not checked.breaks and not checked.fit.is_good


def _row(checked: CheckedRun, with_tenant: bool) -> tuple[object, ...]:
    fit = checked.fit
    tenant = (checked.tenant,) if with_tenant else ()
    what = "nothing: it belongs to another app" if _is_strange(checked) else ADVICE[fit.verdict]
    workflow = f"{checked.workflow}@{checked.version}"
    return (checked.run_id, *tenant, workflow, checked.state, fit.verdict, fit.step, what)


def _report_object(report: CheckReport) -> dict[str, Any]:
    return {
        "checked": report.checked,
        "breaking": report.breaking,
        "verdicts": {verdict: report.verdicts.get(verdict, 0) for verdict in Verdict},
        "runs": [_run_object(checked) for checked in report.runs],
        "unsafe": [unsafe._asdict() for unsafe in report.unsafe],
        "changed": [changed._asdict() for changed in report.changed],
    }


def _run_object(checked: CheckedRun) -> dict[str, Any]:
    fit = checked.fit
    return {
        "run_id": checked.run_id,
        "tenant": checked.tenant,
        "workflow": checked.workflow,
        "version": checked.version,
        "state": checked.state,
        "verdict": fit.verdict,
        "step": fit.step,
        "detail": fit.detail,
        "breaks": checked.breaks,
    }
