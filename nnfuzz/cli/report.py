"""`nnfuzz report CAMPAIGN`: a campaign as one HTML page that opens from disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import writing

if TYPE_CHECKING:
    from nnfuzz.campaign.rows import TestRow
    from nnfuzz.campaign.store import Store
    from nnfuzz.ir.features import Features
    from nnfuzz.report.page import Campaign
    from nnfuzz.report.page_figures import TestLine

PAGE = "report.html"


def report(
    campaign: Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help=f"Default: CAMPAIGN/{PAGE}.", show_default=False),
    ] = None,
) -> None:
    """Write a campaign as one self-contained HTML page: findings, outcomes, diversity.

    It may still be running. The page loads nothing from anywhere and links to the findings' folders
    beside it.
    """
    from nnfuzz.campaign.store import Store
    from nnfuzz.report.files import write_atomically
    from nnfuzz.report.page import campaign_page

    path = out or campaign / PAGE
    with Store.open(campaign, write=False) as store:
        page = campaign_page(read_campaign(store), path)
    with writing(path):
        write_atomically(path, page.encode("utf-8", errors="replace"))
    typer.echo(path)


def read_campaign(store: Store) -> Campaign:
    """The content of the page from the store; tests are read one by one as the page asks."""
    from collections import Counter
    from statistics import fmean

    from nnfuzz.campaign.statistics import Statistics, summary
    from nnfuzz.report.page import Campaign

    figures = Statistics()
    for row in store.tests():
        figures.add(row)
    findings = store.findings()
    events = Counter(event.kind for event in store.events())
    extra = {
        "versions": store.meta("versions", {}),
        "seed": store.config().get("seed"),
        "config": store.config(),
    }
    share = fmean(store.sut_shares().values() or [0.0])
    figures_so_far = summary(figures, findings, store.seconds_before(), share, extra)
    return Campaign(
        folder=store.folder,
        summary={**figures_so_far, "sut_share": share},
        findings=[row.to_json() for row in findings],
        tests=_lines(store),
        unsupported=store.reasons(),
        events={**events, **{k: n for k, n in store.buckets().items() if k != "finding"}},
    )


def _lines(store: Store) -> Iterator[TestLine]:
    from nnfuzz.report.page_figures import TestLine

    times = store.elapsed()
    for row, features in _with_features(store):
        yield TestLine(times.get(row.index, 0.0), row.status, row.outcomes, features)


def _with_features(store: Store) -> Iterator[tuple[TestRow, Features | None]]:
    """Each test with the features of its graph, in order of index, without holding all of them."""
    kept = store.features()
    index, found = next(kept, (-1, None))
    for row in store.tests():
        while found is not None and index < row.index:
            index, found = next(kept, (-1, None))
        yield row, found if index == row.index else None
