"""A report as one HTML file: no scripts, nothing from elsewhere, readable on paper and aloud."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from typing import assert_never

from stepfast.reports.blocks import (
    Alarm,
    Block,
    Bullets,
    Document,
    Facts,
    Paragraph,
    Picture,
    Section,
    Span,
    Style,
    Table,
    Value,
    Words,
    spans,
)
from stepfast.reports.svg import as_svg

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1f; background: #fff; max-width: 64rem; margin: 0 auto;
  padding: 1.5rem; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.3rem; margin-top: 2.2rem; border-bottom: 1px solid #c8c8d0; }
h3 { font-size: 1.05rem; margin-top: 1.6rem; } h4 { font-size: 1rem; }
a { color: #0b4f9e; }
table { border-collapse: collapse; width: 100%; margin: .8rem 0; font-size: .92rem; }
caption { text-align: left; font-weight: 600; padding: .2rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #dcdce4; }
th { font-weight: 600; overflow-wrap: normal; }
.facts th { width: 12rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { background: #f4f4f7; border: 1px solid #dcdce4; padding: .6rem; white-space: pre-wrap; margin: .3rem 0; }
.note { color: #4a4a55; font-size: .9rem; }
.alarm { border-left: .3rem solid #a3121f; background: #fdf0f1; padding: .6rem .8rem; }
figure { margin: 1rem 0; overflow-x: auto; } svg { max-width: 100%; height: auto; }
figcaption { color: #4a4a55; font-size: .9rem; }
footer { margin-top: 2.5rem; border-top: 1px solid #c8c8d0; color: #4a4a55; font-size: .9rem; }
nav ul { columns: 2; padding-left: 1.2rem; }
@page { margin: 18mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; } nav { display: none; } a { color: inherit; }
  h2, h3, caption { break-after: avoid; } tr, figure, .alarm { break-inside: avoid; }
  thead { display: table-header-group; }
  details::details-content { content-visibility: visible; display: block; }
}
"""


def as_html(document: Document) -> str:
    """The whole report."""
    body = [f"<h1>{_text(document.title)}</h1>", *_blocks(document.summary, 2), *_contents(document.sections)]
    for number, section in enumerate(document.sections, 1):
        body.append(f'<section id="s{number}" aria-labelledby="h{number}">')
        body.append(f'<h2 id="h{number}">{_text(section.title)}</h2>')
        body += _blocks(section.blocks, 3)
        body.append("</section>")
    body.append(f"<footer><p>{_text(document.footer)}</p></footer>")
    return "\n".join([*_head(document.title), "<body>", "<main>", *body, "</main>", "</body>", "</html>"]) + "\n"


def _head(title: str) -> Iterator[str]:
    hashed = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{hashed}'; base-uri 'none'; form-action 'none'"
    yield from ("<!DOCTYPE html>", '<html lang="en">', "<head>", '<meta charset="utf-8">')
    # Before anything that it rules over.
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="referrer" content="no-referrer">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_text(title)}</title>"
    yield f"<style>{STYLE}</style>"
    yield "</head>"


def _contents(sections: Sequence[Section]) -> Iterator[str]:
    yield '<nav aria-label="Contents"><ul>'
    for number, section in enumerate(sections, 1):
        yield f'<li><a href="#s{number}">{_text(section.title)}</a></li>'
    yield "</ul></nav>"


def _text(text: str) -> str:
    return escape(text, quote=True)


def _words(words: Words) -> str:
    return "".join(_span(span) for span in spans(words))


def _span(span: Span) -> str:
    match span.style:
        case Style.PLAIN:
            return _text(span.text)
        case Style.STRONG:
            return f"<strong>{_text(span.text)}</strong>"
        case Style.CODE:
            return f"<code>{_text(span.text)}</code>"
        case _:
            assert_never(span.style)


def _blocks(blocks: Sequence[Block], level: int) -> Iterator[str]:
    for block in blocks:
        yield from _block(block, level)


def _block(block: Block, level: int) -> Iterator[str]:
    match block:
        case Section(title, blocks):
            heading = f"h{min(level, 6)}"
            yield f"<{heading}>{_text(title)}</{heading}>"
            yield from _blocks(blocks, level + 1)
        case Paragraph(words):
            yield f"<p>{_words(words)}</p>"
        case Alarm(words):
            yield f'<p class="alarm" role="note"><strong>Attention:</strong> {_words(words)}</p>'
        case Bullets(items):
            yield "<ul>"
            yield from (f"<li>{_words(item)}</li>" for item in items)
            yield "</ul>"
        case Facts(rows):
            yield '<table class="facts"><tbody>'
            yield from (f'<tr><th scope="row">{_text(name)}</th><td>{_words(words)}</td></tr>' for name, words in rows)
            yield "</tbody></table>"
        case Table():
            yield from _table(block)
        case Value():
            yield from _value(block)
        case Picture():
            yield f"<figure>{as_svg(block)}<figcaption>{_text(block.title)}</figcaption></figure>"
        case _:
            assert_never(block)


def _table(table: Table) -> Iterator[str]:
    yield f"<table><caption>{_text(table.about)}</caption>"
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in table.head)
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in table.rows:
        cells = "".join(f"<td>{_words(cell)}</td>" for cell in row)
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table>"


def _value(value: Value) -> Iterator[str]:
    # The first line break in a <pre> is not shown, so one of its own stands in front.
    shown = f"<pre>\n{_text(value.text)}</pre>"
    yield f"<details open><summary>{_text(value.title)}</summary>{shown}</details>" if value.title else shown
    if value.note:
        yield f'<p class="note">{_text(value.note)}</p>'
