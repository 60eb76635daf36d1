"""Tests that look like hangs: kept at once, and confirmed at the end with the whole time limit.

Hangs with one signature are one pattern, of which the whole limit is spent on one test. Only a
campaign that ends by the clock has such: where tests are counted, every run gets the whole limit,
so that no clock decides which tests are made. Epochs count a suspected test as a hang: the row of
the test stays as it is whatever is decided later, so that a resumed campaign generates the same.
"""

from __future__ import annotations

from nnfuzz.records.rows import HangRow, HangStatus
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.identity import TestId

Decision = tuple[TestId, str, HangStatus]
"""Test, backend, and the result of the run that looked like a hang."""


class SuspectedHangs:
    """The suspected tests of a campaign about which nothing is decided yet."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: dict[str, list[HangRow]] = {}
        """By signature."""
        self._asked: dict[TestId, HangRow] = {}
        for row in recorder.store.hangs.unconfirmed():
            self._waiting.setdefault(row.signature, []).append(row)

    def add(self, row: HangRow) -> None:
        """Keeps a test that looks like a hang."""
        self._recorder.store.hangs.add(row)
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

    def decided(self, evidence: Evidence) -> list[Decision]:
        """Decides a suspected run by the evidence of its test, and if it hangs all of its pattern;
        nothing for other tests.
        """
        row = self._asked.pop(evidence.test, None)
        if row is None:
            return []
        confirmed = {failure.signature.hash for failure in evidence.confirmed}
        flaky = {failure.signature.hash for failure in evidence.flaky}
        if row.signature in confirmed:
            for other in self._waiting.pop(row.signature, ()):
                self._recorder.same_hang(other)
            return [(row.test, row.backend, HangStatus.CONFIRMED)]
        status = HangStatus.FLAKY if row.signature in flaky else HangStatus.ANSWERED
        return [(row.test, row.backend, status)]

    def __len__(self) -> int:
        return len(self._asked) + sum(map(len, self._waiting.values()))

    def patterns(self) -> int:
        """How many patterns wait for their confirmation."""
        return sum(bool(rows) for rows in self._waiting.values())
