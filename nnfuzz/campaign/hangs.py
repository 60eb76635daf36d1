"""Tests that look like hangs: kept at once, and confirmed at the end with the whole time limit.

Hangs with one signature are one pattern, of which the whole limit is spent on one test. Only a
campaign that ends by the clock has such: where tests are counted, every run gets the whole limit,
so that no clock decides which tests are made. Epochs count a suspected test as a hang, and a
suspected probe as unanswered; the row of the test stays as it is whatever is decided later, so that
a resumed campaign generates the same.
"""

from __future__ import annotations

import sys

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import HangRow
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.identity import TestId

SOME = 5  # hangs that are no accident


class SuspectedHangs:
    """The suspected tests of a campaign about which nothing is decided yet."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: dict[str, list[HangRow]] = {}
        """By signature."""
        self._asked: dict[TestId, HangRow] = {}
        self._count = 0
        for row in recorder.store.hangs.unconfirmed():
            self._waiting.setdefault(row.signature, []).append(row)

    def add(self, row: HangRow) -> None:
        """Keeps a test that looks like a hang."""
        self._count += 1
        self._recorder.suspect(row)
        self._waiting.setdefault(row.signature, []).append(row)

    def next(self) -> HangRow | None:
        """A run to be confirmed; None if there is none, or each pattern is being confirmed."""
        asked = {row.signature for row in self._asked.values()}
        for signature, rows in self._waiting.items():
            if rows and signature not in asked:
                row = rows.pop(0)
                self._asked[row.test] = row
                return row
        return None

    def decided(self, evidence: Evidence) -> bool:
        """Settles a suspected test by its evidence, and with it all of its pattern if it hangs;
        returns whether it was a suspected one.
        """
        row = self._asked.pop(evidence.test, None)
        if row is None:
            return False
        hangs = {f.signature.hash for f in evidence.confirmed if f.kind is OutcomeKind.TIMEOUT}
        if row.signature in hangs:
            for other in self._waiting.pop(row.signature, ()):
                self._recorder.same_hang(other)
        return True

    def patterns(self) -> int:
        """How many patterns wait for their confirmation."""
        return sum(bool(rows) for rows in self._waiting.values())

    @property
    def waiting(self) -> bool:
        """Whether some test is being confirmed or has to be."""
        return bool(self._asked or self.patterns())

    def most(self, tests: int) -> str:
        """A warning, returned once, if most tests look like hangs; otherwise "". tests: those that
        this session has recorded.
        """
        if self._count < SOME or 2 * self._count <= tests:
            return ""
        count, self._count = self._count, -sys.maxsize
        return (
            f"most of what runs looks like a hang: {count} of {max(count, tests)} "
            "tests. If the compiler is only slow, a larger timeout of the backend waits for it"
        )
