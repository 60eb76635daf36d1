"""Keeps what a test showed: finding folders first, then one transaction, then the figures."""

from __future__ import annotations

import heapq
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from nnfuzz.backend.deviation import NO_HABITS, Deviation
from nnfuzz.backend.outcome import Brief, Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.files import PARTIAL, remove_partial
from nnfuzz.base.index_set import IndexSet
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.shard import Shard
from nnfuzz.compare.flip import NOBODY, Blame, right_release, state_of
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.result import Result
from nnfuzz.feedback.support import signature_keys
from nnfuzz.findings.clusters import Clusters, complaint_of, merged
from nnfuzz.findings.folder import folder_name
from nnfuzz.findings.packed_folder import unpack_folder
from nnfuzz.findings.variants import write_variants
from nnfuzz.generate.emphasis import KeptCase
from nnfuzz.ir.edges import edge_keys
from nnfuzz.ir.features import Features, features
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.materialize.opsets import exporter_of
from nnfuzz.records.order import by_value
from nnfuzz.records.rows import (
    EventRow,
    FindingRow,
    HangRow,
    HangStatus,
    Occurrence,
    Record,
    ReductionRow,
    Said,
    TestRow,
)
from nnfuzz.records.schedule import (
    LONGEST,
    PLACE_BITS,
    RecordedIndexes,
    begins,
    epoch_of,
    place_of,
)
from nnfuzz.store.schema import DUPLICATES, FINDINGS, FOLDERS, SUSPECTS
from nnfuzz.store.statistics import Statistics
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, Probe, TestId
from nnfuzz.triage.identity import habits_of
from nnfuzz.triage.known import KnownFailures, ReducedFacts
from nnfuzz.triage.mismatch import first_wrong
from nnfuzz.triage.refine import Pattern, pattern_of, upstream
from nnfuzz.triage.signature import FAILURES, Failure, export_failure, text_of, words_of

DESIGN = "design"
"""The bucket of failures that a compiler's declared habits explain."""
NO_CHANGE = "unchanged"
"""The bucket of failures that no other release is right about, where only changes are findings."""
_REPLACED = ".replaced-"


@dataclass(frozen=True)
class Evidence:
    """Everything there is about one test or probe.

    result: of its experiment; None if there was no model. failed: why there was none, where its
    producer could say so. status: "run", or why nothing ran. events: what happened meanwhile.
    """

    test: TestId
    epoch: int
    result: Result | None = None
    failed: NotProduced | None = None
    status: str = "run"
    events: tuple[EventRow, ...] = ()

    @property
    def made(self) -> TestCase | NotProduced | None:
        """What came of producing the test; None if its producer was lost."""
        return self.result.case if self.result else self.failed

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What targets did with the model, or the exporter, if it failed to write one."""
        if self.result:
            return self.result.outcomes
        failed = self.failed
        return (_export_outcome(failed),) if failed and failed.stage == Stage.EXPORT else ()

    @cached_property
    def confirmed(self) -> tuple[Failure, ...]:
        """The failures that fresh workers repeated or that were known before."""
        if self.result:
            return self.result.failures
        failed = self.failed
        if failed is None or failed.stage != Stage.EXPORT or failed.unsupported:
            return ()
        error = failed.error_type, failed.message, failed.traceback
        return (export_failure(exporter_of(failed.generated_for), *error),)

    @property
    def flaky(self) -> tuple[Failure, ...]:
        """The failures that fresh workers did not repeat."""
        return self.result.flaky if self.result else ()

    @property
    def verdict(self) -> Verdict | None:
        return self.result.verdict if self.result else None

    @property
    def seconds(self) -> Mapping[str, float]:
        """By phase."""
        if self.result is None:
            return self.failed.seconds if self.failed else {}
        ran = sum(sum(outcome.seconds.values()) for outcome in self.result.outcomes)
        return {**self.result.case.seconds, "execute": ran, "compare": self.result.seconds}

    @property
    def place(self) -> int:
        """In the order of all tests and probes, see nnfuzz.records.schedule.place_of."""
        return self.test.place if isinstance(self.test, Probe) else place_of(self.test.index or 0)

    def blame(self, failure: Failure) -> Blame:
        return self.result.blame(failure) if self.result else NOBODY

    def repeats(self, failure: Failure) -> tuple[int, int]:
        """How many of how many repetitions failed in the same way."""
        repeats = self.result.repeats if self.result else {}
        return repeats.get(failure.signature.hash, (0, 0))

    def right_release(self, failure: Failure) -> str:
        """Another release that is right where this one fails; "" for none."""
        return right_release(failure.targets, {o.target: state_of(o) for o in self.outcomes})


def _export_outcome(failed: NotProduced) -> Outcome:
    return Outcome(
        OutcomeKind.UNSUPPORTED if failed.unsupported else OutcomeKind.EXCEPTION,
        Stage.EXPORT,
        Target(exporter_of(failed.generated_for), pipeline="export"),
        failed.error_type,
        failed.message,
        failed.traceback,
        seconds={"export": failed.seconds.get("export", 0.0)},
    )


WriteFinding = Callable[[Path, Failure, Evidence], None]


class Recorder:
    """Writes to the store; remembers which findings there are."""

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
        recorded: RecordedIndexes | None = None,
        longest: int = LONGEST,
    ) -> None:
        """known: lines of a file of known failures. variables: see
        nnfuzz.feedback.support.signature_keys. declared: habits that compilers have by design, by
        backend: what they explain is no finding. regressions, part: see CampaignConfig.
        recorded: what is, where that is not all in this store. longest: epoch.
        """
        self.store = store
        hangs = store.hangs.rows()
        late = {row.test.index for row in hangs if row.late and row.test.index is not None}
        self.recorded = recorded or IndexSet(heapq.merge(store.tests.done(), sorted(late)), part)
        self.unconfirmed = {row.test for row in hangs if row.status is HangStatus.UNCONFIRMED}
        self.complete = False  # whether nothing is to come of any index
        self._variables = variables or {}
        self._first_tests = store.occurrences.first_tests()
        self.figures = Statistics()
        self.rows = {row.signature: row for row in store.signatures.rows()}
        self.reductions = store.reductions.rows()
        self.elsewhere: set[str] = set()
        """Signatures that other nodes of a cluster have reduced."""
        self._patterns: dict[str, Pattern] = {}
        self._items = store.signatures.items()
        self._listed: list[FindingRow] | None = None
        self.suspects = store.reductions.suspects()
        self.under_reduction: set[str] = set()
        """Signatures of findings in whose folders somebody reads and writes."""
        self._innocent: dict[str, set[str]] = {}
        """Refined signatures that a suspect was asked for in vain."""
        self._reached: dict[tuple[str, ...], dict[Pattern, str]] = {}
        """By what is alike: pattern -> refined signature, which may have several."""
        self.buckets = store.occurrences.buckets()
        self._regressions = regressions
        self._longest = longest
        self._ignored = KnownFailures.stored(known)
        self._declared = {name: set(habits) for name, habits in declared.items()}
        self._known = set(self._ignored.hashes)
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

    def knows(self, signature: str, test: TestId) -> bool:
        """Whether a failure is to be ignored, or was confirmed before in the view of a test.

        What the epoch before has shown does not count, since its tests may be under way.
        """
        if signature in self._ignored.hashes or not isinstance(test, Numbered):
            return signature in self._ignored.hashes
        first = self._first_tests.get(signature)
        before = epoch_of(test.index, self._longest) - 1
        return first is not None and first < begins(before, self._longest)

    def _bucket(self, failure: Failure, evidence: Evidence) -> str:
        """What a failure counts as: a finding, known, what the compiler does by design, or, where
        only changes are findings, no change.
        """
        if self._regressions and not evidence.right_release(failure):
            return NO_CHANGE
        habits = set(habits_of(failure.signature.identity))
        if habits and habits <= self._declared.get(failure.backend, set()):
            return DESIGN
        return "known" if failure.signature.hash in self._known else "finding"

    def _ignores(self, result: ReductionRow) -> bool:
        """Whether a reduced finding is among the known failures, by hash, pattern or keys."""
        row = self.rows.get(result.signature)
        if row is None or result.reason:
            return False
        known, graph = self._ignored, result.graph
        of_label = (row.backend, row.compiler)
        facts = (ReducedFacts.of(name, row.kind, row.stage, graph) for name in of_label)
        hit = result.refined in known.hashes or known.has(result.all_keys)
        return hit or any(map(known.fits, facts))

    def record(self, evidence: Evidence) -> None:
        """Keeps one test. When it returns, nothing of it can be lost."""
        test = self._test_row(evidence)
        findings, seen = [], []
        for failure in evidence.confirmed:
            signature = failure.signature.hash
            bucket = self._bucket(failure, evidence)
            seen.append(_occurrence(failure, evidence, bucket))
            if bucket == "finding" and self._is_first(signature, evidence):
                findings.append(self._finding(failure, evidence))
        seen += [_occurrence(failure, evidence, "flaky") for failure in evidence.flaky]
        hangs = self._settled_hangs(evidence)
        self.store.record(Record(test, tuple(findings), tuple(seen), evidence.events, hangs))
        if test:
            self.figures.add(test)
            self.recorded.add(test.index)
            for failure in evidence.confirmed:
                first = self._first_tests.setdefault(failure.signature.hash, test.index)
                self._first_tests[failure.signature.hash] = min(first, test.index)
        self._count(findings, seen)
        if seen:
            self._listed = None

    def suspect(self, row: HangRow) -> None:
        """Keeps a run that looks like a hang. When it returns, that cannot be lost."""
        self.store.hangs.add(row)
        self.unconfirmed.add(row.test)
        if row.late and row.test.index is not None:
            self.recorded.add(row.test.index)

    def _settled_hangs(self, evidence: Evidence) -> tuple[tuple[TestId, str, HangStatus], ...]:
        """What came of the runs of a test that looked like hangs."""
        if evidence.test not in self.unconfirmed:
            return ()
        self.unconfirmed.discard(evidence.test)
        status = {o.backend: HangStatus.ANSWERED for o in evidence.outcomes}
        status |= {f.backend: HangStatus.FLAKY for f in evidence.flaky if _hangs(f)}
        status |= {f.backend: HangStatus.CONFIRMED for f in evidence.confirmed if _hangs(f)}
        return tuple((evidence.test, backend, found) for backend, found in status.items())

    def findings(self) -> list[FindingRow]:
        """As Store.findings, out of memory; without `by_levels`. Made anew where one changes."""
        if self._listed is None:
            rows = merged(self.rows.values(), self.reductions, self.suspects)
            self._listed = by_value(self.clusters().merged(rows, self.reductions))
        return self._listed

    def clusters(self) -> Clusters:
        return Clusters.of(self.rows.values(), self.store.restraints.ever_avoided(), self._items)

    # -- reduction ----------------------------------------------------------------------------

    def unreduced(self) -> list[FindingRow]:
        """Signatures that no reduction was tried for, here or elsewhere."""
        tried = {*self.reductions, *self.elsewhere}
        return [row for row in self.rows.values() if row.signature not in tried]

    def open(self) -> int:
        """How many findings, of one signature or a cluster, no reduction was tried for."""
        return sum(row.signature not in self.reductions for row in self.findings())

    def settled(self, row: FindingRow) -> bool:
        """Whether no earlier test or probe can take the place of the first one any more."""
        done = self.recorded.length + (isinstance(row.test, Numbered))
        return self.complete or row.place >> PLACE_BITS < done

    def forget_failed_reductions(self) -> None:
        """Has them tried again: `unreduced` names them anew."""
        self.reductions = {s: row for s, row in self.reductions.items() if not row.reason}
        self._listed = None

    def _suspect(self, row: FindingRow) -> None:
        """Looks whether a mismatch's model contains all of what another one was reduced to."""
        pattern = self._patterns.get(row.signature)
        if pattern is None or row.kind != OutcomeKind.MISMATCH:
            return
        for reached, refined in self._reached.get(_alike(row), {}).items():
            if reached.within(pattern) and refined not in self._innocent.get(row.signature, ()):
                self.suspects[row.signature] = refined
                self.store.reductions.suspect(row.signature, refined)
                return

    def _keep(self, result: ReductionRow) -> None:
        """In memory, without the graph, which is most of it. Duplicates share their texts."""
        self.reductions[result.signature] = replace(
            result,
            graph=NO_GRAPH,
            refined=sys.intern(result.refined),
            title=sys.intern(result.title),
            pattern=sys.intern(result.pattern),
            keys=tuple(map(sys.intern, result.keys)),
        )
        self._patterns.pop(result.signature, None)

    def _note_pattern(self, result: ReductionRow) -> None:
        """Remembers what was reached, and suspects all that contains it."""
        row = self.rows.get(result.signature)
        if row is None or not result.refined:
            return
        reached = self._reached.setdefault(_alike(row), {})
        pattern = pattern_of(result.graph)
        if pattern not in reached:
            reached[pattern] = result.refined
            for other in self.unreduced():
                if other.signature not in self.suspects:
                    self._suspect(other)

    def unexplained(self, signature: str, asked: Iterable[str]) -> None:
        """A suspect has another cause than these refined signatures: it waits for its reduction."""
        self._innocent.setdefault(signature, set()).update(asked)
        self.suspects.pop(signature, None)
        self.store.reductions.acquit(signature)
        self._suspect(self.rows[signature])
        self.arrange()

    def reduced(self, result: ReductionRow, test: TestId) -> FindingRow | None:
        """Keeps what came of reducing the finding of a signature; merges those that are the same.

        test: that of the folder that was reduced; if another one has taken its place meanwhile,
        nothing is kept and None returned. Returns the finding, duplicates included.
        """
        if self.rows[result.signature].test != test:
            return None
        self.store.reductions.add(result)
        self._listed = None
        self._keep(result)
        self._note_pattern(result)
        if result.refined in self._known or self._ignores(result):
            return self._turns_out_known(result.signature)
        self.arrange()
        whole = next(
            row
            for row in self.findings()
            if result.signature in (row.signature, *row.grouping.others)
        )
        write_variants(self.store.folder, whole.folder, whole.grouping.variants)
        return whole

    def arrange(self) -> None:
        """Moves folders to where they belong, unless a reduction is under way, which reads some of
        them and writes into one: then somebody calls again.
        """
        self._listed = None
        if self.under_reduction:
            return
        for signature, folder in arrange(self.store, self.rows, self.findings()).items():
            self.rows[signature] = replace(self.rows[signature], folder=folder)
            self._listed = None

    def _turns_out_known(self, signature: str) -> FindingRow:
        """A finding whose refined signature is to be ignored is none."""
        row = self.rows.pop(signature)
        self._known.add(signature)
        self.store.signatures.turn_known(signature)
        self.buckets = self.store.occurrences.buckets()
        shutil.rmtree(self.store.folder / row.folder, ignore_errors=True)
        return row

    def seconds(self) -> float:
        """Wall seconds of the campaign, start-up and earlier sessions included."""
        return self._earlier + self.store.sessions.seconds()

    def _is_first(self, signature: str, evidence: Evidence) -> bool:
        """Whether it has to be kept as the finding; one that is reduced stays what it is."""
        row = self.rows.get(signature)
        if row is None:
            return True
        return signature not in self.reductions and evidence.place < row.place

    def _finding(self, failure: Failure, evidence: Evidence) -> FindingRow:
        signature = failure.signature.hash
        before = self.rows.get(signature)
        made = evidence.made
        graph = made.graph if made else NO_GRAPH
        if failure.kind is OutcomeKind.MISMATCH:
            self._patterns[signature] = pattern_of(_failing_part(graph, failure, evidence))
        self._items[signature] = tuple(map(sys.intern, self.items_in(graph)))
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
            place=evidence.place,
            size=len(graph.nodes),
            complaint=complaint_of(failure),
        )
        self._suspect(row)
        if not row.folder:
            row = replace(row, folder=f"{self._place(row)}/{folder_name(failure)}")
        with _replacing(self.store.folder / row.folder) as folder:
            self._write(folder, failure, evidence)
        return row

    def _place(self, row: FindingRow) -> str:
        """Where the folder of a new finding belongs."""
        if row.signature in self.suspects or self._joins(row):
            return SUSPECTS
        return FINDINGS

    def _joins(self, row: FindingRow) -> bool:
        """Whether a new finding looks like another one that waits for its reduction."""
        others = self.unreduced()
        names = Clusters.of([*others, row], self.store.restraints.ever_avoided(), self._items).names
        return any(names[other.signature] == names[row.signature] for other in others)

    def _count(self, findings: Sequence[FindingRow], seen: Sequence[Occurrence]) -> None:
        for row in findings:
            new = row.signature not in self.rows
            self.rows[row.signature] = row
            if new and not row.folder.startswith(SUSPECTS):
                self._announce(row)
        for occurrence in seen:
            self.buckets[occurrence.bucket] = self.buckets.get(occurrence.bucket, 0) + 1
            known = self.rows.get(occurrence.signature)
            if known and occurrence.bucket == "finding":
                self.rows[known.signature] = replace(known, occurrences=known.occurrences + 1)

    def _test_row(self, evidence: Evidence) -> TestRow | None:
        if not isinstance(evidence.test, Numbered):
            return None
        made = evidence.made
        return TestRow(
            evidence.test.index,
            evidence.status,
            evidence.epoch,
            briefs(evidence.outcomes),
            dict(evidence.seconds),
            evidence.result.comparable if evidence.result else None,
            _features(evidence),
            evidence.result.case.planted if evidence.result else (),
            made.digest() if made else "",
            made.generated_for if made else "",
            self.items_in(made.graph) if made else (),
            _said(evidence.outcomes, made.graph if made else NO_GRAPH),
            passes := {o.backend: o.passes for o in evidence.outcomes if o.passes is not None},
            _keepable(evidence) if passes else None,
        )

    def items_in(self, graph: GraphView) -> tuple[str, ...]:
        """See nnfuzz.records.rows.Observed."""
        if not graph:
            return ()
        return (*sorted(signature_keys(graph, self._variables)), *edge_keys(graph))


_SAID = (*FAILURES, OutcomeKind.UNSUPPORTED)
"""Outcomes of which the whole text is kept."""


def _said(outcomes: Iterable[Outcome], graph: GraphView) -> dict[tuple[str, str], Said]:
    """The whole texts of errors, by backend and level."""
    failed = [outcome for outcome in outcomes if outcome.kind in _SAID]
    words = words_of(graph) if failed else ()
    return {(o.backend, o.level): Said.of(text_of(o), words) for o in failed}


def _alike(row: FindingRow) -> tuple[str, ...]:
    """What two mismatches must share to be suspected of being one."""
    return row.compiler, row.kind, row.level, row.party


def _failing_part(graph: GraphView, failure: Failure, evidence: Evidence) -> GraphView:
    """What the first wrong output of a mismatch depends on; else the whole graph."""
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
        f"{failure.backend} {failure.kind.value} {failure.stage.value}",
        failure.kinds_of_levels,
        repeated,
        tried,
        failure.signature.title if bucket == "flaky" else "",
    )


def _hangs(failure: Failure) -> bool:
    return failure.kind is OutcomeKind.TIMEOUT


def _keepable(evidence: Evidence) -> KeptCase | None:
    """The graph of a test, unless it is at several sizes."""
    case = evidence.result.case if evidence.result else None
    if case is None or case.exporter != exporter_of(case.generated_for):
        return None
    return KeptCase(case.id.index or 0, case.generated_for, case.graph)


def _features(evidence: Evidence) -> Features | None:
    made = evidence.made
    return features(made.graph) if made and made.graph else None


def briefs(outcomes: Iterable[Outcome]) -> dict[str, dict[str, Brief]]:
    """Returns what the store keeps of outcomes, by backend and level."""
    table: dict[str, dict[str, Brief]] = {}
    for outcome in outcomes:
        table.setdefault(outcome.backend, {})[outcome.level] = Brief.of(outcome)
    return table


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Makes way for a new folder of the same name; an interruption is mended by `mend`."""
    old = folder.with_name(_REPLACED + folder.name)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(folder, old)
    yield folder
    shutil.rmtree(old, ignore_errors=True)


def leftovers(findings: Path) -> list[Path]:
    """What `mend` would put back or remove."""
    return sorted([*findings.glob(f"{_REPLACED}*"), *findings.glob(f"{PARTIAL}*")])


def mend(findings: Path) -> None:
    """Puts back what a killed campaign was about to replace, and removes what it half wrote."""
    for old in findings.glob(f"{_REPLACED}*"):
        folder = old.with_name(old.name.removeprefix(_REPLACED))
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.replace(old, folder)
    remove_partial(findings)


def arrange(
    store: Store, rows: Mapping[str, FindingRow], findings: Iterable[FindingRow]
) -> dict[str, str]:
    """Moves the folders of duplicates and suspects out of CAMPAIGN/findings, and back what is none.

    rows: of all signatures. findings: what these are together.
    Returns the folders that have moved, by signature. What a kill interrupts is done next time.
    """
    places: dict[str, str] = {}
    for row in findings:
        places |= dict.fromkeys(row.grouping.others, SUSPECTS)
        places |= dict.fromkeys(row.grouping.duplicates, DUPLICATES)
    moved = {}
    for signature, row in rows.items():
        place = places.get(signature, FINDINGS)
        wanted = f"{place}/{Path(row.folder).name}"
        if wanted != row.folder:
            source, target = store.folder / row.folder, store.folder / wanted
            target.parent.mkdir(exist_ok=True)
            if place != DUPLICATES:
                with suppress(OSError, Unreadable):  # one that cannot be read moves as it is
                    unpack_folder(source)
            if source.exists() and not target.exists():
                os.replace(source, target)
            store.signatures.move(signature, wanted)
            moved[signature] = wanted
    return moved
