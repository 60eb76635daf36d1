"""Serves the pages of a campaign until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from nnfuzz.base.reading import Unreadable
from nnfuzz.serve.app import pages_application
from nnfuzz.serve.guard import is_loopback, own_names
from nnfuzz.serve.watch import Watch

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that mean all addresses of this machine."""
TOKEN_BYTES = 24
BEGINNING = 1.0
"""Seconds between two looks for a campaign that has not begun."""
REQUEST_SECONDS = 10.0
"""Time limit of a request, from its first byte."""
SHORTEST = 16
"""Fewest characters of a token that a user chooses."""


class ServeError(Unreadable):
    """The pages cannot be served; the message names the fix."""


def serve(
    source: str, host: str, port: int, token: str | None, note: Callable[[str], None]
) -> None:
    """source: folder of a campaign. note: called with
    the address once the server answers, and with a note before if it waits for a campaign.

    Raises: ServeError, StoreError, Unreadable.
    """
    needed = token or (None if is_loopback(host) else secrets.token_urlsafe(TOKEN_BYTES))
    if needed is not None and len(needed) < SHORTEST:
        raise ServeError(f"a token of fewer than {SHORTEST} characters is guessed: choose another")
    with ExitStack() as stack:
        await_campaign(source, note)
        watch = Watch(Path(source), Path(source).resolve().name)
        watch.look()
        listener = stack.enter_context(_listening(host, port))
        port = listener.getsockname()[1]
        server: uvicorn.Server
        names = own_names(host)
        cookie = f"nnfuzz_{port}"
        app = pages_application(watch, names, needed, cookie, lambda: server.should_exit)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, ws="none", lifespan="off",
            timeout_graceful_shutdown=3, server_header=False, http=Impatient,
        )  # fmt: skip
        server = uvicorn.Server(config)
        reached = socket.gethostname() if host in EVERYWHERE else host
        address = f"[{reached}]" if ":" in reached else reached
        note(f"http://{address}:{port}/" + (f"?token={needed}" if needed else ""))
        stop = threading.Event()
        thread = threading.Thread(target=watch.run, args=[stop], daemon=True)
        thread.start()
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
        stop.set()
        thread.join()


class Impatient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """A connection that is closed if a request is not complete in time.

    uvicorn closes only connections that are silent between two requests.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._expect()
        super().data_received(data)

    def _expect(self) -> None:
        """Closes the connection later, unless another request has been answered."""
        self.loop.call_later(REQUEST_SECONDS, self._close_if, self.cycle)

    def _close_if(self, before: object) -> None:
        if self.cycle is before and not self.transport.is_closing():
            self.transport.close()


def await_campaign(source: str, note: Callable[[str], None], pause: float = BEGINNING) -> None:
    """Returns once there is something in the folder.

    A campaign makes its folder when it begins. note: called with a line if this waits.
    """
    if _has_begun(Path(source)):
        return
    note(f"{source}: waiting for a campaign to begin there: nnfuzz fuzz --out {source}")
    while not _has_begun(Path(source)):
        time.sleep(pause)


def _has_begun(folder: Path) -> bool:
    """Whether there is something in the folder, or a file in its place, for which nobody waits."""
    try:
        return any(folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises: ServeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ServeError(
            f"{host}:{port} cannot be served ({error.strerror or error}): choose another --port"
        ) from error
