"""`stepfast audit`: sealing the trail, proving that it is what was written, and taking it along."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.exits import ERROR
from stepfast.cli.printing import print_facts, print_json, print_table, say
from stepfast.kernel.auditing import AuditFinding, AuditReport
from stepfast.seal_files import SealFile


@click.command()
@with_client
def seal(client: Client) -> None:
    """Seal what was written since the last seal; workers with STEPFAST_SEAL_KEYS do so by themselves."""
    count = client.perform(lambda app: app.audit.seal())
    if client.is_json:
        print_json({"sealed": count})
    else:
        say(f"{count} events were sealed." if count else "Nothing was written since the last seal.")


@click.command()
@with_client
@click.option("--copies", type=click.Path(dir_okay=False, path_type=Path), help="The file that seals were copied to.")
@click.option("--file", "file", type=click.File("r", encoding="utf-8"), help="Verify what was exported instead.")
def verify(client: Client, copies: Path | None, file: Any) -> None:
    """Check every seal, its signature, its copy, and every event that was sealed; exit code 1 if one is wrong."""

    async def check(app: Stepfast) -> AuditReport:
        if file is not None:
            return app.audit.verify_lines(file)
        return await app.audit.verify(None if copies is None else SealFile(copies))

    _print_report(client, client.perform(check))


@click.command()
@with_client
@click.option("--run", metavar="RUN", help="One run alone, with what leads to the seals.")
@click.option("--whole", is_flag=True, help="The trail of all tenants.")
@click.argument("file", type=click.File("w", encoding="utf-8"), default="-")
def export(client: Client, run: str | None, whole: bool, file: Any) -> None:
    """Write the trail as lines of JSON which `audit verify --file` checks without the database, by the keys alone."""

    async def write(app: Stepfast) -> int:
        run_id = None if run is None else (await client.find(app, run)).run_id
        tenant = None if whole else client.tenant
        count = 0
        async for line in app.audit.export(tenant=tenant, run_id=run_id):
            file.write(line)
            count += 1
        return count

    say(f"{client.perform(write)} lines.")


def _print_report(client: Client, report: AuditReport) -> None:
    if client.is_json:
        print_json({"ok": report.is_sound, **report._asdict(), "findings": [*map(_object, report.findings)]})
    else:
        print_facts({"seals": report.seals, "sealed events": report.events, "not sealed yet": report.unsealed})
        if report.findings:
            print_table(("fault", "seal", "run", "what"), [*map(_row, report.findings)])
        say("The trail is what was written." if report.is_sound else f"{len(report.findings)} things are wrong.")
    if not report.is_sound:
        sys.exit(ERROR)


def _row(finding: AuditFinding) -> tuple[Any, ...]:
    return (finding.fault.value, finding.seal, finding.run_id, finding.message)


def _object(finding: AuditFinding) -> dict[str, Any]:
    return finding._asdict()
