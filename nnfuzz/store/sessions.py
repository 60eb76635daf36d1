"""The time that a campaign has taken over all of its sessions, with the compilers' share of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nnfuzz.base.reading import MOST
from nnfuzz.base.writing import as_json
from nnfuzz.store.database import Database, Table

_KEY = "sessions"


@dataclass(frozen=True)
class Session:
    """One process that has worked on a campaign.

    started: of its first test, in seconds since 1970. seconds: wall time from then on. workers:
    tests that ran side by side. sut: seconds in compilers, by backend.
    """

    started: float
    seconds: float = 0.0
    workers: int = 1
    sut: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises: ValueError."""
        if not (0 <= self.started <= MOST and abs(self.seconds) <= MOST):
            raise ValueError("a time that no clock shows")
        if not 0 <= self.workers <= MOST:
            raise ValueError(f"{self.workers} workers")


class Sessions(Table):
    """All sessions in one entry of the table `meta`; the present one is the last."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._earlier: Sequence[Session] | None = None
        self._began, self._started = time.monotonic(), time.time()
        self._ended: float | None = None
        self._workers = 1
        self._sut: Callable[[], dict[str, float]] = dict
        self._sut_before: dict[str, float] = {}
        """Seconds in compilers before the clock was restarted."""
        self._sut_ended: dict[str, float] | None = None

    def rows(self) -> tuple[Session, ...]:
        """Returns every session as it was kept last, in their order. Raises: Unreadable."""
        return self._db.meta_as(tuple[Session, ...], _KEY, ())

    def begin(self) -> None:
        """Starts the clock of a session."""
        self._earlier = self.rows()
        self._began, self._ended, self._sut_ended = time.monotonic(), None, None
        ended = (session.started + session.seconds for session in self._earlier)
        self._started = max(time.time(), *ended, 0.0)
        self.touch()

    def restart_clock(self) -> None:
        """Leaves out the seconds up to now, in which compilers and PyTorch were imported."""
        self._started, self._began = self.moment(), time.monotonic()
        self._sut_before = self._sut()
        self.touch()

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
        earlier = self.rows() if self._earlier is None else self._earlier
        return sum(session.seconds for session in earlier)

    def seconds_in_all(self) -> float:
        """Returns the recorded wall seconds of all sessions."""
        return sum(session.seconds for session in self.rows())

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
        for session in self.rows():
            lanes += session.seconds * session.workers
            busy.update(session.sut)
        return {backend: spent / lanes for backend, spent in busy.items()} if lanes else {}

    def touch(self) -> None:
        """Keeps the time of the session, if it has begun."""
        if self._earlier is not None:
            own = Session(self._started, self.seconds(), self._workers, self.sut_seconds())
            self._db.set_meta(_KEY, as_json((*self._earlier, own)))
