"""One failure with everything that is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.compare.flip import NOBODY, Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import Failure, Signature

RIGHT_IN = "right_in"
"""In `Finding.campaign`: another release, which is right where this one fails; a reduction keeps
that, if it was what the campaign looked for."""


BISECTION = "bisection"
"""In `Finding.campaign`: what `nnfuzz bisect` found, a list of nnfuzz.experiment.bisection."""


@dataclass(frozen=True, eq=False)
class Finding:
    """One failure of one backend on one test case.

    outcomes: of all targets of the failing backend, and of others for comparison. blame: what the
    experiment accuses. backend: None for an exporter's failure, whose
    case has no model. config: CaseConfig.to_json() of the case. versions: of the compilers.
    campaign: whatever else is worth keeping, JSON; "grouping" may hold a sentence on how sure
    it is that this is a finding of its own.
    localisation: Localisation.to_json(), where that was looked for.
    """

    failure: Failure
    case: TestCase
    outcomes: tuple[Outcome, ...]
    backend: BackendSpec | None
    config: Mapping[str, Any]
    verdict: Verdict | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    campaign: Mapping[str, Any] = field(default_factory=dict)
    localisation: Mapping[str, Any] | None = None
    blame: Blame = NOBODY

    @property
    def signature(self) -> Signature:
        return self.failure.signature
