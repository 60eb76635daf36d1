"""`nnfuzz report CAMPAIGN`: a campaign as one HTML page that opens from disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.base.untrusted import as_far_as, whole_or
from nnfuzz.base.writing import as_json
from nnfuzz.cli.errors import tell, writing

if TYPE_CHECKING:
    from nnfuzz.serve.page import CampaignPage
    from nnfuzz.store.store import Store

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
    from nnfuzz.base.files import write_atomically
    from nnfuzz.serve.page import campaign_page
    from nnfuzz.store.store import Store

    path = out or campaign / PAGE
    with Store.open(campaign, write=False) as store:
        content = read_campaign(store)
        page = campaign_page(content, path)
    for line in dict.fromkeys(content.missing):
        tell(f"missing from the page: {line}")
    with writing(path):
        write_atomically(path, page.encode("utf-8", errors="replace"))
    typer.echo(path)


def read_campaign(store: Store) -> CampaignPage:
    """The content of the page from the store; tests are read one by one as the page asks."""
    from collections import Counter

    from nnfuzz.serve.page import CampaignPage
    from nnfuzz.store.statistics import Statistics
    from nnfuzz.store.summary import Summary

    missing: list[str] = []
    figures = Statistics()
    for row in as_far_as(store.tests.rows(), "the tests", missing):
        figures.add(row)
    findings = whole_or([], store.findings, "the findings", missing)
    events = Counter(event.kind for event in whole_or([], store.events.rows, "the events", missing))
    config = whole_or({}, lambda: dict(store.config()), "the settings", missing)
    summary = Summary.of(
        figures,
        findings,
        whole_or(0.0, store.sessions.seconds_in_all, "the time", missing),
        whole_or({}, store.sessions.sut_shares, "the time in compilers", missing),
        versions=whole_or({}, lambda: store.meta("versions", {}), "the versions", missing),
        seed=config.get("seed"),
        config=config,
    )
    buckets = whole_or({}, store.occurrences.buckets, "the counts of failures", missing)
    return CampaignPage(
        folder=store.folder,
        summary=as_json(summary),
        findings=[as_json(row) for row in findings],
        tests=(line for _, line in as_far_as(store.lines(), "the tests and their graphs", missing)),
        unsupported=whole_or({}, store.restraints.reasons, "the refusals", missing),
        events={**events, **{k: n for k, n in buckets.items() if k != "finding"}},
        missing=missing,
        began=_began(store, missing),
    )


def _began(store: Store, missing: list[str]) -> str:
    """When the first session began, in UTC; "" if that is not known."""
    from datetime import UTC, datetime

    def text() -> str:
        seconds = store.sessions.began()
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}" if seconds else ""

    return str(whole_or("", text, "the sessions", missing))
