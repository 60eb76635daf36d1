"""Sends changes of the campaign to an open page as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from nnfuzz.serve.watch import PageSnapshot

PAUSE_SECONDS = 0.5
"""Seconds between two looks at the snapshot."""
QUIET_SECONDS = 15.0
"""Seconds after which something is sent, since proxies close silent connections."""


def frame(event: str, data: str, number: int) -> str:
    """One event. Line ends in the data are escaped.

    Source: HTML, Server-sent events.
    """
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    fields = "".join(f"data: {line}\n" for line in lines)
    return f"id: {number}\nevent: {event}\n{fields}\n"


async def events(
    latest: Callable[[], PageSnapshot], ended: Callable[[], bool], pause: float = PAUSE_SECONDS
) -> AsyncIterator[str]:
    """A frame of the snapshot at once and after each change, until the server ends."""
    sent, quiet = -1, 0.0
    yield "retry: 3000\n\n"
    while not ended():
        now = latest()
        quiet += pause
        if now.number != sent:
            sent, quiet = now.number, 0.0
            yield frame("state", json.dumps(now.to_json()), now.number)
        elif quiet >= QUIET_SECONDS:
            quiet = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(pause)
