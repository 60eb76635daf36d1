"""One failure with everything that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.base.reading import Json, JsonObject, read_fields
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import NOBODY, Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.bisection import Bisection
from nnfuzz.reduction.candidate import ReductionFigures
from nnfuzz.reduction.diagnosis import NOTHING, Diagnosis
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.severity import Severity
from nnfuzz.triage.signature import Failure, Signature


@dataclass(frozen=True)
class Origin:
    """How a finding came about: the entry "campaign" of finding.json.

    epoch: of the campaign's test. right_in: another release, which is right where this one fails; a
    campaign that looks for regressions sets it, and a reduction keeps it. bisection: the results of
    `nnfuzz bisect`. verbatim: whether it takes the model's own bytes, which its text does not keep
    (such as raw_data). reduced_from, reduction, diagnosis: of a reduced finding.
    """

    epoch: int | None = None
    right_in: str = ""
    bisection: tuple[Bisection, ...] = ()
    reduced_from: Signature | None = None
    reduction: ReductionFigures | None = None
    diagnosis: Diagnosis = NOTHING
    verbatim: bool = False

    def to_json(self) -> JsonObject:
        """The fields that are set; those of the diagnosis stand beside the others."""
        entries: dict[str, object] = {"epoch": self.epoch} if self.epoch is not None else {}
        names = ("right_in", "verbatim")
        entries |= {name: value for name in names if (value := getattr(self, name))}
        if self.bisection:
            entries["bisection"] = as_json(self.bisection)
        if self.reduced_from:
            entries["reduced_from"] = as_json(self.reduced_from)
        if self.reduction:
            entries |= {"reduction": as_json(self.reduction), **as_json(self.diagnosis)}
        return entries

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> Origin:
        """The inverse of to_json; other entries are left out. Raises: Unreadable."""
        values = read_fields(cls, data, *(f.name for f in fields(cls) if f.name != "diagnosis"))
        own = read_fields(Diagnosis, data, *(f.name for f in fields(Diagnosis)))
        return cls(**values, diagnosis=Diagnosis(**own))


@dataclass(frozen=True, eq=False, repr=False)
class Finding:
    """One failure of one backend on one test case.

    outcomes: of all targets of the failing backend, and of others for comparison. backend: None for
    an exporter's failure, whose case has no model. config: the written CaseConfig of the case.
    versions: of the compilers. localisation: the written Localisation, if that was looked for.
    blame: the party that the experiment accuses.
    """

    failure: Failure
    case: TestCase
    outcomes: tuple[Outcome, ...]
    backend: BackendSpec | None
    config: Mapping[str, Json]
    verdict: Verdict | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    origin: Origin = field(default_factory=Origin)
    localisation: Mapping[str, Json] | None = None
    blame: Blame = NOBODY

    @property
    def signature(self) -> Signature:
        return self.failure.signature

    @property
    def system(self) -> str:
        """The name of the backend that the finding is about."""
        return self.backend.name if self.backend else self.failure.backend

    @property
    def severity(self) -> Severity:
        return Severity.of(self.failure, self.verdict, self.case.graph, self.case.inputs)

    def __repr__(self) -> str:
        return f"Finding({self.signature})"

    @property
    def diagnosis(self) -> Diagnosis:
        return self.origin.diagnosis
