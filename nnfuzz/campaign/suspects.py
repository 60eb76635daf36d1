"""Tests that look like hangs: kept at once, decided by a time limit, and in nobody's way.

How long a run takes before it is suspected follows the clock, so that must not decide what is
generated. In a campaign that counts tests, the time limit alone, a setting, decides what is a hang,
and the next epochs wait for what is suspected, as for every other test. In one that the clock ends
anyway, nobody waits: a suspected test is taken for a hang by the epochs, and its probe for
unanswered. Both are kept with the row, so that a resumed campaign comes to the same. There, a hang
is decided by how long others take (nnfuzz.campaign.pace), and each signature is confirmed once.
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
    """The suspected test runs of a session. earlier: by test that earlier sessions have suspected,
    the backends. waited_for: whether epochs and probing wait for suspects. known: signatures of the
    hangs that are confirmed, where nobody waits: others of one are believed.
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
        """Takes the hangs among confirmed failures for known."""
        if not self.waited_for:
            hangs = (found for found in failures if found.kind is OutcomeKind.TIMEOUT)
            self.known.update(found.signature.hash for found in hangs)

    def add(self, run: TestRun, waiting: Waiting) -> str:
        """Keeps a run that looks like a hang, and has nobody wait for it who need not. Returns its
        signature.
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
        """Says so once hangs are most of what happens; "" before, and ever after. tests: recorded
        in this session, some of which may have hung.
        """
        if self._count < SOME or 2 * self._count <= tests + len(self.runs):
            return ""
        told, self._count = self._count, -sys.maxsize
        return (
            f"most of what runs looks like a hang: {told} of {max(told, tests + len(self.runs))} "
            "tests. If the compiler is only slow, a larger timeout of the backend waits for it"
        )

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
