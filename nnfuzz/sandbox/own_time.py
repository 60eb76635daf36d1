"""The time that a process has had for a job, which its limits are compared with.

A wall clock blames a process for the work of others. Time in which it waited for a core, since the
machine is busy, does not count; nor does time in which nobody looked, since the campaign itself was
stopped or waited for its disk: the answer may lie there. What counts is time in which it computed,
slept, waited for something else, or was stopped.
"""

from __future__ import annotations

import time

LOOK_SECONDS = 1.0
"""The most that counts between two looks. Only after this time are waits for cores subtracted,
since that takes reading a file of the kernel.
"""


class OwnTime:
    """The own time that one process has had since this was made; the owner polls it regularly."""

    def __init__(self) -> None:
        self.began = self._looked = time.monotonic()
        self._seconds = 0.0
        self._pid = 0
        self._waited = 0.0

    @property
    def seconds(self) -> float:
        """Seconds by now, its waits for cores included."""
        return self._seconds + min(time.monotonic() - self._looked, LOOK_SECONDS)

    def exceeds(self, limit: float, pid: int | None) -> bool:
        """Whether the process has had more seconds than that; to be asked at every look."""
        self._seconds, self._looked = self.seconds, time.monotonic()
        if pid and pid != self._pid and self._seconds > LOOK_SECONDS:
            self._pid, self._waited = pid, core_wait(pid)
        if self._seconds <= limit:
            return False
        waited = core_wait(self._pid) - self._waited if self._pid else 0.0
        return self._seconds - waited > limit


def core_wait(pid: int) -> float:
    """Seconds for which the first thread of a process was ready to run and had no core; 0 if
    unknown.

    Source: /proc/PID/schedstat, see sched-stats in Linux's documentation.
    """
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
