"""HTML for notebooks: small tables, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_CELL = '<td style="text-align:left;white-space:pre-wrap">'


def html_table(rows: Iterable[Sequence[object]], headings: Sequence[str] = ()) -> str:
    """Rows of texts as an HTML table."""
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    body = "".join(
        f"<tr>{''.join(f'{_CELL}{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"
