"""Results as a page of Markdown, such as the summary of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nnfuzz.corpus.verify import LevelResult, Status
from nnfuzz.findings.text import code, inline

MOST_ROWS = 50
"""Rows of a table at most: services that render job summaries cut them off at about a megabyte."""
MOST_REASONS = 10
CHARACTERS = 300


def results_page(results: Sequence[LevelResult], title: str, notes: Iterable[str] = ()) -> str:
    """Returns a Markdown page: counts, failures, reasons why tests were not compared, notes."""
    parts = [f"## {inline(title)}", _counts(results)]
    failed = [r for r in results if r.status in (Status.FAILED, Status.ERROR)]
    known = [r for r in results if r.status is Status.KNOWN]
    parts += [_table("Failures", failed)] if failed else []
    parts += [_folded(f"{len(known)} known", _table("", known))] if known else []
    for status in (Status.NOT_COMPARED, Status.SKIPPED):
        if reasons := Counter(r.message for r in results if r.status is status):
            lines = [
                f"- {n} times: {_short(text)}" for text, n in reasons.most_common(MOST_REASONS)
            ]
            parts.append(_folded(f"{reasons.total()} {status}", "\n".join(lines)))
    if lines := [f"- {inline(note)}" for note in notes]:
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _counts(results: Sequence[LevelResult]) -> str:
    columns = [s for s in Status if any(r.status is s for r in results)]
    rows = dict.fromkeys((r.backend, r.level) for r in results)
    lines = [_row(["backend", "level", *columns]), _row(["---"] * (len(columns) + 2))]
    for backend, level in rows:
        here = Counter(r.status for r in results if (r.backend, r.level) == (backend, level))
        lines.append(_row([inline(backend), inline(level), *(str(here[s]) for s in columns)]))
    return "\n".join(lines)


def _table(title: str, results: Sequence[LevelResult]) -> str:
    lines = [f"### {title}", ""] if title else []
    lines += [_row(["test", "backend", "level", "what"]), _row(["---"] * 4)]
    for r in results[:MOST_ROWS]:
        lines.append(_row([code(r.test), inline(r.backend), inline(r.level), _short(r.message)]))
    if len(results) > MOST_ROWS:
        lines += ["", f"... and {len(results) - MOST_ROWS} more"]
    return "\n".join(lines)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{inline(title)}</summary>\n\n{body}\n\n</details>"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _short(text: str) -> str:
    return inline(" ".join(text.split())[:CHARACTERS])
