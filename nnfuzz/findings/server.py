"""Serves the page of a campaign to this machine until Ctrl-C, made again while the campaign runs.

A foreign page in the same browser may let its own host name point to this machine (DNS rebinding)
and could then read this page as its own. So a request has to name this machine as OWN_NAMES do.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import below, making_sense
from nnfuzz.findings.page import CampaignReader, html_of
from nnfuzz.store.schema import FOLDERS

PAUSE = 2.0
"""Fewest seconds between two looks at the campaign."""
SHARE = 0.1
"""Share of a core that looking takes."""
HOST = "127.0.0.1"
OWN_NAMES = ("localhost", HOST)
GONE = "not to be read"
_SANDBOX = "default-src 'none'; sandbox allow-downloads"
TEXTS = (".md", ".py", ".json", ".txt")
"""Types of files that a browser shows; it saves other ones."""


class ServeError(Unreadable):
    """The page cannot be served; the message names the fix."""


class LivePage:
    """The page of a campaign as it is now. Raises: StoreError if there is no campaign."""

    def __init__(self, campaign: Path) -> None:
        self.campaign = campaign
        self._reader = CampaignReader(campaign, campaign / "index.html")
        self._page = self._reader.read(live=True)
        self._shown: object = None
        self.look()

    def look(self) -> None:
        """Makes the page again if something has changed; one that cannot be read any more stays,
        with the reason.
        """
        try:
            with making_sense(self.campaign):
                if (now := self._reader.state()) == self._shown:
                    return
                self._page, self._shown = self._reader.read(live=True), now
        except Unreadable as error:  # being replaced or damaged, or its disk is gone
            self._page, self._shown = replace(self._page, state=GONE, missing=[str(error)]), None
        self.html = html_of(self._page).encode("utf-8", errors="replace")

    def run(self, stop: threading.Event) -> None:
        """Looks until `stop` is set."""
        while not stop.is_set():
            began = time.monotonic()
            self.look()
            took = time.monotonic() - began
            stop.wait(max(PAUSE, took * (1 - SHARE) / SHARE))


class Server(ThreadingHTTPServer):
    """A server that listens at a port; 0: any that is free. Raises: ServeError."""

    daemon_threads = True

    def __init__(self, page: LivePage, port: int) -> None:
        self.page = page
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise ServeError(
                f"{HOST}:{port} cannot be served ({error.strerror}): choose another --port"
            ) from error

    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing: a reader that has gone is no news."""


class Handler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD for the page, and for the files of its findings."""

    server: Server
    timeout = 10.0  # seconds that a reader may be silent
    server_version, sys_version = "nnfuzz", ""

    def send_head(self) -> IO[bytes] | None:  # type: ignore[override]
        """Sends the headers and returns the body, if any."""
        path = self.path.partition("?")[0]
        if self.headers.get("Host", "").partition(":")[0].lower() not in OWN_NAMES:
            self.send_error(421, "this server has another name")
            return None
        if path == "/":
            return self._page(self.server.page.html)
        if os.path.isdir(place := self.translate_path(path)) and path.endswith("/"):
            return self.list_directory(place)
        return super().send_head()

    def _page(self, html: bytes) -> IO[bytes] | None:
        tag = f'"{hashlib.sha256(html).hexdigest()}"'
        same = self.headers.get("If-None-Match") == tag
        self.send_response(304 if same else 200)
        self.send_header("ETag", tag)
        if not same:
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(html)))
        self.end_headers()
        return None if same else BytesIO(html)

    def end_headers(self) -> None:
        if getattr(self, "path", "/").partition("?")[0] != "/":
            self.send_header("Content-Security-Policy", _SANDBOX)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        """The place of findings, or of something in them, by its address; "" for all else."""
        name = unquote(path.partition("?")[0]).removeprefix("/")
        with contextlib.suppress(Unreadable):
            place = below(self.server.page.campaign, name)
            if name.partition("/")[0] in FOLDERS and (place.is_file() or place.is_dir()):
                return str(place)
        return ""

    def guess_type(self, path: Any) -> str:
        shown = str(path).endswith(TEXTS)
        return "text/plain; charset=utf-8" if shown else "application/octet-stream"

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""


def serve(campaign: Path, port: int, note: Callable[[str], None]) -> None:
    """note: called with the address once the server answers.

    Raises: ServeError, StoreError, Unreadable.
    """
    page, stop = LivePage(campaign), threading.Event()
    with Server(page, port) as server:
        note(f"http://{HOST}:{server.server_port}/")
        watching = threading.Thread(target=page.run, args=[stop], daemon=True)
        watching.start()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        stop.set()
        watching.join()
