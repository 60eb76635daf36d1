"""`nnfuzz serve`: the page of a campaign that lives while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.declared import OTHERS

PORT = 8765


def serve(
    campaign: Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)],
    host: Annotated[
        str,
        OTHERS.option("Address to listen on; any but loopback needs a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int, OTHERS.option("To listen on; 0: any that is free.", min=0, max=65535)
    ] = PORT,
    token: Annotated[
        str | None,
        OTHERS.option(
            "What readers have to show [default: for other hosts than loopback a new one].",
            envvar="NNFUZZ_TOKEN",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show a campaign in the browser while it runs: speed, outcomes, findings as they come.

    \b
    nnfuzz serve campaign                      on this machine alone
    nnfuzz serve campaign --host 0.0.0.0       for others, with a token

    The campaign is read and never written, and may be over as well; one that
    has not begun is waited for. docs/CAMPAIGNS.md has the details. Ends
    with Ctrl-C.
    """
    from nnfuzz.serve.server import serve

    serve(campaign, host, port, token, lambda line: typer.echo(f"{line}  (Ctrl-C ends it)"))
