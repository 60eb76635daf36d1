"""The loop of `nnfuzz watch`: turn by turn, over failed turns, until somebody ends it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from nnfuzz.backend.releases import ReleaseError
from nnfuzz.base.text import one_line
from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.history import events
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.turns import Turn, WatchState, read_state, write_state
from nnfuzz.serve.ledger_site import publish_ledger
from nnfuzz.watch.announcing import announce, news
from nnfuzz.watch.candidates import Candidate, Candidates
from nnfuzz.watch.turn import Surroundings, SystemTurn

LOCK = ".watch.lock"
LONGEST_PAUSE = 600.0
"""Seconds of waiting after many turns that broke off."""
_TICK = 0.2


@contextmanager
def watching_alone(ledger: Ledger) -> Iterator[None]:
    """One watch at a time works on a ledger. Raises: BugError if there is another one, OSError."""
    ledger.folder.mkdir(parents=True, exist_ok=True)
    with (ledger.folder / LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise BugError(
                f"another nnfuzz watch works on {ledger.folder} (process {lock.read().strip()}): "
                "end it first, or name another ledger"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@dataclass
class WatchLoop:
    """Runs turns. broken: how many turns broke off in a row. done: how many came to their end.
    announced: how many events were new.
    """

    around: Surroundings
    candidates: Mapping[str, Candidates]
    broken: int = 0
    done: int = 0
    announced: int = 0

    def run(self, turns: int | None = None) -> None:
        """Runs rounds of one turn for each system. turns: ends after so many; None for never.

        Raises: BugError if another watch works on the ledger, or its state is damaged.
        """
        with watching_alone(self.around.ledger):
            read_state(self.around.ledger)
            left = turns
            while left is None or left > 0:
                for name in self.candidates:
                    if self.around.stopped() or left == 0:
                        return
                    self._guarded(name)
                    left = None if left is None else left - 1
                if left != 0:
                    self._wait()

    def _guarded(self, name: str) -> None:
        """One turn of a system; an error ends this turn and no other."""
        for step in (self._turn, self._published):
            try:
                step(name)
            except Exception as error:
                self.broken += 1
                error_line = f"{type(error).__name__}: {one_line(error)}"
                self.around.log(f"{name}: the turn broke off: {error_line}")
                self._record_failure(name, error_line)
                return
        self.broken = 0
        self.done += 1

    def _turn(self, name: str) -> None:
        ledger, log = self.around.ledger, self.around.log
        state = read_state(ledger)
        if state.announced is None:  # earlier events are not new
            known = events(ledger.bugs())
            state = replace(state, announced=tuple(event.id for event in known))
            write_state(ledger, state)
        checked = state.checked.get(name, ())
        candidate = self.candidates[name].next(checked, state.interrupted(name))
        if candidate is None:
            raise ReleaseError("there is no release that can be run")
        state = state.beginning(name, candidate.id)
        write_state(ledger, state)
        own = self.candidates[name].settings
        turn = SystemTurn(self.around, name, own, candidate, state.number + 1)
        if candidate.id not in checked:
            log(f"{name}: {candidate.id} is new")
            self._prepared(name, candidate)
            if not turn.check():
                return
            state = state.having_checked(name, candidate.id)
            write_state(ledger, state)
        done = turn.fuzz()
        write_state(ledger, state.after(done))
        log(
            f"{name}: turn {done.number} on {done.release}: {done.tests} tests, "
            f"{done.findings} findings, {done.new} new bugs"
        )

    def _prepared(self, name: str, candidate: Candidate) -> None:
        """Makes the environment of a release. One that cannot be made is left alone for a day."""
        try:
            candidate.prepare()
        except Exception:
            self.candidates[name].failed[candidate.id] = time.monotonic()
            raise

    def _published(self, name: str) -> None:
        """Reports new events, writes the dashboard, and empties the outbox."""
        around, settings = self.around, self.around.settings
        state = read_state(around.ledger)
        events = news(around.ledger, state.announced or ())
        if events:
            state = state.announcing((event.id for event in events), bool(settings.announce))
            write_state(around.ledger, state)
            self.announced += len(events)
        for event in events:
            around.log(f"news: {event.line}")
        if settings.publish is not None:
            publish_ledger(around.ledger, settings.publish, around.today(), settings.address)
        self._deliver(state)

    def _deliver(self, state: WatchState) -> None:
        """Hands the events of the outbox to the command, which gets them again after a kill.

        Those that it does not accept stay; those of bugs that were removed go.
        """
        around, command = self.around, self.around.settings.announce
        waiting = [e for e in events(around.ledger.bugs()) if e.id in state.outbox]
        address = around.settings.address
        is_empty = not (waiting and command) or announce(command, waiting, address, around.log)
        if state.outbox and is_empty:
            write_state(around.ledger, replace(state, outbox=()))

    def _record_failure(self, name: str, error_line: str) -> None:
        """Writes down that a turn broke off, if the disk allows."""
        try:
            state = read_state(self.around.ledger)
            day = self.around.today().isoformat()
            write_state(
                self.around.ledger, state.after(Turn(state.number + 1, name, day, error=error_line))
            )
        except (OSError, BugError) as error:
            self.around.log(f"{name}: {one_line(error)}")

    def _wait(self) -> None:
        """Pauses between two rounds; longer, the more turns broke off in a row."""
        pause = self.around.settings.pause
        if self.broken:
            pause = max(pause, min(2.0 ** min(self.broken, 20), LONGEST_PAUSE))
        end = time.monotonic() + pause
        while time.monotonic() < end and not self.around.stopped():
            time.sleep(_TICK)
