"""The time that a campaign has taken, over all of its sessions, and what compilers had of it."""

from __future__ import annotations

import platform
import sqlite3
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from nnfuzz.campaign.tables.database import Database, dumps, loads
from nnfuzz.execute.deviation import Deviation, Habits
from nnfuzz.reading import MOST, Unreadable, read
from nnfuzz.writing import as_json

HOST = "host"
"""In the meta table: the name of the machine that has worked on it last."""


class Sessions(Database):
    """Each process that works on a campaign is a session."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None):
        super().__init__(folder, connection, lock)
        self._began = time.monotonic()
        self._started = time.time()
        self._ended: float | None = None
        self._session: int | None = None
        self._workers = 1
        self._sut: Callable[[], dict[str, float]] = dict

    def begin_session(self) -> None:
        """Starts the clock of a session; its time is kept with every record."""
        self._began, self._ended = time.monotonic(), None
        self._started = max(time.time(), self.seen_last())
        cursor = self._db.execute(
            "INSERT INTO sessions (started, seconds, workers, sut) VALUES (?, 0, 1, '{}')",
            [self._started],
        )
        self._session = cursor.lastrowid
        self.set_meta(HOST, platform.node())

    def moment(self) -> float:
        """Seconds since 1970: later ones are greater, even if somebody sets the clock meanwhile."""
        return self._started + time.monotonic() - self._began

    def account(self, workers: int, sut: Callable[[], dict[str, float]]) -> None:
        """From now on, the session's time in compilers is kept as well.

        workers: per backend. sut: tells the seconds by backend.
        """
        self._workers, self._sut = workers, sut

    def seconds_before(self) -> float:
        """Wall seconds of all earlier sessions, as far as they were recorded."""
        query = "SELECT coalesce(sum(seconds), 0) FROM sessions WHERE id IS NOT ?"
        return self._db.execute(query, [self._session]).fetchone()[0]

    def sessions(self) -> list[tuple[float, float, int]]:
        """When each began (seconds since 1970), wall seconds that it recorded, workers of each
        backend.
        """
        query = "SELECT started, seconds, workers FROM sessions ORDER BY started"
        return self._db.execute(query).fetchall()

    def seen_last(self) -> float:
        """When something was recorded last, in seconds since 1970; 0 for never."""
        query = "SELECT coalesce(max(started + seconds), 0) FROM sessions"
        return float(self._db.execute(query).fetchone()[0])

    def session_seconds(self) -> float:
        """Wall seconds from begin_session to stop_clock."""
        return (self._ended or time.monotonic()) - self._began

    def stop_clock(self) -> None:
        """What comes now is no longer the campaign's time: reducing what it has found."""
        self._ended = self._ended or time.monotonic()

    def sut_shares(self) -> dict[str, float]:
        """Seconds inside each compiler / (wall seconds x workers), over all sessions."""
        lanes, busy = 0.0, Counter[str]()
        for seconds, workers, sut in self._db.execute("SELECT seconds, workers, sut FROM sessions"):
            lanes += seconds * workers
            busy.update(loads(dict[str, float], sut))
        return {backend: spent / lanes for backend, spent in busy.items()} if lanes else {}

    def set_habits(self, habits: Mapping[str, Habits]) -> None:
        """Keeps what compilers were found to compute otherwise everywhere, by backend."""
        told = {name: [as_json(habit) for habit in own] for name, own in habits.items()}
        self.set_meta("habits", told)

    def habits(self, backend: str) -> tuple[Deviation, ...] | None:
        """Those of a backend; None if it was not asked."""
        told = self.meta("habits", {}).get(backend)
        return None if told is None else read(tuple[Deviation, ...], told)

    def touch(self) -> None:
        """Keeps the time of the session."""
        self._db.execute(
            "UPDATE sessions SET seconds = ?, workers = ?, sut = ? WHERE id = ?",
            [self.session_seconds(), self._workers, dumps(self._sut()), self._session],
        )

    def clock(self) -> Callable[[float], float]:
        """Tells seconds of campaign time, over all sessions, of a moment (seconds since 1970).

        What it returns raises: Unreadable for what is no moment.
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
