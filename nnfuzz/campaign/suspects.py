"""Tests that look like hangs: kept at once, decided by the time limit, and in nobody's way.

What counts as a hang is decided by the time limit alone, a setting. How long a run takes before it
is suspected follows the clock, so that must not decide what is generated either. In a campaign that
counts tests, the next epochs therefore wait for what is suspected, as for every other test. In one
that the clock ends anyway, nobody waits: a suspected test is taken for a hang by the epochs, and
its probe for unanswered. Both are kept with the row, so that a resumed campaign comes to the same.
"""

from __future__ import annotations

from nnfuzz.campaign.pace import Waiting
from nnfuzz.campaign.probe import Prober
from nnfuzz.campaign.recorder import Recorder
from nnfuzz.campaign.rows import HangRow
from nnfuzz.campaign.testrun import TestRun
from nnfuzz.testcase.test_id import Probe, TestId


class Suspects:
    """The suspected test runs of a session. earlier: by test that earlier sessions have suspected,
    the backends. waited_for: whether epochs and probing wait for suspects.
    """

    def __init__(self, recorder: Recorder, prober: Prober, waited_for: bool) -> None:
        self.waited_for = waited_for
        self.runs: set[TestRun] = set()
        self.earlier: dict[TestId, set[str]] = {}
        self._recorder = recorder
        self._prober = prober
        self._given_up: set[Probe] = set()
        for row in recorder.store.unconfirmed():
            self.earlier.setdefault(row.test, set()).add(row.backend)
            if row.late and isinstance(row.test, Probe):
                self._given_up.add(row.test)
        self._probes = sorted(self._given_up, reverse=True)

    def add(self, run: TestRun, waiting: Waiting) -> None:
        """Keeps a run that looks like a hang, and has nobody wait for it who need not."""
        self.runs.add(run)
        row = HangRow(
            run.test,
            run.epoch,
            waiting.backend,
            waiting.level,
            waiting.stage.value,
            waiting.seconds,
            run.failure(waiting).signature.hash,
            run.case.generated_for,
            self._recorder.items_in(run.case.graph),
            late=not self.waited_for,
        )
        self._recorder.suspect(row)
        if isinstance(run.test, Probe) and row.late and run.test not in self._given_up:
            self._given_up.add(run.test)
            self._prober.finished(run.test, {})

    def gives_up(self, test: TestId) -> bool:
        """Whether it is a probe whose answer nobody waits for any more."""
        return test in self._given_up

    def next_probe(self) -> Probe | None:
        """A probe that an earlier session has given up, to be decided now."""
        return self._probes.pop() if self._probes else None

    @property
    def indexes(self) -> set[int]:
        """Of the tests that earlier sessions have suspected."""
        return {test.index for test in self.earlier if test.index is not None}
