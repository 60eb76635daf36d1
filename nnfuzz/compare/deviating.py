"""Envelopes of a graph on a compiler that computes in other dtypes by habit.

For floats the working precision of the envelope is the narrower one, and inputs may be rounded to
it. Integers that depend on a number which the narrower type does not hold, or on a result that
wrapped around, are incomparable, since the habit decides on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nnfuzz.backend.deviation import SATURATES, TF32, Deviation
from nnfuzz.compare.cheap import beyond
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Envelope, envelope, envelopes, node_intervals
from nnfuzz.compare.precision import PRECISIONS, Precision
from nnfuzz.compare.reference import reference
from nnfuzz.compare.verdict import outside
from nnfuzz.ir.dtypes import DType, held, plain
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import flatten

TF32_ROUNDOFF = 2.0**-10
"""Unit roundoff of 10 bits of mantissa is 2^-11; each product has two rounded factors."""
Arrays = Mapping[str, np.ndarray]


def explains(
    deviations: Collection[Deviation], graph: Graph, params: Arrays, outputs: Arrays
) -> bool:
    """Whether a compiler with these habits may return the outputs that leave the envelope.

    An output may be of the narrower dtype; wrong integers must be numbers that it holds.
    Raises: ReferenceFault.
    """
    return not refuting(deviations, graph, params, outputs)


def refuting(
    deviations: Collection[Deviation], graph: Graph, params: Arrays, outputs: Arrays
) -> set[str]:
    """The outputs that a correct compiler with these habits does not return.

    Raises: ReferenceFault.
    """
    admitted = deviating(deviations, graph, params)
    dtypes = {name: graph.type(name).dtype for name in graph.outputs}
    found = {
        name
        for name, dtype in dtypes.items()
        if name not in outputs or not _agrees(admitted[name], outputs[name], dtype, deviations)
    }
    rest = [name for name in dtypes if name not in found]
    strange = {n: _strange(admitted[n], outputs[n], dtypes[n], deviations) for n in rest}
    strange = {name: mask for name, mask in strange.items() if mask.any()}
    if strange:
        undefined = {n: e.any for n, e in envelopes(graph, params).items()}
        found |= {name for name, mask in strange.items() if not (mask <= undefined[name]).all()}
    return found | _undecided(graph, params, {name: outputs[name] for name in rest})


def _undecided(graph: Graph, params: Arrays, outputs: Arrays) -> set[str]:
    """The outputs without the NaN or infinity that every compiler returns there, also in a narrower
    type.
    """
    if not beyond(params):
        return set()
    truth = enclosure(graph, params).envelopes
    decided = {
        n: ~np.isfinite(truth[n].lo) & ~truth[n].any for n in outputs if truth[n].dtype.is_float
    }
    return {n for n, mask in decided.items() if (mask & outside(truth[n], outputs[n])).any()}


def deviating(
    deviations: Collection[Deviation], graph: Graph, params: Arrays
) -> dict[str, Envelope]:
    """Envelopes of the outputs under the habits. Raises: ReferenceFault."""
    values = reference(graph, params)
    model = _Habits(deviations)
    with torch.inference_mode():
        intervals = {
            name: model.entering(values[name], graph.type(name).dtype)
            for name in (*graph.inputs, *graph.weights)
        }
        for node in graph.nodes:
            node_intervals(graph, node, values, intervals, model.precisions(node))
            for name in node.outputs:
                dtype = graph.type(name).dtype
                intervals[name] = model.leaving(values[name], intervals[name], dtype)
                intervals[name] = model.wrapped(node, name, values, intervals, dtype)
    exact = {n: envelope(graph.type(n).dtype, values[n], intervals[n]) for n in graph.outputs}
    return {n: replace(e, dtype=model.working(e.dtype)) for n, e in exact.items()}


class _Habits:
    """The habits by dtype."""

    def __init__(self, deviations: Collection[Deviation]) -> None:
        self._to = {(DType(d.dtype), d.to) for d in deviations}
        floats = [(dtype, DType(to)) for dtype, to in self._to if dtype.is_float and to != TF32]
        self._narrow: dict[DType, Precision] = {
            dtype: max((PRECISIONS[to] for d, to in floats if d is dtype), key=lambda p: p.u)
            for dtype, _ in floats
        }

    def precisions(self, node: Node) -> Mapping[DType, Precision]:
        """The working precision at a node, by dtype."""
        found = {**PRECISIONS, **self._narrow}
        if (DType.FLOAT32, TF32) in self._to and node.op.exactness == "sum":
            full = found[DType.FLOAT32]
            found[DType.FLOAT32] = Precision(
                full.dtype, max(full.u, TF32_ROUNDOFF), full.tiny, full.greatest, full.twice
            )
        return found

    def working(self, dtype: DType) -> DType:
        """The dtype in which a dtype is computed."""
        return DType.of(self._narrow[dtype].dtype) if dtype in self._narrow else dtype

    def entering(self, value: Tensor, dtype: DType) -> Interval:
        """An input or weight, as it is or rounded to the narrower type."""
        if dtype in self._narrow:
            rounded = value.to(self._narrow[dtype].dtype).to(value.dtype)
            found = Interval(torch.minimum(value, rounded), torch.maximum(value, rounded))
            return found.masked(~torch.isfinite(rounded))
        return self.leaving(value, Interval(value, value), dtype)

    def leaving(self, value: Tensor, interval: Interval, dtype: DType) -> Interval:
        """A result: integers that a narrower type does not hold are incomparable."""
        for own, to in self._to:
            if own is dtype and dtype.is_int and to != SATURATES:
                # Of the carrier: what is done to a uint64 in full is right in int64, bit by bit.
                interval = interval.masked(~torch.from_numpy(held(value.numpy(), DType(to))))
        return interval

    def wrapped(
        self,
        node: Node,
        name: str,
        values: Mapping[str, Tensor],
        intervals: Mapping[str, Interval],
        dtype: DType,
    ) -> Interval:
        """The interval of a result that saturation may change: where wider integers give another
        result, it may be the end of the range; unbounded where operands may be saturated.
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
        found = results[name]
        if found.shape != values[name].shape or found.is_floating_point():
            return interval
        least, most = (int(end) for end in dtype.limits)
        stopped = found.long().clamp(least, most).to(values[name].dtype)
        if torch.equal(stopped, values[name]):
            return interval
        read = [intervals[n] for n in node.inputs]
        if any(not given.exact or given.any is not None for given in read):
            return interval.masked(stopped != values[name])
        lo, hi = torch.minimum(interval.lo, stopped), torch.maximum(interval.hi, stopped)
        return Interval(lo, hi, interval.any)


def _agrees(
    expected: Envelope, actual: np.ndarray, own: DType, deviations: Collection[Deviation]
) -> bool:
    """Whether an output lies in the envelope, in its own dtype or in what that is computed in."""
    admitted = {own.value, *(d.to for d in deviations if d.dtype == own.value)}
    if actual.shape != expected.ref.shape or DType.of(actual.dtype).value not in admitted:
        return False
    return not outside(expected, actual).any()


def _strange(
    expected: Envelope, actual: np.ndarray, own: DType, deviations: Collection[Deviation]
) -> np.ndarray:
    """Mask of wrong integers that none of the narrower types of their dtype yields."""
    whole = plain(actual)
    mine = [d.to for d in deviations if d.dtype == own.value and d.to != SATURATES]
    if not own.is_int or not mine or whole.dtype.kind not in "iu":
        return np.zeros(actual.shape, bool)
    return (whole != expected.ref) & ~np.any([_yielded(whole, to) for to in mine], axis=0)


def _yielded(whole: np.ndarray, to: str) -> np.ndarray:
    """Mask of integers that a narrower type holds, extended by zeros or by its sign."""
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
    """The smallest set of a compiler's habits that explains its wrong outputs, empty if none does;
    and the outputs that all habits in combination explain.

    wrong: names of outputs; default: those that leave the envelope. A habit accounts for an output
    that is right under it and wrong without any.

    Raises: ReferenceFault.
    """
    there = {value.type.dtype.value for value in graph.values.values()}
    able = tuple(habit for habit in habits if habit.dtype in there)
    if not able:
        return (), frozenset()
    mine = refuting((), graph, params, outputs)
    wrong = frozenset(wrong or mine)
    mine &= wrong
    for tried in dict.fromkeys([*((habit,) for habit in able), able]):
        refuted = refuting(tried, graph, params, outputs)
        if not refuted and mine == wrong:
            return _needed(tried, graph, params, outputs), wrong
    return (), frozenset(mine - refuted)


def _needed(
    habits: Sequence[Deviation], graph: Graph, params: Arrays, outputs: Arrays
) -> tuple[Deviation, ...]:
    """A minimal set of habits that still explains the outputs."""
    needed = tuple(habits)
    for habit in habits:
        rest = tuple(other for other in needed if other is not habit)
        if rest and not refuting(rest, graph, params, outputs):
            needed = rest
    return needed
