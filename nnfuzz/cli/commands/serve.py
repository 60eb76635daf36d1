"""`nnfuzz serve`: the page of a campaign that lives while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.declared import OTHERS

PORT = 8765


def serve(
    campaign: Annotated[Path, typer.Argument(help="Folder of a campaign.", show_default=False)],
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
    from nnfuzz.serve.server import serve

    serve(campaign, port, lambda line: typer.echo(f"{line}  (Ctrl-C ends it)"))
