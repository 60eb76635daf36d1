"""Notices when the campaign's own thread does not go on, and says where it is.

That thread never waits for a process without a limit (nnfuzz.sandbox.sandbox), but it reads and
writes files: on a disk or a share that does not answer it stands still, and with it the whole
campaign. Nobody can do that in its place, so it is told, by another thread, and told again when it
is over.
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
"""Seconds of its own time in which it neither looks after processes nor computes."""
TICK_SECONDS, COMPUTING = 0.5, 0.05
"""Between looks; of that time, what is computing."""
OWN = str(Path(__file__).parents[1]) + os.sep


class Watchdog:
    """A context manager, of the thread that enters it.

    note: says something, from any thread. looks: how often that thread has looked after processes,
    by now. patience: seconds.
    """

    def __init__(
        self,
        note: Callable[[str], None],
        looks: Callable[[], int],
        patience: float = PATIENCE,
    ) -> None:
        self.standstills = 0
        """How often it stood still, by now."""
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
        seen, computed, looked = self._looks(), time.clock_gettime(cpu), time.monotonic()
        clock, limit = OwnTime(), self._patience
        while not self._ended.wait(tick):
            looks, computes, now = self._looks(), time.clock_gettime(cpu), time.monotonic()
            if now - looked > self._patience:
                self._note(f"all of nnfuzz was stopped for {now - looked:.0f} s")
                self.standstills += 1
            if looks != seen or computes - computed > COMPUTING * tick:
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
            seen, computed, looked = looks, computes, now

    def _place(self) -> str:
        """Where the watched thread is: the innermost lines of nnfuzz, and its file."""
        frame: FrameType | None = sys._current_frames().get(self._watched)
        told: list[str] = []
        while frame and len(told) < 3:
            code = frame.f_code
            if code.co_filename.startswith(OWN):
                place = code.co_filename.removeprefix(OWN)
                told.append(f"{code.co_qualname} ({place}:{frame.f_lineno}{_about(frame)})")
            frame = frame.f_back
        return ", called by ".join(told) or "none of its lines"


def _about(frame: FrameType) -> str:
    """The first file or address among what a function works with."""
    for value in frame.f_locals.values():
        if isinstance(value, Path) or (isinstance(value, str) and "://" in value):
            return f", {visible(str(value))[:200]}"
    return ""
