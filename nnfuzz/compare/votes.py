"""Compares targets with each other in the elements that the envelope cannot judge.

Two correct compilers may differ there, so a difference counts only if no legal computation explains
it. This is sampled: `Anything` computes the graph several times, and an element counts where all
samples agree (`spreads`) and two targets do not (`groups_that_agree`). A difference within an
interval of the envelope is legal for every width of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from nnfuzz.backend.target import Target
from nnfuzz.compare.edges import Edge, at_point
from nnfuzz.compare.envelope import Enclosure, Envelope
from nnfuzz.compare.mismatch import Dispute, Number
from nnfuzz.compare.precision import PRECISIONS, Precision
from nnfuzz.compare.reference import ReferenceFault, node_values, reference
from nnfuzz.compare.verdict import as_json_number
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.opaque import Opaque
from nnfuzz.operators.rounding import underflow

Key = TypeVar("Key", bound=Hashable)
Arrays = Mapping[str, np.ndarray]

SAMPLES = 24
"""Computations: a third with the least legal results, a third with the greatest, and a third with
random errors. A decision that these turn over half of the time stays the same in all of them once
in 256 times.
"""
WILD = ((), (math.nan,), (math.inf,), (-math.inf,), (0.0,), (math.nan, math.inf, -1.0, 0.0, 1.0))
"""The numbers from which unknown results are drawn in turn; () for the reference's own."""
FACTOR = 16.0
"""Factor of the errors of a sample to the legal ones: worst-case errors grow with the number of
steps, those of samples with its root, so that 256 steps are covered."""
LAST = 64.0
"""Unit roundoffs of the largest element by which targets may differ more than samples do."""
STEPS = 8.0
"""Unit roundoffs by which an operator without a spec may round each element that it reads."""


def disputes(
    bounds: Enclosure, params: Arrays, outputs: Mapping[Target, Arrays], seed: int = 0
) -> dict[str, Dispute]:
    """Returns how targets differ, by output, where no reference decides; {} if none differ.

    outputs: of targets that have no mismatch. seed: of the samples, which are drawn only where
    targets differ by more than half of the digits of a dtype.
    """
    arrays = {
        name: {target: own[name] for target, own in outputs.items() if name in own}
        for name, envelope in bounds.envelopes.items()
        if envelope.any.any()
    }
    known = not any(isinstance(node.op, Opaque) for node in bounds.graph.nodes)
    differ = {
        n: own for n, own in arrays.items() if _dispute(n, own, bounds.envelopes[n], 0.0, known)
    }
    if not differ:
        return {}
    spread = spreads(bounds, params, list(differ), seed)
    candidates = (
        _dispute(n, own, bounds.envelopes[n], spread[n], known) for n, own in differ.items()
    )
    return {dispute.output: dispute for dispute in candidates if dispute}


def groups_that_agree(
    arrays: Mapping[Key, np.ndarray],
    envelope: Envelope,
    spread: np.ndarray | float = 0.0,
    sampled: bool = False,
) -> list[list[Key]]:
    """Groups of keys of arrays that agree, the largest group first.

    Where an element is comparable, two arrays may differ by the width of the envelope. Elsewhere
    they have to have half of the dtype's digits of the output's largest element in common, but for
    the `spread`; all but `LAST` units if that was sampled. NaN agrees with NaN. Discrete elements
    have to be equal.
    """
    slack = _slack(arrays, envelope, spread, sampled)
    groups: list[list[Key]] = []
    for key, array in arrays.items():
        mine = next((g for g in groups if not _differing(arrays[g[0]], array, slack).any()), None)
        if mine is None:
            groups.append([key])
        else:
            mine.append(key)
    return sorted(groups, key=len, reverse=True)


def _slack(
    arrays: Mapping[Key, np.ndarray],
    envelope: Envelope,
    spread: np.ndarray | float,
    sampled: bool,
) -> np.ndarray:
    """By how much two arrays may differ, per element."""
    unknown = np.broadcast_to(np.float64(spread), envelope.ref.shape)
    if envelope.dtype.is_float:
        finite = [a[np.isfinite(a)] for a in (_wide(a) for a in arrays.values())]
        largest = max((float(np.abs(a).max()) for a in finite if a.size), default=0.0)
        u = envelope.dtype.unit_roundoff
        unknown = unknown + (LAST * u if sampled else np.sqrt(u)) * largest
        with np.errstate(invalid="ignore", over="ignore"):
            least, most = envelope.admitted
            width = np.nan_to_num(most - least, nan=0.0, posinf=np.inf)
    else:
        width = envelope.hi.astype(np.float64) - envelope.lo.astype(np.float64)
    return np.where(envelope.any, unknown, width)


def _differing(one: np.ndarray, other: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Mask of the elements in which two arrays differ by more than the slack: all of them where
    dtype or shape do."""
    if one.dtype != other.dtype or not one.shape == other.shape == slack.shape:
        same = one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
        return np.full(slack.shape or (1,), not same)
    a, b = _wide(one), _wide(other)
    with np.errstate(invalid="ignore", over="ignore"):
        near = (np.abs(a - b) <= slack) | np.isinf(slack)
    return ~(near | (plain(one) == plain(other)) | (np.isnan(a) & np.isnan(b)))


def _wide(array: np.ndarray) -> np.ndarray:
    return plain(array).astype(np.float64)


def _dispute(
    name: str,
    arrays: Mapping[Target, np.ndarray],
    envelope: Envelope,
    spread: np.ndarray | float,
    sampled: bool = False,
) -> Dispute | None:
    """How targets differ where an element is not comparable; None if they do not.

    The group of the most compilers is the first, as levels of one compiler share its faults; of
    equal ones that of the target that is listed first.
    """
    if len(arrays) < 2:
        return None
    known, first = ~envelope.any, next(iter(arrays.values()))
    right = {
        t: np.where(known, first, a) if a.shape == first.shape else a for t, a in arrays.items()
    }
    groups = groups_that_agree(right, envelope, spread, sampled)
    if len(groups) < 2:
        return None
    order = list(right)
    groups = sorted((sorted(g, key=order.index) for g in groups), key=lambda g: order.index(g[0]))
    groups.sort(key=lambda group: -len({target.compiler for target in group}))
    slack = _slack(right, envelope, spread, sampled)
    differing = _differing(right[groups[0][0]], right[groups[1][0]], slack)
    index = tuple(int(i) for i in np.argwhere(differing)[0])
    values = tuple(_value(right[group[0]], index, first) for group in groups)
    parties, count = tuple(map(tuple, groups)), int(np.count_nonzero(differing))
    return Dispute(name, parties, index, values, float(slack[index]), count)


def _value(array: np.ndarray, index: tuple[int, ...], like: np.ndarray) -> Number:
    """An element; dtype and shape of an array that is of another type."""
    if array.shape != like.shape or array.dtype != like.dtype:
        return f"{array.dtype}{list(array.shape)}"
    return as_json_number(plain(array[index]))


def unreferenced(
    outputs: Mapping[Target, Arrays], spread: Mapping[str, float]
) -> dict[str, Dispute]:
    """`disputes` where there is no reference. spread: by output, how far its elements may lie from
    each other, beside half of the dtype's digits.
    """
    by_output = {}
    for name, most in spread.items():
        arrays = {target: own[name] for target, own in outputs.items() if name in own}
        if arrays and (dispute := _dispute(name, arrays, _unknown(arrays), most)):
            by_output[name] = dispute
    return by_output


def _unknown(arrays: Mapping[Target, np.ndarray]) -> Envelope:
    """An envelope without a comparable element."""
    first = next(iter(arrays.values()))
    nothing = np.zeros(first.shape)
    every = np.ones(first.shape, dtype=bool)
    return Envelope(DType.of(first.dtype), nothing, nothing, nothing, every)


# -- results that legal ways to compute may have ----------------------------------------------


def spreads(
    bounds: Enclosure, params: Arrays, outputs: Sequence[str], seed: int = 0
) -> dict[str, np.ndarray]:
    """By output: how far samples lie from each other per element, in float64; infinite where a
    sample is not a number, where samples of a discrete value differ, and everywhere if one of them
    cannot be computed.
    """
    types = {name: bounds.graph.type(name) for name in outputs}
    ends = {name: (_ref(bounds, name), _ref(bounds, name)) for name in outputs}
    try:
        for sample in range(SAMPLES):
            random = torch.Generator().manual_seed(seed + sample)
            end, wild = (0, 1, None)[sample % 3], WILD[sample // 3 % len(WILD)]
            compute = Anything(random, bounds.intervals, wild, end)
            given = params if end else _flushed(params)
            values = reference(bounds.graph, given, compute)
            for name, (lo, hi) in ends.items():
                own = values[name].double().numpy()
                ends[name] = np.minimum(lo, own), np.maximum(hi, own)
    except ReferenceFault:
        return {name: np.full(type_.sizes, np.inf) for name, type_ in types.items()}
    return {name: _spread(*ends[name], types[name].dtype.is_float) for name in outputs}


def _ref(bounds: Enclosure, name: str) -> np.ndarray:
    return bounds.values[name].double().numpy()


def _spread(lo: np.ndarray, hi: np.ndarray, is_float: bool) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        spread = hi - lo
    spread = np.where(np.isfinite(spread), spread, np.inf)
    return spread if is_float else np.where(spread == 0, 0.0, np.inf)


def _flushed(params: Arrays) -> dict[str, np.ndarray]:
    """Parameters as a compiler reads them that flushes subnormal numbers to zero."""
    flushed = {}
    for name, array in params.items():
        dtype = DType.of(array.dtype)
        small = dtype.is_float and np.abs(_wide(array)) < underflow(dtype.unit_roundoff)
        flushed[name] = np.where(small, np.zeros_like(array), array)
    return flushed


@dataclass(frozen=True, eq=False)
class Anything:
    """Computes a node as some implementation might, at random, with errors beyond the legal ones.

    Errors are `FACTOR` times as large as those of a correct implementation. An operator without a
    spec reads its operands with errors of its own. Where an operator's result is not known on these
    operands (it overflows, leaves its domain, reads NaN, or is undefined by ONNX), it is any number
    at all.

    wild: from which anything at all is drawn; () for the result itself. end: 0 or 1 for results at
    the least or the greatest number that is legal, with subnormal ones as zero at 0; None for
    random ones. known: the intervals of the graph; comparable elements are never drawn from `wild`.
    """

    random: torch.Generator
    known: Mapping[str, Interval]
    wild: tuple[float, ...] = ()
    end: int | None = None

    def __call__(self, graph: Graph, node: Node, inputs: list[Tensor]) -> list[Tensor]:
        """As `nnfuzz.compare.reference.node_values`. Raises: ReferenceFault."""
        if isinstance(node.op, Opaque):
            return node_values(
                graph,
                node,
                [self._read(x, graph.type(n).dtype) for n, x in zip(node.inputs, inputs)],
            )
        results = node_values(graph, node, inputs)
        precisions = [PRECISIONS.get(graph.type(name).dtype) for name in node.outputs]
        around = at_point(graph, node, inputs, results)
        known = [~self.known[name].mask() for name in node.outputs]
        return [self._drawn(*given) for given in zip(results, around, known, precisions)]

    def _read(self, x: Tensor, dtype: DType) -> Tensor:
        if not dtype.is_float:
            return x
        share = torch.rand(x.shape, generator=self.random, dtype=torch.float64)
        return x + STEPS * dtype.unit_roundoff * (2 * share - 1) * x

    def _drawn(
        self,
        y: Tensor,
        around: tuple[Interval, Edge],
        known: Tensor,
        precision: Precision | None,
    ) -> Tensor:
        """Numbers near a result; any number where the result is not known, or where an
        intermediate value may overflow. A result that is NaN or infinite for sure stays.
        """
        own, edge = around
        wild = own.mask()
        if precision is not None:
            drawn = torch.where(wild, y, self._within(y, own))
            small = y.abs() < FACTOR * precision.tiny
            y = torch.where(small, 0.0, drawn) if self.end == 0 else drawn
            wild = (wild | ~(y.abs() * FACTOR <= precision.greatest)) & (edge.special == 0)
        return torch.where(wild & ~known, self._anything(y), y) if self.wild else y

    def _within(self, y: Tensor, own: Interval) -> Tensor:
        """An end of the interval, or a number in the interval that is `FACTOR` times as wide."""
        if self.end is not None:
            return own.hi if self.end else own.lo
        share = torch.rand(y.shape, generator=self.random, dtype=torch.float64)
        lo, hi = (y + FACTOR * (end - y) for end in (own.lo, own.hi))
        return lo + share * (hi - lo)

    def _anything(self, like: Tensor) -> Tensor:
        """Per element one of the `wild` numbers; 0 or 1 for discrete elements."""
        choices = torch.tensor(self.wild if like.is_floating_point() else (0, 1)).to(like.dtype)
        return choices[torch.randint(len(choices), like.shape, generator=self.random)]
