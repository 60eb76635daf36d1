"""A candidate of the reducer: the jobs that make it, the question it is run for, and the result.

Jobs go to a worker with torch and onnx (nnfuzz.reduction.service), beside those of a producer. One
of them explains a wrong result; its evidence for a hypothesis is measured in bits. A hypothesis
that predicts every element may do so by chance. An element that is 0, or off by one, fits many
hypotheses; several distinct numbers fit few.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.numeric import Habits
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.base.writing import ROUNDED
from nnfuzz.compare.flip import NOBODY, Blame
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.dtypes import plain
from nnfuzz.reduction.edit import Group
from nnfuzz.sandbox.job import Job
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.keys import Hypothesis
from nnfuzz.triage.signature import (
    DTYPE,
    FAILURES,
    OTHERS,
    SWITCHES,
    Failure,
    answering,
    corrupted,
    level_pattern,
)

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Envelope


SPARE_BITS = 3.0
"""With these, one of the tried hypotheses agrees by chance with a probability of at most 1/8."""
FLOAT_BITS, FORM_BITS = 10.0, 8.0
"""Bits of a float that only a computation yields (the mantissa of float16, the narrowest dtype
whose digits are all compared), and bits of a shape or dtype."""
MOST_DIFFERENCES = 64

Difference = tuple[str, str, str]
"""(kind, right number, actual number). kind: "float", "integer", "form" for a shape or dtype, or
"bool" with the output and the index, since booleans have only two values."""


@dataclass(frozen=True)
class Explained:
    """The hypotheses that predict a wrong result (nnfuzz.reduction.explain).

    explanations: hypothesis -> its family. tried: number of hypotheses that were tried.
    differences: see `differences`. operands: the family of an operator with many operands.
    """

    explanations: Mapping[Hypothesis, Hypothesis]
    tried: int
    differences: list[Difference]
    operands: Hypothesis | None = None


def differences(
    truth: Mapping[str, Envelope], outputs: Mapping[str, np.ndarray]
) -> list[Difference]:
    """The distinct ways in which elements differ, at most MOST_DIFFERENCES."""
    every = (pair for name, right in truth.items() for pair in _differences(name, right, outputs))
    return sorted(set(every))[:MOST_DIFFERENCES]


def _differences(
    name: str, right: Envelope, outputs: Mapping[str, np.ndarray]
) -> Iterator[Difference]:
    from nnfuzz.compare.verdict import mismatch, outside  # a judge's, with torch

    actual = outputs.get(name)
    if actual is None or actual.dtype != right.dtype.numpy or actual.shape != right.ref.shape:
        if wrong := mismatch(name, right, actual):
            yield "form", wrong.expected, wrong.actual
        return
    values = plain(actual)
    for index in np.argwhere(outside(right, actual)):
        place = tuple(index)
        kind = "float" if right.dtype.is_float else "integer"
        kind = f"bool {name}{list(map(int, place))}" if right.dtype.is_bool else kind
        yield kind, str(right.ref[place].item()), str(values[place].item())


def enough(pairs: Collection[Difference], tried: int) -> bool:
    """Whether it is unlikely that one of `tried` hypotheses predicts the differences by chance."""
    return bits(pairs) >= math.log2(max(1, tried)) + SPARE_BITS


def bits(pairs: Collection[Difference]) -> float:
    """The information in some differences: log2 of the number of values that each could have.

    0, 1, -1, the neighbours and the negative of the right number are easily guessed. They count as
    a choice between the numbers that occur in the differences, not between all numbers.
    """
    occurring = {text for kind, *texts in pairs if kind in ("float", "integer") for text in texts}
    guess = math.log2(max(2, len(occurring)))
    return sum(_bits(pair, guess) for pair in pairs)


def _bits(pair: Difference, guess: float) -> float:
    """guess: bits of a number that is easily guessed."""
    kind, expected, actual = pair
    if kind == "form":
        return FORM_BITS
    if kind.startswith("bool"):
        return 1.0
    right, there = float(expected), float(actual)
    small = abs(there) <= 1 and not _fraction(there)
    if small or not math.isfinite(there) or there in (right + 1, right - 1, -right):
        return guess
    return FLOAT_BITS if kind == "float" else max(guess, math.log2(abs(there)))


def _fraction(number: float) -> bool:
    return math.isfinite(number) and number != round(number)


@dataclass(frozen=True)
class ReductionFigures:
    """The entry "reduction" of a finding.json.

    nodes, elements: before and after; a graph in several calls counts once. confirmed: how many of
    how many runs in fresh processes failed. known: the hash of the known cause that was recognised,
    or "".
    """

    nodes: tuple[int, int] = (0, 0)
    elements: tuple[int, int] = (0, 0)
    candidates: int = 0
    seconds: float = field(default=0.0, metadata=ROUNDED)
    confirmed: tuple[int, int] = (0, 0)
    known: str = ""


_VARYING = frozenset({OTHERS, "about", "operators", SWITCHES, DTYPE})
"""Parts that follow from the message, and from what else it lists."""
_NUMBER = re.compile(r"\d+")
NUMBERS = frozenset({"value", "nonfinite"})


@dataclass(frozen=True)
class CandidateQuestion:
    """What is run, and how: the same for every candidate.

    levels: of the backend. isolates: run the direct form as well, to tell the exporter's faults.
    judged: whether values matter. without: passes of the optimiser to switch off. until, lazy: see
    BackendRunner.submit; they save what cannot be like the failure. habits: of the compiler.
    hurried: whether what takes many times as long as all that ended may count as a hang.
    silent: levels that do not take the whole case; they need not take a candidate either.
    """

    levels: tuple[str, ...]
    judged: bool
    isolates: bool = False
    without: tuple[str, ...] = ()
    until: Stage = Stage.EXECUTE
    lazy: bool = False
    habits: Habits = ()
    hurried: bool = False
    silent: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of a candidate. digest: "" if it was rejected before it ran, and why in `reason`.

    failing: (failure, failure key) of each way in which it failed. blames: by signature.
    """

    digest: str = ""
    reason: str = ""
    measure: tuple[int, ...] = ()
    case: TestCase | None = None
    outcomes: tuple[Outcome, ...] = ()
    verdict: Verdict | None = None
    blames: Mapping[str, Blame] = field(default_factory=dict)
    failing: tuple[tuple[Failure, str], ...] = ()

    def blame(self, failure: Failure) -> Blame:
        return self.blames.get(failure.signature.hash, NOBODY)


def with_failure_keys(tried: Tried, silent: Collection[str]) -> Tried:
    """What came of a candidate, with the failure keys for a question with these silent levels."""
    failures = {failure.signature.hash: failure for failure, _ in tried.failing}.values()
    return replace(tried, failing=tuple(with_keys(failures, tried.blame, tried.outcomes, silent)))


def with_keys(
    failures: Iterable[Failure],
    blame: Callable[[Failure], Blame],
    outcomes: Sequence[Outcome],
    silent: Collection[str] = (),
) -> list[tuple[Failure, str]]:
    """Each failure with each of its failure keys."""
    return [
        (failure, key)
        for failure in failures
        for key in failure_keys(failure, blame(failure), outcomes, silent)
    ]


def failure_keys(
    failure: Failure,
    blame: Blame = NOBODY,
    outcomes: Iterable[Outcome] = (),
    silent: Collection[str] = (),
) -> list[str]:
    """The failure key, and those that it would have with each other complaint of its message: a
    model that loses one of them has kept the failure.
    """
    outcomes, parts = list(outcomes), failure.signature.parts
    keys = [failure_key(failure, blame, outcomes, silent)]
    for message, location in parts.get(OTHERS, ()):
        changed = {**parts, "message": message, "location": location}
        other = replace(failure.signature, parts=changed)
        keys.append(failure_key(replace(failure, signature=other), blame, outcomes, silent))
    return keys


def failure_key(
    failure: Failure,
    blame: Blame = NOBODY,
    outcomes: Iterable[Outcome] = (),
    silent: Collection[str] = (),
) -> str:
    """What a reduction must keep: equal for failures that are the same for a maintainer.

    The signature without what changes with the model: for mismatches kind, levels and what is
    accused, for others the normalised error as well. A level that does not take a candidate counts
    too, unless it is silent, that is, did not take the whole case: a failure beside a level that
    works is worth more, and what keeps a level from saying anything is not part of the failure.
    """
    parts = {k: v for k, v in failure.signature.parts.items() if k not in _VARYING}
    if "frames" in parts:  # a function that is instantiated for the n-th node has n in its name
        parts["frames"] = [_NUMBER.sub("N", frame) for frame in parts["frames"]]
    if failure.kind is OutcomeKind.MISMATCH:
        parts["wrong"] = "number" if parts.get("wrong") in NUMBERS else parts.get("wrong")
        parts["accused"] = blame.coordinate.value
    outcomes = list(outcomes)
    if memory := corrupted(failure.signature.details):
        for name in ("signal", "message", "levels"):
            parts.pop(name, None)
    if outcomes and not memory:
        # A level that fails in another way is no witness for the optimiser's guilt.
        failing = {*failure.levels, *(o.level for o in outcomes if o.kind in FAILURES)}
        parts["levels"] = level_pattern(failing, answering(outcomes))
    if outcomes and outcomes[0].level in silent:
        # Nobody knows whether it takes optimisation, so that a candidate is free to tell.
        for name in ("levels", "accused"):
            parts.pop(name, None)
    refusing = {o.level for o in outcomes if o.kind is OutcomeKind.UNSUPPORTED}
    return json.dumps([parts, sorted(refusing.difference(silent))], sort_keys=True)


@dataclass(frozen=True, eq=False)
class Propose(Job[list[Group]]):
    """Lists the groups of edits that a pass proposes. by: the name of the pass."""

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
    """Names the small families of specs that an operator belongs to, or the one that declares an
    attribute.
    """

    operator: str
    attribute: str = ""


@dataclass(frozen=True, eq=False)
class Explain(Job[Explained]):
    """Tries hypotheses on wrong outputs of a case. among: those to try; none for all."""

    case: TestCase
    outputs: Mapping[str, np.ndarray]
    among: tuple[Hypothesis, ...] = ()
