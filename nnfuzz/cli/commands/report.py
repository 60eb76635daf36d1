"""`nnfuzz report CAMPAIGN`: a campaign as one HTML page that opens from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import tell, writing

PAGE = "report.html"


def report(
    campaign: Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help=f"Default: CAMPAIGN/{PAGE}.", show_default=False),
    ] = None,
) -> None:
    """Write a campaign as one self-contained HTML page: findings and outcomes.

    It may still be running. The page loads nothing from anywhere and links to the findings' folders
    beside it.
    """
    from nnfuzz.base.files import write_atomically
    from nnfuzz.serve.page import CampaignReader, html_of

    path = out or campaign / PAGE
    page = CampaignReader(campaign, path).read()
    for line in page.missing:
        tell(f"missing from the page: {line}")
    with writing(path):
        write_atomically(path, html_of(page).encode("utf-8", errors="replace"))
    typer.echo(path)
