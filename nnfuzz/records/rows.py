"""The rows of a campaign's store, and how findings that reduction shows to be one are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.generate.emphasis import KeptCase
from nnfuzz.ir.features import Features
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.testcase.identity import TestId
from nnfuzz.triage.keys import Key, KeyKind, grouped


@dataclass(frozen=True)
class Said:
    """What a compiler said. words: the model's own in it, which do not count."""

    error: CompilerError
    words: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: CompilerError, words: Iterable[str]) -> Said:
        """words: of the model; only those that occur are kept."""
        text = f"{error.message}\n{error.traceback}\n{error.captured}"
        return cls(error, tuple(sorted({word for word in words if word in text})))


@dataclass(frozen=True)
class TestRow:
    """One index. status: "run", or why there was nothing to run (a NotProduced stage, "fault").

    outcomes: backend -> level -> what `Outcome.to_json` holds, briefly. seconds: per phase.
    features: of the graph, if there is one (`Store.features` reads them back). motifs: see
    TestCase. digest: of the test case, the same wherever it is made. exporter, items: see Observed.
    errors: the whole texts by (backend, level), which `Store.errors` reads back. passes: by
    backend, those that changed the model, where that was read; keepable: its graph then, if it may
    be mutated (`Store.passes`, `Store.keepable`).
    """

    __test__ = False

    index: int
    status: str
    epoch: int
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    comparable: float | None = None
    features: Features | None = None
    motifs: tuple[str, ...] = ()
    digest: str = ""
    exporter: str = ""
    items: tuple[str, ...] = ()
    errors: Mapping[tuple[str, str], Said] = field(default_factory=dict)
    passes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keepable: KeptCase | None = None


@dataclass(frozen=True)
class Observed:
    """What an epoch learns from one test, or from one probe.

    exporter: whose models it is made for. items: the operator signatures and the edges of its
    graph, in order. outcomes: backend -> (kind, message) per level. failures: confirmed ones, by
    signature; "BACKEND KIND STAGE" of each.
    """

    index: int
    epoch: int
    status: str
    exporter: str
    items: tuple[str, ...]
    outcomes: Mapping[str, tuple[tuple[str, str], ...]]
    failures: Mapping[str, str]

    @property
    def ran(self) -> bool:
        """Whether there was a model, or at least an exporter that failed to make one."""
        return self.status in ("run", "export")


@dataclass(frozen=True)
class Variant:
    """One of the reduced models that turned out to be one finding.

    pattern: its operators and dtypes, for people; signatures: how many ended there; folder: of the
    first one, below the campaign's.
    """

    pattern: str
    title: str
    signatures: int
    occurrences: int
    folder: str


@dataclass(frozen=True)
class FindingRow:
    """A unique finding. test: that shows it, the first one in the order of tests and probes.

    by_levels: occurrences by the levels at which it failed ("O0,O3"). Once it is reduced: refined,
    the signature of the reduced model; pattern, its operators for people; nodes, how many there
    were and are; duplicates: other signatures that turned out to be this finding; suspects: those
    that are not reduced, of models that contain the pattern. place: of the first occurrence in the
    order of tests and probes (nnfuzz.records.schedule.place_of). size: nodes of its graph.
    complaint: what failures of one cluster share, explained: those of the duplicates that are so
    since the pattern was run and not for their own reduction, alike: other signatures of the
    cluster while none is reduced; see nnfuzz.findings.clusters. backends: all labels
    of the compiler under which it occurs.
    """

    signature: str
    test: TestId
    kind: str
    stage: str
    backend: str
    level: str
    title: str
    folder: str
    found_at: float = 0.0
    party: str = ""
    occurrences: int = 1
    by_levels: dict[str, int] = field(default_factory=dict)
    refined: str = ""
    pattern: str = ""
    nodes: tuple[int, ...] = ()
    duplicates: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = ()
    place: int = 0
    size: int = 0
    complaint: str = ""
    explained: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()
    compiler: str = ""
    backends: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiler", self.compiler or self.backend)
        object.__setattr__(self, "backends", self.backends or (self.backend,))


@dataclass(frozen=True)
class Occurrence:
    """That a signature was seen. bucket: "finding", "known" (asked to be ignored), "flaky".

    kind: "BACKEND KIND STAGE". levels: that failed, with commas between. repeated, tried: how many
    of how many runs in fresh workers failed in the same way. title: of the signature, where it has
    no finding (flaky).
    """

    signature: str
    test: TestId
    bucket: str = "finding"
    kind: str = ""
    levels: str = ""
    repeated: int = 0
    tried: int = 0
    title: str = ""


@dataclass(frozen=True)
class FlakyRow:
    """A failure that did not repeat: in all its occurrences, `repeated` of `tried` runs failed."""

    signature: str
    title: str
    occurrences: int
    repeated: int
    tried: int


@dataclass(frozen=True)
class ReductionRow:
    """What came of reducing the finding of a signature. reason: why nothing did, else "".

    refined: see nnfuzz.triage.refine. graph: the reduced one. before, after: nodes.
    explained: by another finding with the same refined signature, and so not reduced to the end.
    keys: see nnfuzz.triage.keys. explanations: hypotheses that predict what is wrong.
    accused: the party that the reduced case accuses; "" if that is unknown.
    """

    signature: str
    refined: str = ""
    title: str = ""
    pattern: str = ""
    graph: GraphView = NO_GRAPH
    before: int = 0
    after: int = 0
    seconds: float = 0.0
    reason: str = ""
    explained: bool = False
    keys: tuple[str, ...] = ()
    explanations: tuple[str, ...] = ()
    accused: str = ""


@dataclass(frozen=True)
class AvoidedRow:
    """Something that generation keeps away from, since the finding `signature` fails there.

    item: an operator signature, or an edge (nnfuzz.ir.edges). why: for people. share: of the tests
    with it that failed.
    """

    item: str
    signature: str
    why: str
    share: float = 1.0


@dataclass(frozen=True)
class EventRow:
    """A fault of nnfuzz, a worker's death, or another thing worth keeping."""

    test: TestId
    kind: str
    backend: str = ""
    stage: str = ""
    signal: str = ""
    message: str = ""
    details: str = ""


class HangStatus(StrEnum):
    """What came of a run that looked like a hang: nothing yet, or what the time limit decided."""

    UNCONFIRMED = "unconfirmed"
    CONFIRMED = "confirmed"
    FLAKY = "flaky"
    ANSWERED = "answered"


@dataclass(frozen=True)
class HangRow:
    """A run that looks like a hang, kept when that is first seen.

    seconds: for which it had been waited. signature: that it will have if it is one. late: whether
    epochs do not wait for it, and take it for one. exporter, items: see Observed.
    """

    test: TestId
    epoch: int
    backend: str
    level: str
    stage: str
    seconds: float
    signature: str
    exporter: str
    items: tuple[str, ...]
    late: bool
    status: HangStatus = HangStatus.UNCONFIRMED

    def to_json(self) -> dict[str, Any]:
        """What a summary tells of it."""
        told = {name: getattr(self, name) for name in ("backend", "level", "stage")}
        return {"test": str(self.test), **told, "seconds": round(self.seconds, 1)}


@dataclass(frozen=True)
class Record:
    """What one test adds, written in one transaction. hangs: what came of which, by backend."""

    test: TestRow | None = None
    findings: tuple[FindingRow, ...] = ()
    occurrences: tuple[Occurrence, ...] = ()
    events: tuple[EventRow, ...] = ()
    hangs: tuple[tuple[TestId, str, HangStatus], ...] = ()


def merged(
    rows: Iterable[FindingRow],
    reductions: Mapping[str, ReductionRow],
    suspects: Mapping[str, str] | None = None,
) -> list[FindingRow]:
    """One row for all findings that share enough keys (nnfuzz.triage.keys), the refined signature
    among them: the smallest of those that are reduced to the end, then that of the lowest index.

    suspects: signature -> the refined one that its model contains the pattern of; they go with it
    until they are reduced themselves. What is neither stands for itself. In order of discovery.
    """
    rows, suspects = sorted(rows, key=lambda row: (row.place, row.signature)), suspects or {}
    leaders = _leaders(rows, reductions)
    of_refined = {reductions[s].refined: leader for s, leader in leaders.items()}
    groups: dict[str, list[FindingRow]] = {}
    for row in rows:
        suspected = of_refined.get(suspects.get(row.signature, ""), row.signature)
        groups.setdefault(leaders.get(row.signature, suspected), []).append(row)
    found = [_together(group, reductions) for group in groups.values()]
    return sorted(found, key=lambda row: (row.found_at, row.signature))


def _leaders(rows: Iterable[FindingRow], reductions: Mapping[str, ReductionRow]) -> dict[str, str]:
    """Of what is reduced, by signature, the first one that has the same cause."""
    keyed = {}
    for row in rows:
        if refined := _refined(row, reductions):
            keys = Key.parse_all(reductions[row.signature].keys)
            keyed[row.signature] = {Key(KeyKind.CAUSE, refined), *keys}
    return grouped(keyed)


def _refined(row: FindingRow, reductions: Mapping[str, ReductionRow]) -> str:
    known = reductions.get(row.signature)
    return known.refined if known else ""


def _together(group: list[FindingRow], reductions: Mapping[str, ReductionRow]) -> FindingRow:
    group = sorted(group, key=lambda row: (row.place, row.signature))
    certain = [row for row in group if _refined(row, reductions)] or group[:1]
    if certain[0].signature in reductions:
        told = {row.signature: reductions[row.signature] for row in certain}
        certain.sort(key=lambda row: (told[row.signature].explained, told[row.signature].after))
    first, *others = certain
    by_levels: dict[str, int] = {}
    for row in group:
        for levels, count in row.by_levels.items():
            by_levels[levels] = by_levels.get(levels, 0) + count
    whole = replace(
        first,
        occurrences=sum(row.occurrences for row in group),
        found_at=min(row.found_at for row in group),
        by_levels=by_levels,
        backends=backends_of(group),
        duplicates=tuple(row.signature for row in others),
        suspects=tuple(row.signature for row in group if row not in certain),
    )
    reduction = reductions.get(first.signature)
    if reduction is None or not reduction.refined:
        return whole
    return replace(
        whole,
        title=reduction.title,
        party=reduction.accused or whole.party,
        refined=reduction.refined,
        pattern=reduction.pattern,
        nodes=(reduction.before, reduction.after),
        variants=_variants(certain, reductions),
    )


def backends_of(rows: Iterable[FindingRow]) -> tuple[str, ...]:
    """All labels under which some findings occur, sorted."""
    return tuple(sorted({label for row in rows for label in row.backends}))


def _variants(
    group: Iterable[FindingRow], reductions: Mapping[str, ReductionRow]
) -> tuple[Variant, ...]:
    """Of reduced rows in order, by the pattern they were reduced to."""
    alike: dict[str, list[FindingRow]] = {}
    for row in group:
        alike.setdefault(reductions[row.signature].pattern, []).append(row)
    return tuple(
        Variant(
            pattern,
            reductions[rows[0].signature].title,
            len(rows),
            sum(row.occurrences for row in rows),
            rows[0].folder,
        )
        for pattern, rows in alike.items()
    )
