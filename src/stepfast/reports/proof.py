"""The end of a report: what proves it, and what the reader can do to check it without believing anybody."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.texts import counted
from stepfast.reports.blocks import Alarm, Block, Bullets, Paragraph, Section, Table, Words, code, strong
from stepfast.reports.proving import Proof
from stepfast.reports.texts import Times, name, short

MAX_FINDINGS = 20


def proof(found: Reconstruction, given: Proof | None, times: Times) -> Section:
    """What is proved of this run's events, and how to check it."""
    blocks: list[Block] = [*_state(given, times), Paragraph("To check it yourself:"), Bullets(_ways(found))]
    blocks.append(
        Paragraph(
            "Sealed are the events: who did what, when and why, and the digests of what people were shown. The values "
            "of steps are stored beside them and are not sealed themselves."
        )
    )
    return Section("What proves this", blocks)


def _state(given: Proof | None, times: Times) -> Iterator[Block]:
    if given is None:
        yield Paragraph("This report was made without a look at the seals.")
        return
    if not given.seals:
        yield Paragraph("No seal covers the events of this run yet: nothing proves that they are what was written.")
        return
    yield from _checked(given)
    total = given.sealed + given.unsealed
    rest = "All are sealed." if not given.unsealed else f"{counted(given.unsealed, 'event')} came after the last seal."
    yield Paragraph(f"{given.sealed:,} of {counted(total, 'event')} are sealed. {rest}")
    rows: list[tuple[Words, ...]] = [
        (str(seal.body.number), times.moment(seal.body.sealed_at), name(seal.key), code(seal.body.root))
        for seal in given.seals
    ]
    yield Table("Seals over the events of this run", ("Seal", "Made", "Key", "Root"), rows)
    if given.is_cut:
        yield Paragraph("There are more seals over later events of this run; they were not looked at here.")


def _checked(given: Proof) -> Iterator[Block]:
    if given.findings:
        told = "; ".join(
            f"seal {each.seal}: {each.fault}: {short(each.message)}" for each in given.findings[:MAX_FINDINGS]
        )
        yield Alarm(f"The seals do not fit the events: {told}")
    elif given.is_checked:
        yield Paragraph(
            (
                strong("The events fit their seals, and the seals their key."),
                " This was checked when the report was made.",
            )
        )
    else:
        yield Paragraph(
            "The events fit their seals. The keys are not known where this report was made, so the signatures were not "
            "checked."
        )


def _ways(found: Reconstruction) -> list[Words]:
    run_id = found.run.run_id
    return [
        ("The whole trail, in the database: ", code("stepfast audit verify"), "."),
        (
            *("This run alone, without the database: ", code(f"stepfast audit export --run {run_id} trail.jsonl")),
            *(", then ", code("stepfast audit verify --file trail.jsonl"), "."),
        ),
        ("This report with all values, as data: ", code(f"stepfast runs reconstruct {run_id} -o json"), "."),
    ]
