"""Hands the new events of a ledger to a command: a webhook, a mail, a message."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Sequence
from urllib.parse import urljoin

from nnfuzz.base.text import one_line
from nnfuzz.bugs.history import BugEvent, events
from nnfuzz.bugs.ledger import Ledger, Note
from nnfuzz.serve.ledger_rows import page_of

SECONDS = 60.0
"""Time limit of the command."""


def news(ledger: Ledger, announced: Collection[str]) -> list[BugEvent]:
    """The events of a ledger that were not reported yet."""
    return [event for event in events(ledger.bugs()) if event.id not in announced]


def announce(command: str, events: Sequence[BugEvent], address: str, note: Note) -> bool:
    """Runs a command with the events as JSON on its standard input; whether it accepted them.

    address: of the dashboard, for links to pages. A command that fails is noted, and no more.
    """
    rows = [
        {
            "id": e.id,
            "bug": e.name,
            "day": e.day,
            "text": e.text,
            "page": urljoin(address, page_of(e.name)),
        }
        for e in events
    ]
    try:
        done = subprocess.run(
            ["sh", "-c", command],
            input=json.dumps({"schema": 1, "events": rows}),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        note(f"the command of announce has no end within {SECONDS:.0f} s; once more after a turn")
        return False
    if done.returncode:
        message = one_line(done.stderr.strip() or done.stdout.strip())
        note(
            f"the command of announce ended with {done.returncode}, once more after a turn: "
            f"{message}"
        )
    return not done.returncode
