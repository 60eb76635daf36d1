"""The dashboard of a ledger as `nnfuzz serve` shows it: anew whenever the ledger changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from nnfuzz.bugs.bug import FILE
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.turns import FILE as STATE
from nnfuzz.serve.guard import Guard
from nnfuzz.serve.ledger_site import publish_ledger
from nnfuzz.serve.page import page_script, script_hash

LOOK_SECONDS = 5.0


class LedgerWatch:
    """Keeps the files of a dashboard up to date. site: folder for them, which nobody else has."""

    def __init__(self, folder: Path, site: Path, note: Callable[[str], None]) -> None:
        self._ledger = Ledger(folder)
        self._site = site
        self._note = note
        self._stamp: object = None

    def look(self) -> None:
        """Writes the files, if the ledger is not as it was or a day has passed."""
        stamp = (date.today(), self._files())
        if stamp == self._stamp:
            return
        try:
            publish_ledger(self._ledger, self._site, date.today())
            self._stamp = stamp
        except OSError as error:  # a bug may go meanwhile; the next look shows it
            self._note(f"the dashboard stays as it was: {error}")

    def _files(self) -> list[tuple[str, int]]:
        """The files that the dashboard depends on, with the time of their last change."""
        files = []
        for name in (FILE, STATE):
            for file in self._ledger.folder.rglob(name):
                try:
                    files.append((str(file), file.stat().st_mtime_ns))
                except FileNotFoundError:
                    continue
        return sorted(files)

    def run(self, stop: threading.Event) -> None:
        """Looks until `stop` is set."""
        while not stop.wait(LOOK_SECONDS):
            self.look()

    def application(self, names: frozenset[str], token: str | None, cookie: str) -> ASGIApp:
        """Serves the files. names, token, cookie: see Guard."""
        policy = (
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
            f"script-src 'sha256-{script_hash(page_script('page.js.jinja'))}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        files = Mount("/", StaticFiles(directory=self._site, html=True))
        return Guard(Starlette(routes=[files]), names, token, cookie, policy)
