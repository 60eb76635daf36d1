"""Serves the page of a campaign until Ctrl-C, made again while the campaign runs.

A foreign page in the same browser may let its own host name point to this machine (DNS rebinding)
and could then read this page as its own. So without a token only `localhost` and addresses are
admitted as names of this server: an address cannot be redirected. With a token such a page lacks
the cookie, which the browser keeps for the name of this server.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, quote, unquote

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import below, making_sense
from nnfuzz.serve.page import CampaignReader, html_of
from nnfuzz.store.schema import FOLDERS

TOKEN_BYTES = 24
SHORTEST = 16
"""Fewest characters of a token that a user chooses."""
PAUSE = 2.0
"""Fewest seconds between two looks at the campaign."""
SHARE = 0.1
"""Share of a core that looking takes."""
LOCAL = "localhost"
EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that mean all addresses of this machine."""
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d+)?")
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
        self.html = html_of(self._page).encode("utf-8", errors="replace")

    def look(self) -> None:
        """Makes the page again; one that cannot be read any more stays, with the reason."""
        try:
            with making_sense(self.campaign):
                self._page = self._reader.read(live=True)
        except Unreadable as error:  # being replaced or damaged, or its disk is gone
            self._page = replace(self._page, state=GONE, missing=[str(error)])
        self.html = html_of(self._page).encode("utf-8", errors="replace")

    def run(self, stop: threading.Event) -> None:
        """Looks until `stop` is set."""
        while not stop.is_set():
            began = time.monotonic()
            self.look()
            took = time.monotonic() - began
            stop.wait(0.0 if self._reader.behind else max(PAUSE, took * (1 - SHARE) / SHARE))


class Server(ThreadingHTTPServer):
    """token: what readers have to show; None if none is needed. Raises: ServeError."""

    daemon_threads = True

    def __init__(self, page: LivePage, host: str, port: int, token: str | None) -> None:
        self.page, self.token = page, token
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise ServeError(
                f"{host}:{port} cannot be served ({error.strerror or error}): choose another --port"
            ) from error


class Handler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD for the page, and for the files of its findings."""

    server: Server
    timeout = 10.0  # seconds that a reader may be silent
    server_version, sys_version = "nnfuzz", ""

    def send_head(self) -> IO[bytes] | None:  # type: ignore[override]
        """Sends the headers; returns what is to be sent behind them."""
        path, _, query = self.path.partition("?")
        token, cookie = parse_qs(query).get("token", [""])[0], f"nnfuzz_{self.server.server_port}"
        if self.server.token is None and not is_own(self.headers.get("Host", "")):
            self.send_error(421, "this server has another name")
        elif token and self._fits(token):  # off to the same page without it, which history may have
            self.send_response(303)
            self.send_header("Location", ".")
            self.send_header("Set-Cookie", f"{cookie}={quote(token)}; HttpOnly; SameSite=Lax")
            self.end_headers()
        elif not self._fits(_cookie(self.headers.get("Cookie", ""), cookie)):
            self.send_error(401, "open the link with the token that nnfuzz serve has printed")
        elif path == "/":
            return self._page(self.server.page.html)
        elif os.path.isdir(place := self.translate_path(path)) and path.endswith("/"):
            return self.list_directory(place)
        else:
            return super().send_head()
        return None

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
        if not getattr(self, "path", "/").startswith(("/?", "/#")) and self.path != "/":
            self.send_header("Content-Security-Policy", _SANDBOX)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "no-referrer")
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
        return (
            "text/plain; charset=utf-8" if str(path).endswith(TEXTS) else "application/octet-stream"
        )

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""

    def _fits(self, token: str) -> bool:
        """Compares a token in a time that does not depend on its content."""
        return hmac.compare_digest(token.encode(), (self.server.token or "").encode())


def _cookie(header: str, name: str) -> str:
    """The value of a cookie; "" if there is none."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return next((unquote(value) for key, _, value in pairs if key == name), "")


def serve(
    campaign: Path, host: str, port: int, token: str | None, note: Callable[[str], None]
) -> None:
    """note: called with the address once the server answers, and before if it waits for a campaign.

    Raises: ServeError, StoreError, Unreadable.
    """
    needed = token or (None if is_loopback(host) else secrets.token_urlsafe(TOKEN_BYTES))
    if needed is not None and len(needed) < SHORTEST:
        raise ServeError(f"a token of fewer than {SHORTEST} characters is guessed: choose another")
    await_campaign(campaign, note)
    page, stop = LivePage(campaign), threading.Event()
    with Server(page, host, port, needed) as server:
        reached = socket.gethostname() if host in EVERYWHERE else host
        address = f"[{reached}]" if ":" in reached else reached
        query = f"?token={quote(needed)}" if needed else ""
        note(f"http://{address}:{server.server_address[1]}/{query}")
        watching = threading.Thread(target=page.run, args=[stop], daemon=True)
        watching.start()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        stop.set()
        watching.join()


def await_campaign(folder: Path, note: Callable[[str], None], pause: float = 1.0) -> None:
    """Returns once there is something in the folder: a campaign makes it when it begins.

    note: called with a line if this waits. pause: seconds between two looks.
    """
    waits = False
    while not folder.is_file() and not any(folder.glob("*")):
        if not waits:
            note(f"{folder}: waiting for a campaign to begin there: nnfuzz fuzz --out {folder}")
        waits = True
        time.sleep(pause)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOCAL


def is_own(host: str) -> bool:
    """Whether a Host header has a name that no other machine can take: localhost or an address."""
    found = _HOST.fullmatch(host.lower())
    name = (found[1] or found[2]) if found else ""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.rstrip(".") == LOCAL
    return True
