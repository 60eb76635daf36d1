"""Makes the screenshots of the docs, in a headless Chromium (Debian's, with chromedriver).

    python -m scripts.make.pictures --ledger docs/bugs            # docs/ledger*.png
    python -m scripts.make.pictures --campaign nnfuzz-out/tvm     # docs/serve.png

A ledger with the watch.json of a watch shows its turns as well.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.serve.ledger_rows import page_of
from nnfuzz.serve.ledger_site import INDEX, publish_ledger
from scripts.bench.serve import served
from tests.report.browser import Browser

DOCS = Path(__file__).parents[2] / "docs"
WIDE, NARROW = 1160, 390
"""CSS pixels: a desktop's window, and a phone's screen."""


def of_ledger(browser: Browser, ledger: Ledger, folder: Path) -> None:
    """The list, what releases changed, the page of a bug that has a longer history, and the list on
    a narrow screen.
    """
    publish_ledger(ledger, folder, date.today())
    index = (folder / INDEX).as_uri()
    lived = {n: b for n, b in ledger.bugs().items() if b.state is BugState.FIXED} or ledger.bugs()
    name = max(lived, key=lambda n: len(lived[n].releases))
    taken(browser, index, "ledger.png", 900)
    taken(browser, index, "ledger_releases.png", 900, "#changes")
    taken(browser, (folder / page_of(name)).as_uri(), "ledger_bug.png", 900)
    taken(browser, index, "ledger_narrow.png", 900, "#filters", NARROW)


def taken(
    browser: Browser, address: str, file: str, height: int, place: str = "", width: int = WIDE
) -> None:
    """A screenshot of a page. Raises: SystemExit for an error in its console."""
    browser.open(address, width, height)
    if place:
        browser.run(f"document.querySelector('{place}')?.scrollIntoView()")
    browser.screenshot(DOCS / file)
    if errors := browser.errors():
        sys.exit(f"{file}: {errors}")
    print(DOCS / file)


def main(
    ledger: Annotated[Path | None, typer.Option(help="Folder of a ledger.")] = None,
    campaign: Annotated[Path | None, typer.Option(help="Folder of a campaign.")] = None,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(Path(folder) / "browser")
        try:
            if ledger is not None:
                of_ledger(browser, Ledger.opened(ledger), Path(folder) / "site")
            if campaign is not None:
                with served(campaign) as (address, _):
                    taken(browser, address, "serve.png", 1400)
        finally:
            browser.close()


if __name__ == "__main__":
    typer.run(main)
