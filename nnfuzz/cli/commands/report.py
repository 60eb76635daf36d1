"""A campaign as a page: `nnfuzz report` writes it, `nnfuzz serve` shows it while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.errors import tell, writing
from nnfuzz.cli.options import OTHERS, CampaignFolder

PAGE, PORT = "report.html", 8765


def report(
    campaign: CampaignFolder,
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
    from nnfuzz.findings.page import CampaignReader, html_of

    path = out or campaign / PAGE
    page = CampaignReader(campaign, path).read()
    for line in page.missing:
        tell(f"missing from the page: {line}")
    with writing(path):
        write_atomically(path, html_of(page).encode("utf-8", errors="replace"))
    typer.echo(path)


def serve(
    campaign: CampaignFolder,
    port: Annotated[
        int, OTHERS.option("To listen on; 0: any that is free.", min=0, max=65535)
    ] = PORT,
) -> None:
    """Show a campaign in the browser while it runs: findings as they come, speed, outcomes.

    \b
    nnfuzz serve campaign
    ssh -L 8765:127.0.0.1:8765 HOST            to see what is served on another machine

    The campaign is read and never written, and may be over as well. Ends with Ctrl-C.
    """
    from nnfuzz.findings.page import serve

    serve(campaign, port, lambda line: typer.echo(f"{line}  (Ctrl-C ends it)"))
