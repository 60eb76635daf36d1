"""Decides whether known deviations of a compiler explain its wrong outputs.

A deviation is a dtype that the compiler always computes in another one, such as float64 in float32.
The envelopes are computed anew with the precision of the other dtype, to which inputs may be
rounded, too. An integer is not compared if it depends on a number that the other dtype cannot hold,
or on a sum that wrapped around.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nnfuzz.backend.numeric import FLUSHES, NO_NAN, SATURATES, TF32, Deviation, beyond
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Envelope, envelope, envelopes, given, node_intervals
from nnfuzz.compare.mismatch import Mismatch, MismatchKind
from nnfuzz.compare.reference import PRECISIONS, Precision, reference
from nnfuzz.compare.verdict import mismatch, outside
from nnfuzz.ir.dtypes import DType, held, plain
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import flatten

TF32_ROUNDOFF = 2.0**-10
"""Relative error of a product in TF32: two factors with 10 bits of mantissa, each off by 2^-11."""
Arrays = Mapping[str, np.ndarray]


def explains(
    deviations: Collection[Deviation], graph: Graph, params: Arrays, outputs: Arrays
) -> bool:
    """Whether a correct compiler with these deviations may return these outputs.

    An output may have the other dtype of a deviation; wrong integers must be numbers that this
    dtype can hold. Raises: ReferenceFault.
    """
    return not refuting(deviations, graph, params, outputs)


def refuting(
    deviations: Collection[Deviation], graph: Graph, params: Arrays, outputs: Arrays
) -> set[str]:
    """Names of the outputs that no correct compiler with these deviations returns.

    Raises: ReferenceFault.
    """
    admitted = deviating(deviations, graph, params)
    dtypes = {name: graph.type(name).dtype for name in graph.outputs}
    refuted = {
        name
        for name, dtype in dtypes.items()
        if name not in outputs or not _agrees(admitted[name], outputs[name], dtype, deviations)
    }
    rest = [name for name in dtypes if name not in refuted]
    strange = {n: _unrepresentable(admitted[n], outputs[n], dtypes[n], deviations) for n in rest}
    strange = {name: mask for name, mask in strange.items() if mask.any()}
    if strange:
        undefined = {n: e.any for n, e in envelopes(graph, params).items()}
        refuted |= {name for name, mask in strange.items() if not (mask <= undefined[name]).all()}
    nan = not any(habit.to == NO_NAN for habit in deviations)
    return refuted | _lacking_special(graph, params, {name: outputs[name] for name in rest}, nan)


def _lacking_special(graph: Graph, params: Arrays, outputs: Arrays, nan: bool) -> set[str]:
    """Names of the outputs that lack an infinity which ONNX or IEEE 754 prescribes, or, if `nan`, a
    NaN. A correct compiler returns these in a narrower dtype, too.
    """
    if not beyond(params):
        return set()
    truth = enclosure(graph, params).envelopes
    decided = {
        n: ~np.isfinite(truth[n].lo) & ~truth[n].any & (nan | ~np.isnan(truth[n].lo))
        for n in outputs
        if truth[n].dtype.is_float
    }
    return {n for n, mask in decided.items() if (mask & outside(truth[n], outputs[n])).any()}


def deviating(
    deviations: Collection[Deviation], graph: Graph, params: Arrays
) -> dict[str, Envelope]:
    """Envelopes of the outputs under the deviations. Raises: ReferenceFault."""
    values = reference(graph, params)
    habits = _Habits(deviations)
    with torch.inference_mode():
        intervals = {
            name: habits.of_input(values[name], graph.type(name).dtype)
            for name in (*graph.inputs, *graph.weights)
        }
        for node in graph.nodes:
            node_intervals(graph, node, values, intervals, habits.precisions(node))
            for name in node.outputs:
                dtype = graph.type(name).dtype
                intervals[name] = habits.of_result(values[name], intervals[name], dtype)
                intervals[name] = habits.saturated(node, name, values, intervals, dtype)
    exact = {n: envelope(graph.type(n).dtype, values[n], intervals[n]) for n in graph.outputs}
    return {n: replace(e, dtype=habits.working(e.dtype)) for n, e in exact.items()}


def _held(dtype: DType, to: DType) -> Precision:
    """The precision of values in another dtype; in a wider one, they may be rounded as before."""
    own, other = PRECISIONS[dtype], PRECISIONS[to]
    return replace(other, u=max(own.u, other.u), tiny=max(own.tiny, other.tiny))


class _Habits:
    """Applies deviations to the precisions and intervals of a graph."""

    def __init__(self, deviations: Collection[Deviation]) -> None:
        self._to = dict.fromkeys((DType(d.dtype), d.to) for d in deviations)
        ways = (TF32, NO_NAN, FLUSHES)
        floats = [(dtype, DType(to)) for dtype, to in self._to if dtype.is_float and to not in ways]
        self._narrow: dict[DType, Precision] = {
            dtype: max((_held(dtype, to) for d, to in floats if d is dtype), key=lambda p: p.u)
            for dtype, _ in floats
        }

    def precisions(self, node: Node) -> Mapping[DType, Precision]:
        """The working precision at a node, by dtype."""
        precisions = {**PRECISIONS, **self._narrow}
        if (DType.FLOAT32, TF32) in self._to and node.op.exactness == "sum":
            full = precisions[DType.FLOAT32]
            precisions[DType.FLOAT32] = Precision(
                full.dtype, max(full.u, TF32_ROUNDOFF), full.tiny, full.greatest, full.twice
            )
        return precisions

    def working(self, dtype: DType) -> DType:
        """The dtype in which values of `dtype` are computed."""
        return DType.of(self._narrow[dtype].dtype) if dtype in self._narrow else dtype

    def of_input(self, value: Tensor, dtype: DType) -> Interval:
        """The interval of an input or weight, which the compiler may round to the other dtype."""
        if dtype in self._narrow:
            rounded = value.to(self._narrow[dtype].dtype).to(value.dtype)
            either = Interval(torch.minimum(value, rounded), torch.maximum(value, rounded))
            return either.masked(~torch.isfinite(rounded))
        return self.of_result(value, given(value, dtype), dtype)

    def of_result(self, value: Tensor, interval: Interval, dtype: DType) -> Interval:
        """The interval of a node's output, masked where the other integer dtype cannot hold it."""
        for own, to in self._to:
            if own is dtype and dtype.is_int and to != SATURATES:
                # `value` is the carrier: for uint64 an int64 with the same bits.
                interval = interval.masked(~torch.from_numpy(held(value.numpy(), DType(to))))
        return interval

    def saturated(
        self,
        node: Node,
        name: str,
        values: Mapping[str, Tensor],
        intervals: Mapping[str, Interval],
        dtype: DType,
    ) -> Interval:
        """The interval of a node's output if integers may saturate instead of wrapping around.

        Where the operator yields another number in int64, the interval is extended to the nearest
        number of the dtype. The element is not compared if an operand may have saturated before.
        """
        interval = intervals[name]
        if (dtype, SATURATES) not in self._to:
            return interval
        inputs = [values[n] for n in node.inputs]
        wide = [x if x.is_floating_point() or x.dtype is torch.bool else x.long() for x in inputs]
        try:
            results = dict(zip(node.outputs, flatten(node.op.torch(*wide)), strict=True))
        except Exception:  # an operator that insists on its dtype does not wrap around
            return interval
        wide_result = results[name]
        if wide_result.shape != values[name].shape or wide_result.is_floating_point():
            return interval
        least, most = (int(end) for end in dtype.limits)
        clamped = wide_result.long().clamp(least, most).to(values[name].dtype)
        if torch.equal(clamped, values[name]):
            return interval
        operands = [intervals[n] for n in node.inputs]
        if any(not operand.exact or operand.any is not None for operand in operands):
            return interval.masked(clamped != values[name])
        lo, hi = torch.minimum(interval.lo, clamped), torch.maximum(interval.hi, clamped)
        return Interval(lo, hi, interval.any)


def _agrees(
    expected: Envelope, actual: np.ndarray, own: DType, deviations: Collection[Deviation]
) -> bool:
    """Whether an output lies in the envelope and has dtype `own` or a deviation's other dtype."""
    admitted = {own.value, *(d.to for d in deviations if d.dtype == own.value)}
    if actual.shape != expected.ref.shape or DType.of(actual.dtype).value not in admitted:
        return False
    return not outside(expected, actual).any()


def _unrepresentable(
    expected: Envelope, actual: np.ndarray, own: DType, deviations: Collection[Deviation]
) -> np.ndarray:
    """Mask of the wrong integers that no other dtype of the deviations can hold."""
    whole = plain(actual)
    mine = [d.to for d in deviations if d.dtype == own.value and d.to != SATURATES]
    if not own.is_int or not mine or whole.dtype.kind not in "iu":
        return np.zeros(actual.shape, bool)
    return (whole != expected.ref) & ~np.any([_held_by(whole, to) for to in mine], axis=0)


def _held_by(whole: np.ndarray, to: str) -> np.ndarray:
    """Mask of the integers that dtype `to` can hold, or its signed or unsigned counterpart."""
    if DType(to).is_float:
        return held(whole, DType(to))
    signed = to.removeprefix("u")
    return held(whole.astype(np.int64), DType(signed)) | held(whole, DType(f"u{signed}"))


def explanation(
    habits: Sequence[Deviation],
    graph: Graph,
    params: Arrays,
    outputs: Arrays,
    wrong: Collection[str] = (),
) -> tuple[tuple[Deviation, ...], frozenset[str]]:
    """Looks for deviations of a compiler that explain its wrong outputs.

    wrong: names of outputs; by default those outside of the envelope. An output is explained if it
    is right under the deviations and wrong without any.

    Returns: a minimal set of deviations that explains all wrong outputs, or an empty set; and the
    names of the outputs that all deviations together explain.
    Raises: ReferenceFault.
    """
    present = {value.type.dtype.value for value in graph.values.values()}
    relevant = tuple(habit for habit in habits if habit.dtype in present)
    if not relevant:
        return (), frozenset()
    without_habits = refuting((), graph, params, outputs)
    wrong = frozenset(wrong or without_habits)
    without_habits &= wrong
    for tried in dict.fromkeys([*((habit,) for habit in relevant), relevant]):
        refuted = refuting(tried, graph, params, outputs)
        if not refuted & wrong and without_habits == wrong:
            return _needed(tried, graph, params, outputs, wrong), wrong
    return (), frozenset(without_habits - refuted)


def beside_habits(
    habits: Sequence[Deviation],
    graph: Graph,
    params: Arrays,
    outputs: Arrays,
    wrong: Sequence[Mismatch],
) -> tuple[Mismatch, ...]:
    """The mismatches of a compiler, with what its habits do not account for: of an output that has
    the other dtype of a habit, the wrong values. Raises: ReferenceFault.
    """
    found = {m.output: m for m in wrong}
    dtypes = (m for m in wrong if m.kind is MismatchKind.DTYPE)
    excused = [m.output for m in dtypes if Deviation(m.expected, m.actual) in habits]
    admitted = deviating(habits, graph, params) if excused else {}
    for name in excused:
        dtype = graph.type(name).dtype
        own = replace(admitted[name], dtype=dtype)
        found[name] = mismatch(name, own, outputs[name].astype(dtype.numpy)) or found[name]
    return tuple(found.values())


def _needed(
    habits: Sequence[Deviation],
    graph: Graph,
    params: Arrays,
    outputs: Arrays,
    wrong: frozenset[str],
) -> tuple[Deviation, ...]:
    """A minimal subset of the deviations that still explains all wrong outputs."""
    needed = tuple(habits)
    for habit in habits:
        rest = tuple(other for other in needed if other is not habit)
        if rest and not refuting(rest, graph, params, outputs) & wrong:
            needed = rest
    return needed
