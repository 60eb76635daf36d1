"""Questions to reference implementations about one operator: agreement, examples, the report."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from nnfuzz.backend.target import DIRECT
from nnfuzz.check.instances import SIZES, OpInstance, solved
from nnfuzz.check.runtimes import (
    BUNDLED,
    Arrays,
    Runtime,
    Unavailable,
    doubled,
    inputs_for,
    one_node,
    run_torch,
    torch_tensors,
)
from nnfuzz.check.versions import legal_opsets
from nnfuzz.compare.envelope import Envelope, admitted
from nnfuzz.compare.verdict import mismatch
from nnfuzz.ir.dtypes import DType, is_floating, plain
from nnfuzz.operators.draw import Draw, Sizes
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import OpSpec, Range
from nnfuzz.operators.waiver import Waiver, Waivers

if TYPE_CHECKING:
    import onnx
    from rich.table import Table

SLACK = 2.0
"""An implementation may be off by this many radii and units in the last place."""


@dataclass(frozen=True)
class Expected:
    """The results of an operator in its own dtypes, and an envelope around each: of a float64 run,
    or the result itself if it is discrete and nothing can turn it over.
    """

    native: Arrays
    envelopes: list[Envelope]

    @classmethod
    def of(cls, op: OpSpec, arrays: Sequence[np.ndarray]) -> Expected:
        """Run the operator on inputs in their own dtypes and, for floats, in float64."""
        native = run_torch(op, arrays)
        u = max((DType.of(a.dtype).unit_roundoff for a in arrays), default=0.0)
        intervals = admitted(op, doubled(arrays), [DType.of(a.dtype) for a in native], u)
        return cls(native, [_envelope(*pair) for pair in zip(native, intervals, strict=True)])

    def contradicts(self, others: Sequence[np.ndarray]) -> str:
        """How other results differ from the expected ones; empty where they agree."""
        if len(others) != len(self.native):
            return f"{len(others)} outputs instead of {len(self.native)}"
        pairs = enumerate(zip(self.envelopes, others))
        found = (mismatch(f"output {i}", own, other) for i, (own, other) in pairs)
        return next((str(wrong) for wrong in found if wrong), "")


def _envelope(result: np.ndarray, interval: Interval) -> Envelope:
    """Bounds of an implementation's results."""
    unsure, dtype = interval.mask(), DType.of(result.dtype)
    if not dtype.is_float:
        exact, ends = plain(result), (interval.lo.numpy(), interval.hi.numpy())
        ends = (exact, exact) if interval.exact and not unsure.any() else ends
        return Envelope(dtype, exact, *ends, np.zeros(result.shape, bool))
    info = ml_dtypes.finfo(result.dtype)
    middle = (interval.lo + interval.hi) / 2
    rounding = float(info.eps) * middle.abs() + (interval.hi - interval.lo) / 2
    spread = (SLACK * rounding + float(info.smallest_normal)).masked_fill(unsure, math.inf)
    ends = (middle - spread).numpy(), (middle + spread).numpy()
    return Envelope(dtype, middle.numpy(), *ends, unsure.numpy())


def numeric_faults(op: OpSpec, arrays: Sequence[np.ndarray], expected: Expected) -> list[str]:
    """Numeric claims of a spec that do not hold on inputs within its domain, as messages.

    Finite results, `feasible`, `value_range`, `margins` without sign or NaN, and PyTorch's own
    result within the rounding error that `radius` grants.
    """
    faults = []
    for result in expected.native:
        if is_floating(result) and not np.isfinite(plain(result)).all():
            return ["the inputs lie in the domain, but the result is not finite"]
    text = expected.contradicts(expected.native)
    if text:
        faults.append(f"PyTorch leaves radius: {text}")
    ranges = [_range(a) for a in arrays]
    # Ranges do not distinguish floats from integers, which wrap around where floats are undefined.
    sampled = all(a.size for a in arrays)
    if sampled and not op.feasible(*ranges) and any(map(is_floating, arrays)):
        faults.append(f"feasible{tuple(ranges)} denies inputs that lie in the domain")
    faults += _range_faults(op, ranges, expected)
    for margin in op.margins(*torch_tensors(arrays)):
        if not bool((margin >= 0).all()):
            faults.append("a margin is negative or not a number")
    return faults


def _range(array: np.ndarray) -> Range:
    array = plain(array)
    return (array.min().item(), array.max().item()) if array.size else (0.0, 0.0)


def _range_faults(op: OpSpec, ranges: Sequence[Range], expected: Expected) -> list[str]:
    envelopes = expected.envelopes
    bounds = [op.value_range(*ranges), *(b[0] for b in op.further(*ranges))]
    bounds += bounds[:1] * (len(envelopes) - len(bounds))
    for (lo, hi), own in zip(bounds, envelopes):
        if not lo <= hi:
            return [f"value_range{tuple(ranges)} is the empty [{lo}, {hi}]"]
        if not own.ref.size or (_is_certain(own) and _wraps(own.dtype, lo, hi)):
            continue
        low, high = float(own.hi.min()), float(own.lo.max())
        if low < lo or high > hi:
            return [f"value_range{tuple(ranges)} = [{lo}, {hi}] excludes [{low}, {high}]"]
    if (first := envelopes[0]).ref.size and not _is_certain(first):
        least = np.asarray(first.lo, np.float64)  # -(-128) is no int8
        near, away = float(np.maximum(-least, first.hi).min()), op.magnitude(*ranges)
        return [f"magnitude{tuple(ranges)} = {away} excludes {near}"] if near < away else []
    return []


def _is_certain(envelope: Envelope) -> bool:
    """Whether an envelope holds a discrete result that nothing can turn over."""
    return envelope.lo is envelope.ref


def _wraps(dtype: DType, lo: float, hi: float) -> bool:
    """Whether a range leaves an integer dtype, so that wrap-around may land anywhere."""
    least, most = dtype.limits
    return lo < least or hi > most or math.isnan(lo)


MOST_PROBLEMS = 20
AGREES, WAIVED, DIFFERS, UNABLE = "agrees", "waived", "differs", "unable"
"""Answers of a reference implementation: WAIVED if it differs where a waiver says so."""


@dataclass
class CheckReport:
    """Counts and problems of one operator; `problems` is empty for a conforming spec.

    forward, backward: solved instances that were checked. unsolved: drawn, but not solved.
    accepted: blind instances that PyTorch runs and ONNX defines. refused: the accepted ones that
    `requires` refuses. torch_only: further refused instances that PyTorch runs and ONNX rejects or
    understands differently. broken: instances with one broken condition. torch_rejects: broken
    ones that PyTorch rejects as well. needless: broken ones that both judges accept, so that the
    condition is too strict. unconfirmed: solved instances whose values no ONNX runtime can compute.
    empty: instances without elements that were checked.
    answers: how often each reference implementation agrees, is waived, differs or is unable.
    waived: how often each waiver explained a difference. examples: an instance that shows a waiver,
    as lines; None if none was found.
    """

    operator: str
    forward: int = 0
    backward: int = 0
    unsolved: int = 0
    unconfirmed: int = 0
    accepted: int = 0
    refused: int = 0
    torch_only: int = 0
    broken: int = 0
    torch_rejects: int = 0
    needless: int = 0
    empty: int = 0
    problems: list[str] = field(default_factory=list)
    example: str = ""
    answers: dict[str, Counter[str]] = field(default_factory=dict)
    waived: Counter[Waiver] = field(default_factory=Counter)
    examples: dict[Waiver, list[str] | None] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the operator has no problem."""
        return not self.problems

    @property
    def refused_share(self) -> float:
        """Share of the instances acceptable to both judges that `requires` refuses."""
        return self.refused / self.accepted if self.accepted else 0.0

    def problem(self, text: str) -> None:
        """Add a problem, up to MOST_PROBLEMS of them."""
        if len(self.problems) < MOST_PROBLEMS and text not in self.problems:
            self.problems.append(text)


COUNTS = tuple(each.name for each in fields(CheckReport) if each.type == "int")


def report_table(reports: Sequence[CheckReport]) -> Table:
    """The reports as a table for rich, one operator a line.

    The last columns say how often each reference implementation agreed.
    """
    from rich.table import Table

    names = list(dict.fromkeys(name for r in reports for name in r.answers))
    result = Table()
    for i, column in enumerate(["operator", *COUNTS, "problems", *names]):
        result.add_column(column.replace("_", " "), justify="right" if i else "left")
    for r in reports:
        counts = {name: str(getattr(r, name)) for name in COUNTS}
        if r.refused:
            counts["refused"] += f" ({r.refused_share:.0%})"
        cells = [*counts.values(), str(len(r.problems)), *(_agreed(r, name) for name in names)]
        result.add_row(r.operator, *cells, style="" if r.ok else "red")
    return result


def _agreed(report: CheckReport, name: str) -> str:
    """How often an implementation agreed: "50", "50 of 57", "" where it cannot run any instance."""
    counts = report.answers.get(name, Counter[str]())
    able = sum(counts.values()) - counts[UNABLE]
    agreed = counts[AGREES]
    return ("" if not able else str(agreed)) + (f" of {able}" if agreed < able else "")


def listing(reports: Iterable[CheckReport]) -> Iterator[str]:
    """Problems, examples of needless refusals and waivers with their examples, line by line."""
    for r in reports:
        for waiver, example in r.examples.items():
            claim = f"{waiver.implementation} {waiver.claim}"
            yield f"{r.operator}: {claim} ({r.waived[waiver]} times here)"
            known = f"; known as {waiver.known}" if waiver.known else ""
            yield f"    decided by {waiver.clause}{known}"
            yield from (f"    {line}" for line in example or ())
        yield from (f"{r.operator}: {text}" for text in r.problems)
        if r.example:
            yield f"{r.operator}: {r.example}"


TINY = Sizes(max_dim=(1, 3, 3, 3, 3, 3, 3), max_numel=1 << 8, max_flops=1 << 16)
SEARCH = 2000
"""Number of instances among which one has to show the difference that a waiver claims."""
SHOWN = 12
"""Elements of a tensor that an example shows."""


@dataclass(frozen=True)
class ReferenceQuestion:
    """An instance with inputs, its model at an opset, and `torch`'s results for it.

    waivers: those declared for reference implementations there.
    """

    instance: OpInstance
    opset: int
    model: onnx.ModelProto
    arrays: Arrays
    expected: Expected
    waivers: Sequence[Waiver]

    def __str__(self) -> str:
        return f"{self.instance}, opset {self.opset}"

    def on(self, implementation: str) -> list[Waiver]:
        """The waivers that are declared for a reference implementation there."""
        return [w for w in self.waivers if w.implementation == implementation]

    def ask(self, name: str, runtime: Runtime) -> tuple[str, str]:
        """A reference implementation's answer, and how it contradicts `torch`, if it does."""
        try:
            text = self.expected.contradicts(runtime(self.model, self.arrays))
        except Unavailable as error:
            return UNABLE, str(error)
        except Exception as error:
            text = f"raises {brief(error)}"
        if not text:
            return AGREES, ""
        return (WAIVED if self.on(name) else DIFFERS), text

    def lines(self, text: str) -> list[str]:
        """The question, its small inputs and a contradiction, for a reader."""
        lines = [str(self)]
        for i, array in enumerate(self.arrays):
            if array.size <= SHOWN:
                values = np.array2string(plain(array), separator=", ", max_line_width=1 << 20)
                lines.append(f"x{i} = {' '.join(values.split())}")
        return [*lines, text]


def example_of(
    spec: type[OpSpec],
    waiver: Waiver,
    rng: random.Random,
    waivers: Waivers,
    runtimes: Mapping[str, Runtime] = BUNDLED,
    search: int = SEARCH,
) -> tuple[ReferenceQuestion, str] | None:
    """A small instance that shows a waiver and nothing but that, with the difference.

    None if none of `search` small and as many larger instances shows it.
    """
    kinds = [
        (s, [o for o in legal_opsets(spec, s) if not waiver.below or o < waiver.below])
        for s in spec.signatures()
    ]
    kinds = [kind for kind in kinds if kind[1]]
    named = {*waiver.dtypes}
    kinds = [k for k in kinds if named & {*k[0][0].values(), k[0][1]}] or kinds
    values = np.random.default_rng(rng.getrandbits(32))
    lo, hi = spec.inputs[0].ranks
    for sizes in (TINY, SIZES):
        draw = Draw(rng, sizes)
        for _ in range(search * bool(kinds)):
            signature, opsets = draw.choice(kinds)
            instance = solved(spec, signature, draw.integer(lo, min(hi, 5)), draw)
            opset = draw.choice(opsets)
            if instance is None or instance.op.refusal(DIRECT, opset, *instance.types):
                continue
            known = waivers.covering(instance.op, opset, instance.types)
            if [w for w in known if w.implementation == waiver.implementation] != [waiver]:
                continue
            arrays, inside = inputs_for(instance, values)
            if not inside:
                continue
            model = one_node(instance, instance.op.type_transfer(*instance.types), opset)
            expected = Expected.of(instance.op, arrays)
            question = ReferenceQuestion(instance, opset, model, arrays, expected, known)
            answer, text = question.ask(waiver.implementation, runtimes[waiver.implementation])
            if answer == WAIVED:
                return question, text
    return None


def brief(error: BaseException) -> str:
    """The class of an error and the first line of its text."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:200]}"
