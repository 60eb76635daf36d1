"""Records the evidence of tests: folders of findings first, then rows, then figures."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.numeric import NO_HABITS, Deviation
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.shard import IndexSet, Shard
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.records.rows import (
    NOT_SHOWN,
    FindingRow,
    HangRow,
    HangStatus,
    Occurrence,
    ReductionRow,
)
from nnfuzz.records.schedule import LONGEST, begins
from nnfuzz.store.database import FINDINGS, FOLDERS, SUSPECTS
from nnfuzz.store.evidence import Evidence, items_of, kind_of, with_row
from nnfuzz.store.failures import arrange, mend, replacing
from nnfuzz.store.statistics import Statistics
from nnfuzz.store.store import Store
from nnfuzz.store.suspicions import Suspicions, by_value, merged, suspicion_of
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import TestId
from nnfuzz.triage.keys import KnownFailures
from nnfuzz.triage.mismatch import first_wrong
from nnfuzz.triage.pattern import Pattern, pattern_of, upstream
from nnfuzz.triage.severity import Severity
from nnfuzz.triage.signature import Failure, habits_of

DESIGN = "design"
"""The bucket of failures that a compiler's declared habits explain."""
NO_CHANGE = "unchanged"
"""The bucket of failures that all releases share, in a campaign that looks for regressions."""


WriteFinding = Callable[[Path, Failure, Evidence], None]


class Recorder:
    """Writes to the store, and holds the findings of the campaign in memory.

    recorded: indexes whose tests are recorded. complete: whether every index of the campaign is
    recorded. rows: signature -> finding. reductions: signature -> result, without its graph.
    suspects: signature -> cause that it may have. under_reduction: signatures whose folders a
    reduction reads and writes.
    """

    def __init__(
        self,
        store: Store,
        known: Sequence[str],
        write: WriteFinding,
        announce: Callable[[FindingRow], None],
        variables: Mapping[str, Sequence[int]] | None = None,
        declared: Mapping[str, Sequence[Deviation]] = NO_HABITS,
        regressions: bool = False,
        part: Shard = Shard(),  # noqa: B008 (frozen)
        longest: int = LONGEST,
    ) -> None:
        """known: lines of a file of known failures. write: writes the folder of a finding.
        announce: is called for each new finding. variables: see
        nnfuzz.feedback.support.signature_keys. declared: backend -> habits by design; failures that
        they explain are no findings. regressions, part: see CampaignConfig. longest: tests
        in the longest epoch.
        """
        self.store = store
        self.recorded = IndexSet(store.tests.done(), part)
        self.complete = False
        self._variables = variables or {}
        self.figures = Statistics()
        self.rows = {row.signature: row for row in store.signatures.rows()}
        self.reductions = store.reductions.rows()
        self._patterns: dict[str, Pattern] = {}
        self._items = store.signatures.items()
        self._listed: list[FindingRow] | None = None
        self.suspects = store.reductions.suspects()
        self.under_reduction: set[str] = set()
        self._cleared: dict[str, set[str]] = {}
        """Signature -> causes that it is proven not to have."""
        self._reached: dict[tuple[str, ...], dict[Pattern, str]] = {}
        """`_suspect_group` -> pattern of a reduced model -> cause."""
        self._regressions = regressions
        self._longest = longest
        self._ignored = KnownFailures.parse(known)
        self._declared = {name: set(habits) for name, habits in declared.items()}
        self._known = {*self._ignored.hashes, *store.signatures.known()}
        for row in [*self.reductions.values()]:
            self._note_pattern(row)
            if self._ignores(row):
                self._known.add(row.signature)
            self._keep(row)
        self._earlier = store.sessions.seconds_before()
        self._write = write
        self._announce = announce
        for place in FOLDERS:
            mend(store.folder / place)
        self.arrange()
        for test in store.tests.rows():
            self.figures.add(test)

    def _bucket(self, failure: Failure, evidence: Evidence) -> str:
        """Returns the bucket of a confirmed failure: "finding", "known", DESIGN or NO_CHANGE."""
        if self._regressions and not evidence.right_release(failure):
            return NO_CHANGE
        habits = set(habits_of(failure.signature.details))
        if habits and habits <= self._declared.get(failure.backend, set()):
            return DESIGN
        return "known" if failure.signature.hash in self._known else "finding"

    def _ignores(self, result: ReductionRow) -> bool:
        """Whether a reduced finding is among the known failures, by hash or keys."""
        row = self.rows.get(result.signature)
        if row is None or result.reason:
            return False
        known = self._ignored
        return result.cause in known.hashes or known.has(result.all_keys, row.kind)

    def record(
        self, evidence: Evidence, hangs: Iterable[tuple[TestId, str, HangStatus]] = ()
    ) -> None:
        """Records one test. Rows of findings are kept for good at once, others with the next
        `Store.flush`. A hang that is decided leaves the row of its test as epochs have seen it.

        hangs: decisions on runs of it that looked like hangs.
        """
        evidence = evidence if evidence.row else with_row(evidence, self._variables)
        test = evidence.row
        if test is not None and test.index in self.recorded:
            test = None
        findings, occurrences = [], []
        for failure in evidence.confirmed:
            signature = failure.signature.hash
            bucket = self._bucket(failure, evidence)
            occurrences.append(_occurrence(failure, evidence, bucket))
            if bucket == "finding" and self._is_first(signature, evidence):
                findings.append(self._finding(failure, evidence))
        occurrences += [_occurrence(failure, evidence, "flaky") for failure in evidence.flaky]
        self.store.record(test, findings, occurrences, evidence.events, hangs)
        if test:
            self.recorded.add(test.index)
            self.figures.add(test)
        if occurrences:
            self._count(findings, occurrences)
        if findings:
            for row in findings:
                self.suspects.pop(row.signature, None)
                self._suspect(row)
            self.store.flush()

    def same_hang(self, row: HangRow) -> None:
        """Counts a test that looks like a hang of a confirmed signature as one."""
        kind = f"{row.backend} {OutcomeKind.TIMEOUT} {row.stage}"
        bucket = "known" if row.signature in self._known else "finding"
        occurrence = Occurrence(row.signature, row.test, bucket, kind, row.level)
        decided = ((row.test, row.backend, HangStatus.CONFIRMED),)
        self.store.record(occurrences=(occurrence,), hangs=decided)
        self._count((), [occurrence])

    def known_in(self, epoch: int) -> list[str]:
        """The signatures of which tests of an epoch know: those to be ignored, and those that a
        test at least two epochs earlier has confirmed. Tests of the epoch before do not count,
        since they may still be under way.
        """
        before = begins(epoch - 1, self._longest)
        return sorted({*self._ignored.hashes, *self.store.occurrences.confirmed_before(before)})

    def findings(self) -> list[FindingRow]:
        """As Store.findings, but from memory."""
        if self._listed is None:
            rows = merged(self.rows.values(), self.reductions, self.suspects)
            self._listed = by_value(self.suspicions().merged(rows))
        return self._listed

    def suspicions(self) -> Suspicions:
        return Suspicions.of(self.rows.values(), self.store.restraints.ever_avoided(), self._items)

    # -- reduction ----------------------------------------------------------------------------

    def unreduced(self) -> list[FindingRow]:
        """Findings whose reduction was not tried yet."""
        return [row for row in self.rows.values() if row.signature not in self.reductions]

    def open(self) -> int:
        """The number of merged findings whose reduction was not tried yet."""
        return sum(row.signature not in self.reductions for row in self.findings())

    def settled(self, row: FindingRow) -> bool:
        """Whether no earlier test can take the place of the first one any more."""
        return self.complete or row.index < self.recorded.length

    def forget_failed_reductions(self) -> None:
        """Makes `unreduced` return findings again whose reduction has failed."""
        self.reductions = {s: row for s, row in self.reductions.items() if not row.reason}
        self._listed = None

    def _cause_of(self, row: FindingRow) -> str:
        """The cause whose reduced model the model of a mismatch contains; "" if there is none."""
        pattern = self._patterns.get(row.signature)
        if pattern is None or row.kind != OutcomeKind.MISMATCH:
            return ""
        for reached, cause in self._reached.get(_suspect_group(row), {}).items():
            if reached.within(pattern) and cause not in self._cleared.get(row.signature, ()):
                return cause
        return ""

    def _suspect(self, row: FindingRow) -> None:
        """Suspects a finding of the cause whose pattern its model contains."""
        if cause := self._cause_of(row):
            self.suspects[row.signature] = cause
            self.store.reductions.suspect(row.signature, cause)

    def _keep(self, result: ReductionRow) -> None:
        """Holds a reduction in memory without its graph; equal texts are shared."""
        self.reductions[result.signature] = replace(
            result,
            graph=NO_GRAPH,
            cause=sys.intern(result.cause),
            title=sys.intern(result.title),
            pattern=sys.intern(result.pattern),
            keys=tuple(map(sys.intern, result.keys)),
        )
        self._patterns.pop(result.signature, None)

    def _note_pattern(self, result: ReductionRow) -> None:
        """Remembers the pattern of a reduced model, and suspects findings that contain it."""
        row = self.rows.get(result.signature)
        if row is None or not result.cause:
            return
        reached = self._reached.setdefault(_suspect_group(row), {})
        pattern = pattern_of(result.graph)
        if pattern not in reached:
            reached[pattern] = result.cause
            for other in self.unreduced():
                if other.signature not in self.suspects:
                    self._suspect(other)

    def unexplained(self, signature: str, checked: Iterable[str]) -> None:
        """Clears a suspect: it has none of these causes and will be reduced."""
        self._cleared.setdefault(signature, set()).update(checked)
        self.suspects.pop(signature, None)
        self.store.reductions.acquit(signature)
        self._suspect(self.rows[signature])
        self.arrange()

    def reduced(self, result: ReductionRow, test: TestId) -> FindingRow | None:
        """Records a reduction, and merges findings that turn out to be the same.

        test: the test whose folder was reduced. Returns the merged finding; None, and records
        nothing, if another test has replaced the folder meanwhile.
        """
        if self.rows[result.signature].test != test:
            return None
        self.store.reductions.add(result)
        self.store.flush()  # before folders move
        self._listed = None
        self._keep(result)
        self._note_pattern(result)
        if result.cause in self._known or self._ignores(result):
            return self._withdrawn(result.signature, "known")
        if result.reason.startswith(NOT_SHOWN):
            return self._withdrawn(result.signature, "flaky")
        self.arrange()
        return next(
            row for row in self.findings() if result.signature in (row.signature, *row.others)
        )

    def arrange(self) -> None:
        """Moves folders to their places. Does nothing while a reduction works in some of them.

        The end of every reduction calls this again.
        """
        self._listed = None
        if self.under_reduction:
            return
        for signature, folder in arrange(self.store, self.rows, self.findings()).items():
            self.rows[signature] = replace(self.rows[signature], folder=folder)
            self._listed = None

    def _withdrawn(self, signature: str, bucket: str) -> FindingRow:
        """Removes a finding whose cause is a known failure's, or whose script never fails."""
        row = self.rows.pop(signature)
        self._known.add(signature)
        self.store.signatures.withdraw(row, bucket)
        self.store.flush()  # before the folder goes
        shutil.rmtree(self.store.folder / row.folder, ignore_errors=True)
        return row

    def seconds(self) -> float:
        """Wall seconds of the campaign with earlier sessions, each from its first test on."""
        return self._earlier + self.store.sessions.seconds()

    def _is_first(self, signature: str, evidence: Evidence) -> bool:
        """Whether this test represents the signature: the lowest index, unless one is reduced."""
        row = self.rows.get(signature)
        if row is None:
            return True
        return signature not in self.reductions and (evidence.test.index or 0) < row.index

    def _finding(self, failure: Failure, evidence: Evidence) -> FindingRow:
        signature = failure.signature.hash
        before = self.rows.get(signature)
        made = evidence.made
        graph = made.graph if made else NO_GRAPH
        inputs = made.inputs if isinstance(made, TestCase) else {}
        if failure.kind is OutcomeKind.MISMATCH:
            self._patterns[signature] = pattern_of(_failing_part(graph, failure, evidence))
        items = items_of(graph, self._variables)
        self._items[signature] = tuple(map(sys.intern, items))
        row = FindingRow(
            signature=signature,
            test=evidence.test,
            kind=failure.kind.value,
            stage=failure.stage.value,
            backend=failure.backend,
            compiler=failure.compiler,
            level=failure.kinds_of_levels,
            title=failure.signature.title,
            folder=before.folder if before else "",
            found_at=before.found_at if before else self.seconds(),
            party=evidence.blame(failure).accused,
            occurrences=before.occurrences if before else 0,
            size=len(graph.nodes),
            suspicion=suspicion_of(failure),
            severity=Severity.of(failure, evidence.verdict, graph, inputs).value,
        )
        if not row.folder:
            looks_alike = self._cause_of(row) or self._joins(row)
            place = SUSPECTS if looks_alike else FINDINGS
            row = replace(row, folder=f"{place}/{failure.folder_name}")
        with replacing(self.store.folder / row.folder) as folder:
            self._write(folder, failure, evidence)
        return row

    def _joins(self, row: FindingRow) -> bool:
        """Whether a new finding looks like another one that waits for its reduction."""
        others = self.unreduced()
        avoided = self.store.restraints.ever_avoided()
        names = Suspicions.of([*others, row], avoided, self._items).names
        return any(names[other.signature] == names[row.signature] for other in others)

    def _count(self, findings: Sequence[FindingRow], occurrences: Sequence[Occurrence]) -> None:
        self._listed = None
        for row in findings:
            new = row.signature not in self.rows
            self.rows[row.signature] = row
            if new and not row.folder.startswith(SUSPECTS):
                self._announce(row)
        for occurrence in occurrences:
            known = self.rows.get(occurrence.signature)
            if known and occurrence.bucket == "finding":
                self.rows[known.signature] = replace(known, occurrences=known.occurrences + 1)


def _suspect_group(row: FindingRow) -> tuple[str, ...]:
    """The properties that two mismatches must share to be suspected of one cause."""
    return row.compiler, row.kind, row.level, row.party


def _failing_part(graph: GraphView, failure: Failure, evidence: Evidence) -> GraphView:
    """The part of the graph that the first wrong output depends on; the whole graph if unknown."""
    order = [name for node in graph.nodes for name in node.outputs]
    wrong = first_wrong(evidence.verdict, failure.targets, order)
    return upstream(graph, wrong.output) if wrong and graph else graph


def _occurrence(failure: Failure, evidence: Evidence, bucket: str) -> Occurrence:
    signature = failure.signature.hash
    repeated, tried = evidence.repeats(failure)
    return Occurrence(
        signature,
        evidence.test,
        bucket,
        kind_of(failure),
        failure.kinds_of_levels,
        repeated,
        tried,
        failure.signature.title if bucket == "flaky" else "",
    )
