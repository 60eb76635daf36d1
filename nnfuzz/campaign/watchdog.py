"""Reports when the campaign's own thread stands still, and at which of its lines.

That thread never waits for a process without a limit (nnfuzz.sandbox.sandbox), but it reads and
writes files: if a disk or a share does not answer, it stands still, and the whole campaign with it.
Another thread reports that, and reports again when the campaign goes on.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

from nnfuzz.base.text import visible
from nnfuzz.sandbox.own_time import OwnTime

PATIENCE = 30.0
"""Seconds of its own time in which the thread neither polls processes nor computes."""
TICK_SECONDS, COMPUTING = 0.5, 0.05
"""Seconds between two checks; the share of that time in which a thread that works computes."""
OWN = str(Path(__file__).parents[1]) + os.sep


class Watchdog:
    """A context manager, of the thread that enters it.

    note: shows a line; it may be called from any thread. looks: returns how often the watched
    thread has polled processes. patience: seconds.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        looks: Callable[[], int],
        patience: float = PATIENCE,
    ) -> None:
        self.standstills = 0
        """How often the thread stood still."""
        self._note = note
        self._looks = looks
        self._patience = patience
        self._ended = threading.Event()
        self._watched = threading.get_ident()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        cpu = time.pthread_getcpuclockid(self._watched)
        tick = min(TICK_SECONDS, self._patience / 4)
        looks_before, computed, looked = self._looks(), time.clock_gettime(cpu), time.monotonic()
        clock, limit = OwnTime(), self._patience
        while not self._ended.wait(tick):
            looks, computes, now = self._looks(), time.clock_gettime(cpu), time.monotonic()
            if now - looked > self._patience:
                self._note(f"all of nnfuzz was stopped for {now - looked:.0f} s")
                self.standstills += 1
            if looks != looks_before or computes - computed > COMPUTING * tick:
                if limit > self._patience:
                    self._note(f"the campaign goes on, after {clock.seconds:.0f} s")
                clock, limit = OwnTime(), self._patience
            elif clock.exceeds(limit, os.getpid()):
                self.standstills += limit == self._patience
                limit *= 2
                self._note(
                    f"the campaign itself has not gone on for {clock.seconds:.0f} s: it is at "
                    f"{self._place()}"
                )
            looks_before, computed, looked = looks, computes, now

    def _place(self) -> str:
        """The innermost lines of nnfuzz that the watched thread is at, and its file."""
        frame: FrameType | None = sys._current_frames().get(self._watched)
        places: list[str] = []
        while frame and len(places) < 3:
            code = frame.f_code
            if code.co_filename.startswith(OWN):
                place = code.co_filename.removeprefix(OWN)
                places.append(f"{code.co_qualname} ({place}:{frame.f_lineno}{_about(frame)})")
            frame = frame.f_back
        return ", called by ".join(places) or "none of its lines"


def _about(frame: FrameType) -> str:
    """The first file or address among the local variables of a function."""
    for value in frame.f_locals.values():
        if isinstance(value, Path) or (isinstance(value, str) and "://" in value):
            return f", {visible(str(value))[:200]}"
    return ""
