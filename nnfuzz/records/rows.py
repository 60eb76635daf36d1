"""The rows of a campaign's store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nnfuzz.backend.outcome import Brief
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.testcase.identity import TestId
from nnfuzz.triage.keys import Hypothesis, Key, KeyKind


@dataclass(frozen=True)
class TestRow:
    """The test of one index: what a lane reports of it, a campaign keeps and an epoch learns from.

    status: "run", or why nothing ran (a stage of NotProduced, or "fault"). outcomes: backend ->
    level -> short form of the outcome. seconds: by phase. features: of the graph, as JSON (see
    nnfuzz.ir.features), "" without a graph. digest: of the test case, equal on all machines.
    exporter: whose models it is made for, with the opset where that was drawn (a writer, see
    nnfuzz.materialize.opsets). variations: see TestCase. items: the operator signatures and the
    edges of its graph, in order. failures: confirmed ones, by signature; "BACKEND KIND STAGE" of
    each.
    """

    __test__ = False

    index: int
    status: str
    epoch: int
    outcomes: Mapping[str, Mapping[str, Brief]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    features: str = ""
    digest: str = ""
    exporter: str = ""
    variations: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        """How often each program was called: three times in a test with either variation, and four
        times with both, since the first size comes again.
        """
        several = {"calls", "dynamic"}.intersection(self.variations)
        return 2 + len(several) if several else 1

    @property
    def ran(self) -> bool:
        """Whether there was a model, or at least an exporter that failed to make one."""
        return self.status in ("run", "export")


@dataclass(frozen=True)
class FindingRow:
    """A unique finding: the store's row of one signature, and figures over all of them.

    test: the one of the lowest index that shows it. size: nodes of its graph. party: accused by the
    experiment. suspicion: equal for failures that may have one cause (nnfuzz.store.suspicions).
    severity: see nnfuzz.triage.severity; that of the reduced case once there is one.
    backends: all labels of the compiler under which it occurs.

    Once the finding is reduced: cause, the hash of its cause; pattern, the operators of the reduced
    model for people; nodes, their number before and after. duplicates: other signatures that turned
    out to have the same cause. suspects: other signatures that are not reduced and may have it,
    since their models contain the pattern, or since they fail in the same way.
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
    size: int = 0
    suspicion: str = ""
    severity: str = ""
    compiler: str = ""
    backends: tuple[str, ...] = ()
    cause: str = ""
    pattern: str = ""
    nodes: tuple[int, ...] = ()
    duplicates: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiler", self.compiler or self.backend)
        object.__setattr__(self, "backends", self.backends or (self.backend,))

    @property
    def index(self) -> int:
        """The index of its test."""
        return self.test.index or 0

    @property
    def others(self) -> tuple[str, ...]:
        """All other signatures of the finding."""
        return self.duplicates + self.suspects

    @property
    def others_in_words(self) -> str:
        """Why the other signatures belong to this finding; "" if there is none."""
        ways = ((self.duplicates, "of the same cause"), (self.suspects, "suspected of its cause"))
        return ", ".join(f"{len(signatures)} {how}" for signatures, how in ways if signatures)


@dataclass(frozen=True)
class Occurrence:
    """An occurrence of a signature. bucket: "finding", "known" (asked to be ignored), "flaky".

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


NOT_SHOWN = "does not reproduce"
"""Begins the reason of a reduction whose script never failed: the finding is a flaky failure."""


@dataclass(frozen=True)
class ReductionRow:
    """The result of reducing the finding of a signature.

    cause: the hash of its cause (nnfuzz.triage.cause). graph: of the reduced model, whose
    operators are `after`, from `before`. reason: why it could not be reduced, or "". explained:
    whether a known cause explains it, so that it was not reduced to the end. keys: as texts
    (nnfuzz.triage.keys). explanations: hypotheses that predict the wrong result. accused: the party
    that the reduced case accuses, or "". severity: of the reduced case.
    """

    signature: str
    cause: str = ""
    title: str = ""
    pattern: str = ""
    graph: GraphView = NO_GRAPH
    before: int = 0
    after: int = 0
    seconds: float = 0.0
    reason: str = ""
    explained: bool = False
    keys: tuple[str, ...] = ()
    explanations: tuple[Hypothesis, ...] = ()
    accused: str = ""
    severity: str = ""

    @property
    def all_keys(self) -> frozenset[Key]:
        """Its keys, that of the cause included."""
        return Key.parse_all(self.keys) | {Key(KeyKind.CAUSE, self.cause)}


@dataclass(frozen=True)
class AvoidedRow:
    """Something that generation keeps away from, since it keeps failing or being refused.

    item: an operator signature, or an edge between two operators. signature: of the finding that
    fails there, or the words of the refusal. why: for people. share: of the tests with it that
    failed or were refused.
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
    """The result of a run that looked like a hang: none yet, or the decision of the time limit."""

    UNCONFIRMED = "unconfirmed"
    CONFIRMED = "confirmed"
    FLAKY = "flaky"
    ANSWERED = "answered"


@dataclass(frozen=True)
class HangRow:
    """A run that looks like a hang, kept from its first occurrence on.

    seconds: for which it had been waited. signature: that it will have if it is one.
    """

    test: TestId
    backend: str
    level: str
    stage: str
    seconds: float
    signature: str
    status: HangStatus = HangStatus.UNCONFIRMED
