"""Results as a page of Markdown, such as the summary of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nnfuzz.corpus.verify import BAD, LevelResult, Status
from nnfuzz.findings.text import environment

MOST_ROWS = 50
"""Rows of a table at most: services that render job summaries cut them off at about a megabyte."""
MOST_REASONS = 10
CHARACTERS = 300


def results_page(results: Sequence[LevelResult], title: str, notes: Iterable[str] = ()) -> str:
    """Returns a Markdown page: counts, failures, reasons why tests were not compared, notes."""
    levels: dict[tuple[str, str], Counter[Status]] = {}
    uncompared = {status: Counter[str]() for status in (Status.NOT_COMPARED, Status.SKIPPED)}
    for result in results:
        levels.setdefault((result.backend, result.level), Counter())[result.status] += 1
        if result.status in uncompared:
            uncompared[result.status][result.message] += 1
    template = environment().get_template("results.md.jinja")
    return template.render(
        title=title,
        statuses=[s for s in Status if any(counts[s] for counts in levels.values())],
        levels=levels,
        failed=[r for r in results if r.status in BAD],
        known=[r for r in results if r.status is Status.KNOWN],
        uncompared={status: reasons for status, reasons in uncompared.items() if reasons},
        notes=list(notes),
        most_rows=MOST_ROWS,
        most_reasons=MOST_REASONS,
        short=lambda text: " ".join(text.split())[:CHARACTERS],
    )
