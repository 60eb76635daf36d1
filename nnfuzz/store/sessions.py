"""The time that a campaign has taken, over all of its sessions, and the compilers' share of it."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

from nnfuzz.base.reading import MOST, Unreadable
from nnfuzz.store.columns import dumps, loads
from nnfuzz.store.database import Database, Table


class Sessions(Table):
    """One row per session, that is, per process that works on a campaign."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._began = time.monotonic()
        self._started = time.time()
        self._ended: float | None = None
        self._session: int | None = None
        self._workers = 1
        self._sut: Callable[[], dict[str, float]] = dict
        self._sut_before: dict[str, float] = {}
        """Seconds in compilers before the clock was restarted."""
        self._sut_ended: dict[str, float] | None = None

    def begin(self) -> None:
        """Starts the clock of a session, whose time is kept with every record."""
        self._began, self._ended, self._sut_ended = time.monotonic(), None, None
        self._started = max(time.time(), self.last_active())
        cursor = self._db.execute(
            "INSERT INTO sessions (started, seconds, workers, sut) VALUES (?, 0, 1, '{}')",
            self._started,
        )
        self._session = cursor.lastrowid

    def restart_clock(self) -> None:
        """Leaves out the seconds up to now, in which compilers and PyTorch were imported."""
        self._started, self._began = self.moment(), time.monotonic()
        self._sut_before = self._sut()
        query = "UPDATE sessions SET started = ? WHERE id = ?"
        self._db.execute(query, self._started, self._session)

    def moment(self) -> float:
        """Returns the time in seconds since 1970; it grows even if somebody sets the clock back."""
        return self._started + time.monotonic() - self._began

    def account(self, workers: int, sut: Callable[[], dict[str, float]]) -> None:
        """Has the session's time in compilers kept as well from now on.

        workers: per backend. sut: returns the seconds by backend.
        """
        self._workers, self._sut = workers, sut

    def seconds_before(self) -> float:
        """Returns the wall seconds of all earlier sessions, as far as they were recorded."""
        query = "SELECT coalesce(sum(seconds), 0) FROM sessions WHERE id IS NOT ?"
        return float(self._db.value(query, self._session))

    def seconds_in_all(self) -> float:
        """Returns the recorded wall seconds of all sessions."""
        return float(self._db.value("SELECT coalesce(sum(seconds), 0) FROM sessions"))

    def rows(self) -> list[tuple[float, float, int]]:
        """Returns of each session when it began (seconds since 1970), the wall seconds that it
        recorded, and its workers per backend.
        """
        query = "SELECT started, seconds, workers FROM sessions ORDER BY started"
        return self._db.execute(query).fetchall()

    def last_active(self) -> float:
        """Returns when something was recorded last, in seconds since 1970; 0 for never."""
        query = "SELECT coalesce(max(started + seconds), 0) FROM sessions"
        return float(self._db.value(query))

    def began(self) -> float:
        """Returns when the first session began, in seconds since 1970; 0 if there was none."""
        return float(self._db.value("SELECT coalesce(min(started), 0) FROM sessions"))

    def seconds(self) -> float:
        """Returns the wall seconds of this session, from `restart_clock`, or `begin` without it, to
        `stop_clock`.
        """
        return (self._ended or time.monotonic()) - self._began

    def stop_clock(self) -> None:
        """Ends the campaign's time: reductions after its last test do not count."""
        self._ended, self._sut_ended = self._ended or time.monotonic(), self.sut_seconds()

    def sut_seconds(self) -> dict[str, float]:
        """Returns the seconds in compilers of this session by backend, within its time."""
        if self._sut_ended is not None:
            return self._sut_ended
        before = self._sut_before
        return {name: spent - before.get(name, 0.0) for name, spent in self._sut().items()}

    def sut_shares(self) -> dict[str, float]:
        """Returns seconds in each compiler / (wall seconds x workers), over all sessions."""
        lanes, busy = 0.0, Counter[str]()
        for seconds, workers, sut in self._db.execute("SELECT seconds, workers, sut FROM sessions"):
            lanes += seconds * workers
            busy.update(loads(dict[str, float], sut))
        return {backend: spent / lanes for backend, spent in busy.items()} if lanes else {}

    def touch(self) -> None:
        """Keeps the time of the session."""
        self._db.execute(
            "UPDATE sessions SET seconds = ?, workers = ?, sut = ? WHERE id = ?",
            self.seconds(),
            self._workers,
            dumps(self.sut_seconds()),
            self._session,
        )

    def clock(self) -> Callable[[float], float]:
        """Returns a function from a time (seconds since 1970) to seconds of campaign time, over all
        sessions. That function raises Unreadable for a time that no clock shows.
        """
        query = "SELECT started, seconds FROM sessions ORDER BY started"
        sessions, before = [(0.0, 0.0)], 0.0
        for started, seconds in self._db.execute(query):
            sessions.append((started, before))
            before += seconds
        starts = [started for started, _ in sessions]

        def elapsed(at: float) -> float:
            if not 0 <= at <= MOST:
                raise Unreadable(f"{at} is no time of a campaign")
            place = bisect_right(starts, at) - 1
            started, earlier = sessions[place]
            return earlier + at - started if place > 0 else 0.0

        return elapsed
