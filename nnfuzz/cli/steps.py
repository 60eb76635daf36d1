"""Progress over a known number of steps: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_SECONDS = 10.0

Advance = Callable[[str], None]
"""Counts one step; the text says how things stand."""


@contextmanager
def steps(label: str, total: int) -> Iterator[Advance]:
    """Yields what is to be called after each step. Everything goes to stderr."""
    if not sys.stderr.isatty():
        yield _lines(label, total)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Left(),
        TextColumn("{task.fields[note]}", markup=False),
    )
    with Progress(*columns, console=Console(file=sys.__stderr__)) as progress:
        task = progress.add_task(label, total=total, note="")
        yield lambda note: progress.update(task, advance=1, note=note)


def _lines(label: str, total: int) -> Advance:
    done, due = 0, time.monotonic() + LINE_SECONDS

    def advance(note: str) -> None:
        nonlocal done, due
        done += 1
        if done == total or time.monotonic() >= due:
            due = time.monotonic() + LINE_SECONDS
            print(f"{label}: {done} of {total}{', ' if note else ''}{note}", file=sys.stderr)

    return advance
