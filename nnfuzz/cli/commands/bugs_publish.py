"""`nnfuzz bugs publish`: the dashboard of a ledger, as static files."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.cli.commands.bugs import LEDGER
from nnfuzz.cli.commands.bugs_export import bugs
from nnfuzz.cli.declared import AMOUNT, REPORTED
from nnfuzz.cli.errors import tell, writing
from nnfuzz.cli.shell import Grouped

__all__ = ["bugs", "publish_"]
SITE = Path("site")


@bugs.command("publish", cls=Grouped)
def publish_(
    ledger: Annotated[
        Path, typer.Argument(metavar="[LEDGER]", help="Folder of the ledger [default: bugs].")
    ] = LEDGER,
    out: Annotated[Path, AMOUNT.option("Folder for the files.", "DIR", show_default=True)] = SITE,
    address: Annotated[
        str, REPORTED.option("Where the files will be, for the links of the feed.", "URL")
    ] = "",
) -> None:
    """Write the dashboard of a ledger: pages that any web server has, and that open from the disk.

    \b
    nnfuzz bugs publish bugs --out site
    nnfuzz bugs publish bugs --out site --address https://example.org/bugs/

    index.html lists the bugs, open ones first, with a search and filters, what each release fixed
    and broke, and how the turns of nnfuzz watch went. Each bug has a page with its history.
    bugs.json has the same for programs, feed.xml is an Atom feed of all that happens.
    """
    from nnfuzz.bugs.ledger import Ledger
    from nnfuzz.serve.ledger_site import INDEX, publish_ledger

    with writing(out):
        content = publish_ledger(Ledger.opened(ledger), out, date.today(), address)
    for line in content.problems:
        tell(line)
    typer.echo(f"{len(content.bugs)} bugs in {out / INDEX}")
