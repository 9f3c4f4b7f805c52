"""What a run noted, started, read and wrote: annotations, other runs, assets and artifacts."""

from __future__ import annotations

from collections.abc import Iterator

from stepfast.kernel.artifacts import ArtifactKind
from stepfast.kernel.assets import LineageView, Role, uri_of
from stepfast.kernel.reconstruction import Annotation, Reconstruction
from stepfast.kernel.transformations import mark_of
from stepfast.kernel.views import RunView
from stepfast.reports.blocks import Block, Paragraph, Section, Table, code
from stepfast.reports.summary import more
from stepfast.reports.texts import Times, name, short
from stepfast.reports.words import step_name

MAX_ROWS = 200
MAX_MADE_OF = 10

_DONE = {Role.READ: "read", Role.WRITE: "written"}


def facts(found: Reconstruction, times: Times) -> Iterator[Section]:
    """Facts that code and people have noted; nothing where there are none."""
    noted = found.annotations
    if not noted:
        return
    rows = [
        (
            *(times.moment(each.at), name(each.key), short(each.value), step_name(each.step) or "the run"),
            *(name(each.scope or ""), _noted_by(each)),
        )
        for each in noted[:MAX_ROWS]
    ]
    blocks: list[Block] = [Table("Annotations", ("When", "Fact", "Value", "Of", "Scope", "Who"), rows)]
    if len(noted) > MAX_ROWS:
        blocks.append(more(len(noted) - MAX_ROWS, "annotation"))
    yield Section("Annotations", blocks)


def _noted_by(fact: Annotation) -> str:
    if not fact.by_code:
        return name(fact.actor or "")
    return "the workflow itself" if fact.step is None else "the step itself"


def children(found: Reconstruction, times: Times) -> Iterator[Section]:
    """The runs that it has started."""
    if not found.children:
        return
    rows = [
        (name(child.workflow), _kind(child), code(name(child.run_id)), str(child.state), times.moment(child.queued_at))
        for child in found.children[:MAX_ROWS]
    ]
    blocks: list[Block] = [
        Paragraph("Each has a history, and a report, of its own."),
        Table("Runs that this run has started", ("Name", "Kind", "Run", "State", "Requested"), rows),
    ]
    if len(found.children) > MAX_ROWS:
        blocks.append(more(len(found.children) - MAX_ROWS, "run"))
    yield Section("Other runs", blocks)


def _kind(child: RunView) -> str:
    """What kind of run it is; steps that make assets of assets are marked in their metadata."""
    mark = mark_of(child)
    return name(child.kind) if mark is None else f"transformation {name(mark.name)}"


def assets(found: Reconstruction, times: Times) -> Iterator[Section]:
    """What was read and written, by which step, and what steps have kept."""
    kept = [each for each in found.artifacts if each.kind is ArtifactKind.ARTIFACT and not each.superseded]
    if not found.lineage and not kept and not found.transformations:
        return
    blocks: list[Block] = []
    if found.lineage:
        blocks += _lineage(found, times)
    if found.transformations:
        blocks += _transformations(found)
    if kept:
        rows = [
            (name(each.name), step_name(each.step), f"{each.size:,} bytes", code(each.digest), name(each.media_type))
            for each in kept[:MAX_ROWS]
        ]
        blocks.append(Table("Artifacts that steps have kept", ("Name", "Step", "Size", "SHA-256", "Type"), rows))
        if len(kept) > MAX_ROWS:
            blocks.append(more(len(kept) - MAX_ROWS, "artifact"))
    yield Section("Assets", blocks)


def _lineage(found: Reconstruction, times: Times) -> Iterator[Block]:
    read: dict[tuple[str, int], list[str]] = {}
    for each in found.lineage:
        if each.role is Role.READ:
            read.setdefault((each.step, each.generation), []).append(name(uri_of(each.asset_id, each.version)))
    rows = [
        (
            *(times.moment(each.at), _DONE[each.role], _asset(each), step_name(each.step)),
            ", ".join(read.get((each.step, each.generation), ())[:MAX_MADE_OF]) if each.role is Role.WRITE else "",
        )
        for each in found.lineage[:MAX_ROWS]
    ]
    yield Table("Assets that were read and written", ("When", "What was done", "Asset", "Step", "Made of"), rows)
    if len(found.lineage) > MAX_ROWS:
        yield more(len(found.lineage) - MAX_ROWS, "asset")


def _transformations(found: Reconstruction) -> Iterator[Block]:
    rows = [
        (
            *(name(f"{each.name}@{each.version}"), code(name(each.run_id)), str(each.state)),
            *(", ".join(map(name, addresses[:MAX_MADE_OF])) for addresses in (each.inputs, each.outputs)),
            "" if each.confidence is None else f"{each.confidence:g}",
            "yes" if each.review_required else "no",
        )
        for each in found.transformations[:MAX_ROWS]
    ]
    yield Table(
        "Assets that were made of assets",
        ("Transformation", "Run", "State", "Made of", "Made", "How sure", "Review required"),
        rows,
    )
    if len(found.transformations) > MAX_ROWS:
        yield more(len(found.transformations) - MAX_ROWS, "transformation")


def _asset(each: LineageView) -> str:
    wanted = "" if each.wanted_id == each.asset_id else f" (asked for as {name(each.wanted_id)}, which was taken)"
    return f"{name(uri_of(each.asset_id, each.version))}{wanted}"
