"""Narrower bounds by Monte-Carlo arithmetic, which contain correct results with high probability.

The graph is computed again several times. Each time every operator returns random numbers that a
correct implementation may return for its operands: its rounding error is drawn uniformly from the
bound that the envelope adds (`nnfuzz.compare.envelope.enclosed`). The greatest observed distance
from the reference, times a factor, bounds an output, within the envelope.

Only the propagation of errors is sampled. They seldom add up as the worst case has it, so the
bounds of a deep graph are many times narrower, and those of a single operator are the envelope's.
But a correct compiler whose errors do add up may lie outside. Values that depend on an uncertain
decision (a comparison of overlapping intervals) keep the envelope's bounds.

Source: Parker, Monte Carlo Arithmetic, 1997.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from nnfuzz.compare.envelope import Enclosure, Envelope, Tracked, enclosed
from nnfuzz.compare.precision import PRECISIONS
from nnfuzz.compare.reference import ReferenceFault, node_values, reference
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.operators.intervals import Interval


@dataclass(frozen=True)
class Sampling:
    """How bounds are sampled.

    samples: computations with random errors. seed: of these. factor: by which the greatest distance
    of a sample is multiplied; with 1.5, every error that one operator may make is within reach.
    """

    samples: int = 8
    seed: int = 0
    factor: float = 1.5


def narrow_envelopes(
    bounds: Enclosure, params: Mapping[str, np.ndarray], sampling: Sampling
) -> dict[str, Envelope]:
    """The envelopes of the outputs, with bounds of floats that are no further from the reference
    than samples are, times the factor.

    Discrete outputs and incomparable elements stay as they are; so do all where a random error
    makes an operator impossible, for instance by another shape.
    """
    kept = undecided(bounds)
    wanted = {
        name: own
        for name, own in bounds.envelopes.items()
        if own.dtype.is_float and name not in kept
    }
    far = {name: np.zeros(own.ref.shape) for name, own in wanted.items()}
    try:
        for number in range(sampling.samples):
            noise = Noise(torch.Generator().manual_seed(sampling.seed + number))
            values = reference(bounds.graph, {**bounds.params, **params}, noise)
            for name, own in wanted.items():
                with np.errstate(invalid="ignore"):
                    far[name] = np.maximum(far[name], np.abs(values[name].numpy() - own.ref))
    except ReferenceFault:
        return bounds.envelopes
    nearer = {name: _around(own, sampling.factor * far[name]) for name, own in wanted.items()}
    return bounds.envelopes | nearer


def _around(own: Envelope, far: np.ndarray) -> Envelope:
    """The envelope within `far` of the reference; NaN and infinities change nothing."""
    known = np.isfinite(far) & np.isfinite(own.ref) & ~own.any
    with np.errstate(invalid="ignore"):
        lo = np.where(known, np.maximum(own.lo, own.ref - far), own.lo)
        hi = np.where(known, np.minimum(own.hi, own.ref + far), own.hi)
    return replace(own, lo=lo, hi=hi)


def undecided(bounds: Enclosure) -> set[str]:
    """The values that depend on a decision that rounding errors may reverse.

    Such a value is discrete and uncertain, or a float near a discontinuity of an operator.
    """
    found: set[str] = set()
    with torch.inference_mode():
        for node in bounds.graph.nodes:
            if found.intersection(node.inputs) or _jumps(bounds, node):
                found.update(node.outputs)
            found.update(name for name in node.outputs if _open(bounds, name))
    return found


def _open(bounds: Enclosure, name: str) -> bool:
    discrete = not bounds.graph.type(name).dtype.is_float
    return discrete and bool(bounds.intervals[name].unsure.any())


def _jumps(bounds: Enclosure, node: Node) -> bool:
    """Whether an operand may lie on the other side of a discontinuity."""
    wide = [_half(bounds.intervals[name]) for name in node.inputs]
    margins = node.op.margins(*(bounds.values[name] for name in node.inputs))
    most = max(wide, default=0.0)
    return any(bool((margin <= 2 * most).any()) for margin in margins) if most else False


def _half(interval: Interval) -> float:
    """The greatest half width of an interval of floats; 0 for exact or discrete values."""
    if interval.exact or not interval.lo.is_floating_point() or not interval.lo.numel():
        return 0.0
    width = torch.where(interval.mask(), 0.0, interval.hi - interval.lo)
    return float(width.amax()) / 2


@dataclass(frozen=True, eq=False)
class Noise:
    """Computes a node as some correct implementation may, drawn at random."""

    random: torch.Generator

    def __call__(self, graph: Graph, node: Node, inputs: list[Tensor]) -> list[Tensor]:
        """As `node_values`. Raises: ReferenceFault."""
        results = node_values(graph, node, inputs)
        working = [PRECISIONS.get(graph.type(name).dtype) for name in node.outputs]
        if not any(working):
            return results
        operands = [Tracked(x, Interval(x, x)) for x in inputs]
        given = (PRECISIONS.get(graph.type(name).dtype) for name in node.inputs)
        u = max((p.u for p in given if p), default=0.0)
        around = enclosed(node.op, operands, results, working, u)
        return [
            self._drawn(y, own) if precision else y
            for y, own, precision in zip(results, around, working)
        ]

    def _drawn(self, y: Tensor, own: Interval) -> Tensor:
        """Numbers drawn evenly from an interval; the result itself where there is none."""
        if own.exact:
            return y
        share = torch.rand(y.shape, generator=self.random, dtype=torch.float64)
        drawn = own.lo + share * (own.hi - own.lo)
        return torch.where(own.mask() | ~torch.isfinite(drawn), y, drawn)
