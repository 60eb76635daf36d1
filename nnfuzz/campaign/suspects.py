"""Tests that look like hangs: recorded at once, decided by a time limit, and in no other's way.

The time after which a run is suspected follows the clock, so it must not decide which tests are
generated. In a campaign with a number of tests, the backend's time limit alone decides which runs
are hangs, and the next epochs wait for suspected tests as for all others. A campaign that ends by
the clock does not wait: its epochs count a suspected test as a hang, and a suspected probe as
unanswered. Both facts are stored with the row, so that a resumed campaign generates the same. Such
a campaign decides hangs by how long other runs take (nnfuzz.campaign.pace), and confirms each
signature once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.campaign.pace import Waiting
from nnfuzz.campaign.testrun import TestRun
from nnfuzz.feedback.probe import Prober
from nnfuzz.records.rows import HangRow
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.identity import Probe, TestId
from nnfuzz.triage.signature import Failure

SOME = 5  # hangs that are no accident


class Suspects:
    """The suspected test runs of a session.

    earlier: the backends by test that earlier sessions have suspected. waited_for: whether epochs
    and probing wait for suspects. known: signatures of confirmed hangs, if nothing waits; further
    hangs with one of these signatures are not confirmed again.
    """

    def __init__(self, recorder: Recorder, prober: Prober, waited_for: bool) -> None:
        self.waited_for = waited_for
        self.runs: set[TestRun] = set()
        self.earlier: dict[TestId, set[str]] = {}
        self.known: set[str] = set()
        if not waited_for:
            rows = recorder.rows.values()
            self.known |= {row.signature for row in rows if row.kind == OutcomeKind.TIMEOUT}
        self._recorder = recorder
        self._prober = prober
        self._given_up: set[Probe] = set()
        self._count = 0
        for row in recorder.store.hangs.unconfirmed():
            self.earlier.setdefault(row.test, set()).add(row.backend)
            if row.late and isinstance(row.test, Probe):
                self._given_up.add(row.test)
        self._probes = sorted(self._given_up, reverse=True)

    def confirm(self, failures: Iterable[Failure]) -> None:
        """Adds the signatures of the hangs among confirmed failures to `known`."""
        if not self.waited_for:
            hangs = (f for f in failures if f.kind is OutcomeKind.TIMEOUT)
            self.known.update(failure.signature.hash for failure in hangs)

    def add(self, run: TestRun, waiting: Waiting) -> str:
        """Records a run that looks like a hang, and answers its probe if nothing is to wait for it.
        Returns the signature of the hang.
        """
        self.runs.add(run)
        self._count += 1
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
        return row.signature

    def most(self, tests: int) -> str:
        """A warning, returned once, if most tests look like hangs; otherwise "". tests: those that
        this session has recorded, including hangs.
        """
        if self._count < SOME or 2 * self._count <= tests + len(self.runs):
            return ""
        count, self._count = self._count, -sys.maxsize
        return (
            f"most of what runs looks like a hang: {count} of {max(count, tests + len(self.runs))} "
            "tests. If the compiler is only slow, a larger timeout of the backend waits for it"
        )

    def gives_up(self, test: TestId) -> bool:
        """Whether a test is a probe that counts as unanswered."""
        return test in self._given_up

    def next_probe(self) -> Probe | None:
        """A probe that an earlier session has counted as unanswered, to be decided now."""
        return self._probes.pop() if self._probes else None

    @property
    def indexes(self) -> set[int]:
        """The indexes of the tests that earlier sessions have suspected."""
        return {test.index for test in self.earlier if test.index is not None}
