"""The jobs of a reducer's worker (nnfuzz.reduction.service), beside those of a producer's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nnfuzz.reduction.edit import Group
from nnfuzz.reduction.information import Explained
from nnfuzz.sandbox.job import Job
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.keys import Hypothesis


@dataclass(frozen=True)
class Proposed:
    """Groups of edits, and the measure of the case that they are for."""

    groups: list[Group]
    measure: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Propose(Job[Proposed]):
    """Lists the edits that a pass proposes. by: the name of the pass."""

    case: TestCase
    by: str


@dataclass(frozen=True)
class ExporterError:
    """The exception of an exporter that failed."""

    error_type: str
    message: str
    traceback: str


@dataclass(frozen=True, eq=False)
class Prepared:
    """A candidate that can be tried. failed: how the exporter failed; then there is no model."""

    case: TestCase
    measure: tuple[int, ...]
    digest: str
    failed: ExporterError | None = None


@dataclass(frozen=True)
class Rejected:
    """A candidate that is not tried. reason: for people."""

    reason: str


@dataclass(frozen=True, eq=False)
class Prepare(Job[Prepared | Rejected]):
    """Makes a candidate. below: the measure that it has to be less than; None for any.

    Edits that are no steps of reduction, but experiments (nnfuzz.reduction.diagnosis): "redrawing",
    other inputs and weights by a seed; "importing", the graph that an exporter wrote, or one node
    of it, in the direct form, without an attribute where the value names one; "readers", see
    nnfuzz.reduction.explain.read_by.
    """

    case: TestCase
    edits: Group
    below: tuple[int, ...] | None = None

    def accept(self, answer: Prepared | Rejected) -> Prepared | Rejected:
        if isinstance(answer, Prepared):
            answer.case.checked()
        return answer


@dataclass(frozen=True)
class ListFamilies(Job[list[str]]):
    """Names the small families of specs that an operator belongs to."""

    operator: str


@dataclass(frozen=True, eq=False)
class Explain(Job[Explained]):
    """Tries hypotheses on wrong outputs of a case. among: those to try; none for all."""

    case: TestCase
    outputs: Mapping[str, np.ndarray]
    among: tuple[Hypothesis, ...] = ()
