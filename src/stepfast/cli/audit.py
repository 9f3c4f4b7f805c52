"""`stepfast audit`: sealing the trail, proving that it is what was written, and taking it along."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from stepfast.app import Stepfast
from stepfast.cli.client import Client, with_client
from stepfast.cli.exits import ERROR
from stepfast.cli.options import common_options
from stepfast.cli.output import output, put
from stepfast.cli.printing import print_facts, print_json, print_table, say
from stepfast.kernel.auditing import AuditFinding, AuditReport
from stepfast.kernel.errors import Invalid, StoreUnavailable
from stepfast.kernel.seals import Signer
from stepfast.kernel.texts import counted
from stepfast.seal_files import SealFile
from stepfast.signing import PUBLIC, KeyedSigner, SealKeys, new_pair, read_seal_keys
from stepfast.trail_files import lines_in, lines_of, verify_lines

STDIN = STDOUT = "-"
KEYS_EXAMPLE = f"name={PUBLIC}:base64"
NO_COPIES = (
    "There are no copies to compare with, so a trail whose end was cut off looks whole. Give --copies, or set "
    "STEPFAST_SEAL_FILE."
)


@click.command()
@with_client
def seal(client: Client) -> None:
    """Seal what was written since the last seal; workers with STEPFAST_SEAL_KEYS do so by themselves."""
    count = client.perform(lambda app: app.audit.seal())
    if client.is_json:
        print_json({"sealed": count})
    else:
        sealed = counted(count, "event was sealed", "events were sealed")
        say(f"{sealed}." if count else "Nothing was written since the last seal.")


@click.command()
@with_client
@click.option(
    "--copies", type=click.Path(path_type=Path), help="The file that seals were copied to. [STEPFAST_SEAL_FILE]"
)
@click.option(
    "--file",
    "file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Verify what was exported instead; `-` reads stdin.",
)
@click.option("--keys", metavar="KEYS", help="Public keys instead of STEPFAST_SEAL_KEYS: name=ed25519-public:...")
def verify(client: Client, copies: Path | None, file: Path | None, keys: str | None) -> None:
    """Check every seal, its signature, its copy, and every event that was sealed; exit code 1 if one is wrong.

    With --file no database is needed.
    """
    if file is not None and copies is not None:
        raise Invalid("--copies are compared with the seals of a database, not with those of --file. Leave one out.")
    if copies is not None and not copies.exists():
        raise Invalid(f"--copies names {str(copies)!r}, which does not exist. Give the file of STEPFAST_SEAL_FILE.")
    signer = _signer(client, keys)
    if file is not None:
        _print_report(client, verify_lines(_lines_in(file), signer))
        return

    # With keys of the command line the app has none of its own, and knows of no copies either.
    kept = copies or client.settings.seal_file

    async def check(app: Stepfast) -> AuditReport:
        app.signer = signer
        return await app.audit.verify(None if kept is None else SealFile(Path(kept)))

    report = client.perform(check)
    if kept is None and report.seals:
        say(NO_COPIES)
    _print_report(client, report)


def _lines_in(file: Path) -> Iterator[str]:
    if str(file) != STDIN:
        return lines_of(file)
    if sys.__stdin__ is None:
        raise Invalid("There is no stdin to read from. Name a file.")
    return lines_in(sys.stdin.buffer, "stdin")


def _signer(client: Client, keys: str | None) -> Signer:
    if keys is not None:
        return KeyedSigner(_public_keys(keys))
    if client.settings.seal_keys is None:
        raise Invalid("Seals are known by their keys: set STEPFAST_SEAL_KEYS, or give public ones with --keys.")
    return KeyedSigner(client.settings.seal_keys)


def _public_keys(text: str) -> SealKeys:
    """Keys of the command line, which everybody on the machine can see."""
    words = f"--keys takes public keys as {KEYS_EXAMPLE}, with commas between them"
    try:
        keys = read_seal_keys(text)
    except ValueError as problem:
        raise Invalid(f"{words}: {problem}.") from None
    if not keys.are_public:
        raise Invalid(f"{words}: others can be seen here by all users of the machine. Set STEPFAST_SEAL_KEYS.")
    return keys


@click.command()
@common_options("output")
@click.option("--name", default="seals-1", show_default=True, help="What seals name the key by.")
def keygen(output: str, name: str) -> None:
    """Print a new pair of keys: the private one for those who seal, the public one for those who verify.

    They are printed once and kept nowhere.
    """
    pair = new_pair(name)
    if output == "json":
        print_json(pair._asdict())
    else:
        put(f"# For workers, and nobody else:\nSTEPFAST_SEAL_KEYS={pair.private}")
        put(f"# For whoever verifies:\nSTEPFAST_SEAL_KEYS={pair.public}")


@click.command()
@with_client
@click.option("--run", metavar="RUN", help="One run alone, with what leads to the seals.")
@click.option("--whole", is_flag=True, help="The trail of all tenants.")
@click.argument("file", default=STDOUT)
def export(client: Client, run: str | None, whole: bool, file: str) -> None:
    """Write the trail as lines of JSON which `audit verify --file` checks without the database, by the keys alone."""

    async def write(app: Stepfast) -> int:
        run_id = None if run is None else (await client.find(app, run)).run_id
        tenant = None if whole else client.tenant
        count = 0
        with _written(file) as out:
            async for line in app.audit.export(tenant=tenant, run_id=run_id):
                out.write(line)
                count += 1
        return count

    say(f"{client.perform(write)} lines.")


@contextmanager
def _written(file: str) -> Iterator[IO[str]]:
    """The place that a trail is written to; a file is closed afterwards, stdout is not."""
    if file == STDOUT:
        if sys.__stdout__ is None:
            raise Invalid("There is no stdout to write to. Name a FILE.")
        yield output()
        # Here, where somebody hears of it if it cannot be written.
        output().flush()
        return
    try:
        out = Path(file).open("w", encoding="utf-8")  # noqa: SIM115 - closed below; only opening it is explained
    except OSError as error:
        raise StoreUnavailable(f"The trail cannot be written to {file}: {error.strerror}.") from error
    with out:
        yield out


def _print_report(client: Client, report: AuditReport) -> None:
    if client.is_json:
        print_json({"ok": report.is_sound, **report._asdict(), "findings": [*map(_object, report.findings)]})
    else:
        counts = {"seals": report.seals, "sealed events": report.events, "not sealed yet": report.unsealed}
        print_facts({**counts, "pruned runs": report.pruned or None, "not copied yet": report.uncopied or None})
        if report.findings:
            print_table(("code", "fault", "seal", "run", "what"), [*map(_row, report.findings)])
        wrong = counted(len(report.findings), "thing is wrong", "things are wrong")
        say("The trail is what was written." if report.is_sound else f"{wrong}.")
    if not report.is_sound:
        sys.exit(ERROR)


def _row(finding: AuditFinding) -> tuple[Any, ...]:
    return (finding.code, finding.fault.value, finding.seal, finding.run_id, finding.message)


def _object(finding: AuditFinding) -> dict[str, Any]:
    return {"code": finding.code, **finding._asdict()}
