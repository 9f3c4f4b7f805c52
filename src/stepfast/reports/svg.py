"""The picture of a run's steps as SVG within the page: boxes in layers, and arrows between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape

from stepfast.reports.blocks import Node, Picture

WIDTH, HEIGHT = 190, 58
BESIDE, BELOW, MARGIN = 24, 44, 12
LONGEST_LABEL = 24

# Paper and ink of each state, and a sign, as not everybody sees colours. All have a contrast of 7 to 1 at least.
_PAPER = {
    "completed": ("#e7f4ea", "#14532d", "✓"),
    "failed": ("#fdeaea", "#7f1d1d", "✗"),
    "skipped": ("#f1f1f4", "#3f3f46", "»"),
    "cancelled": ("#f6ecf8", "#581c63", "⊘"),
    "waiting": ("#fff6dc", "#5c3d00", "…"),
    "running": ("#e6f0fb", "#0b3a75", "▸"),
    "superseded": ("#f1f1f4", "#3f3f46", "↺"),
}
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#5b5b66"></path></marker></defs>'
)
_OTHER = ("#ffffff", "#3f3f46", "·")


def as_svg(picture: Picture) -> str:
    """The picture; whoever cannot see it is told what each box says."""
    places = dict(enumerate(_places(picture.nodes)))
    wide = max((x for x, _ in places.values()), default=0) + WIDTH + MARGIN
    high = max((y for _, y in places.values()), default=0) + HEIGHT + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(picture.title)}" '
        f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" font-family="system-ui, sans-serif">'
    )
    parts = [
        *(head, _TIP),
        *(_arrow(places[before], places[after]) for before, after in picture.arrows),
        *(_box(node, *places[number]) for number, node in enumerate(picture.nodes)),
        "</svg>",
    ]
    return "".join(parts)


def _places(nodes: Sequence[Node]) -> Iterator[tuple[int, int]]:
    in_layer: dict[int, int] = defaultdict(int)
    for node in nodes:
        column = in_layer[node.layer]
        in_layer[node.layer] += 1
        yield MARGIN + column * (WIDTH + BESIDE), MARGIN + node.layer * (HEIGHT + BELOW)


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = (start[0] + WIDTH // 2, start[1] + HEIGHT), (end[0] + WIDTH // 2, end[1])
    bend = max(16, abs(y2 - y1) // 2)
    way = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
    return f'<path d="{way}" fill="none" stroke="#5b5b66" stroke-width="1.5" marker-end="url(#tip)"></path>'


def _box(node: Node, x: int, y: int) -> str:
    paper, ink, sign = _PAPER.get(node.state, _OTHER)
    said = f"{node.id}: {node.state}{f', {node.detail}' if node.detail else ''}"
    dashes = ' stroke-dasharray="5 4"' if node.state not in _PAPER or node.state == "skipped" else ""
    return (
        f'<g><title>{escape(said)}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" '
        f'fill="{paper}" stroke="{ink}" stroke-width="1.5"{dashes}></rect>'
        f'<text x="{x + 10}" y="{y + 23}" font-size="14" font-weight="600" fill="{ink}">{_label(node.id)}</text>'
        f'<text x="{x + 10}" y="{y + 44}" font-size="12" fill="{ink}">{sign} {_label(node.state, node.detail)}</text>'
        "</g>"
    )


def _label(*parts: str) -> str:
    text = ", ".join(part for part in parts if part)
    return escape(text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…")
