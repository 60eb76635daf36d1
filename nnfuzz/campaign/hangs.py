"""Tests that look like hangs: kept at once, and confirmed later with the whole time limit.

Hangs with one signature are one pattern, of which the whole limit is spent on one test. In a
campaign with a number of tests, epochs wait for suspected hangs as for all other tests, so that no
clock decides which tests are made. A campaign that ends by the clock does not wait: its
epochs count a suspected test as a hang, and a suspected probe as unanswered. The row of the test
stays as it is whatever is decided later, so that a resumed campaign generates the same.
"""

from __future__ import annotations

import sys
from collections import deque

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import HangRow
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.identity import TestId

SOME = 5  # hangs that are no accident


class SuspectedHangs:
    """The suspected tests of a session, those that earlier sessions left included.

    waited_for: whether epochs wait for them.
    """

    def __init__(self, recorder: Recorder, waited_for: bool) -> None:
        self.waited_for = waited_for
        self._recorder = recorder
        self._waiting: dict[str, deque[HangRow]] = {}
        self._asked: dict[TestId, HangRow] = {}
        self._known: set[str] = set()
        self._late: set[TestId] = set()
        self._count = 0
        for row in recorder.store.hangs.unconfirmed():
            if row.late:
                self._take(row)

    def add(self, row: HangRow) -> None:
        """Keeps a test that looks like a hang."""
        self._count += 1
        self._recorder.suspect(row)
        if row.late and row.signature in self._known:
            self._recorder.same_hang(row)
        else:
            self._take(row)

    def _take(self, row: HangRow) -> None:
        self._waiting.setdefault(row.signature, deque()).append(row)
        if row.late:
            self._late.add(row.test)

    def next(self) -> tuple[TestId, str] | None:
        """A test to be confirmed, and its signature if that is confirmed already, else ""; None if
        there is none, or each pattern is being confirmed.
        """
        asked = {row.signature for row in self._asked.values()}
        for signature, rows in self._waiting.items():
            if rows and (signature in self._known or signature not in asked):
                row = rows.popleft()
                self._asked[row.test] = row
                return row.test, signature if signature in self._known else ""
        return None

    def decided(self, evidence: Evidence) -> None:
        """Settles a suspected test by its evidence. Other tests are left alone."""
        row = self._asked.pop(evidence.test, None)
        hangs = {f.signature.hash for f in evidence.confirmed if f.kind is OutcomeKind.TIMEOUT}
        if row is None or row.signature not in hangs:
            return
        self._known.add(row.signature)
        others = self._waiting.get(row.signature, deque())
        for other in [other for other in others if other.late]:
            self._recorder.same_hang(other)
            others.remove(other)

    def gave_up(self, test: TestId) -> bool:
        """Whether epochs count a test as unanswered, even if it answers later."""
        return test in self._late

    def patterns(self) -> int:
        """How many patterns wait for their confirmation."""
        return sum(bool(rows) for rows in self._waiting.values())

    @property
    def waiting(self) -> bool:
        """Whether somebody waits for the confirmation of a test."""
        return self.waited_for and bool(self._asked or self.patterns())

    def most(self, tests: int) -> str:
        """A warning, returned once, if most tests look like hangs; otherwise "". tests: those that
        this session has recorded; those that epochs do not wait for are among them.
        """
        if self.waited_for:
            tests += sum(map(len, self._waiting.values())) + len(self._asked)
        if self._count < SOME or 2 * self._count <= tests:
            return ""
        count, self._count = self._count, -sys.maxsize
        return (
            f"most of what runs looks like a hang: {count} of {max(count, tests)} "
            "tests. If the compiler is only slow, a larger timeout of the backend waits for it"
        )
