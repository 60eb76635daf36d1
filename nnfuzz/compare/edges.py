"""What of a model's outputs is decided where inputs hold NaN, infinities and the like.

A value is *decided* if it is an input or weight; if its operator says so (`OpSpec.edges`) and all
that it reads is decided; or if all that it reads is decided and ordinary, as in any other test. The
envelope then holds for what is finite, as always. NaN and infinities are asked for where no
rounding has led to them (`_decided`) and three computations agree on them: in float64, in the
model's dtypes, and the latter with subnormal inputs flushed to zero, as compilers may. Everything
else is masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.reference import reference
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.spec.families.shape import DataMovement
from nnfuzz.spec.intervals import underflow

Arrays = Mapping[str, np.ndarray]


def beyond(params: Arrays) -> bool:
    """Whether some float is no finite number, so that `at_edges` is to be asked."""
    return any(
        not np.isfinite(array.astype(np.float64)).all()
        for array in params.values()
        if array.dtype.kind not in "iub" and array.size
    )


def at_edges(graph: Graph, params: Arrays, found: Mapping[str, Envelope]) -> dict[str, Envelope]:
    """The envelopes of outputs, masked where nothing is decided, and with NaN and infinities as
    bounds where these are. Raises: ReferenceFault, and whatever PyTorch raises.
    """
    given = {name: params[name] for name in (*graph.inputs, *graph.weights)}
    with torch.inference_mode():
        runs = [
            reference(graph, given),
            execute(graph, tensors(given)),
            execute(graph, tensors(_flushed(graph, given))),
        ]
    decided, sure = _decided(graph, runs)
    return {
        name: _at_edges(envelope, [run[name] for run in runs], name in decided, name in sure)
        for name, envelope in found.items()
    }


def _decided(graph: Graph, runs: list[dict[str, Tensor]]) -> tuple[set[str], set[str]]:
    """The values that are decided, and those of them whose NaN and infinities are: an operator with
    a domain makes them of what it is given only if that is exact, since next to a pole or to the
    end of the domain rounding decides.
    """
    exact = {*graph.inputs, *graph.weights}
    decided, sure = {*exact}, {*exact}
    for node in graph.nodes:
        ordinary = {n for n in node.inputs if all(_ordinary(run[n]) for run in runs)}
        if not decided.issuperset(node.inputs) or not (sure | ordinary).issuperset(node.inputs):
            continue
        if not (node.op.edges or ordinary.issuperset(node.inputs)):
            continue
        decided.update(node.outputs)
        known = exact.issuperset(node.inputs)
        if known and isinstance(node.op, DataMovement):
            exact.update(node.outputs)
        bounded = bool(node.op.domain(*(runs[0][name] for name in node.inputs)))
        if node.op.edges and (known or not bounded):
            sure.update(node.outputs)
    return decided, sure


def _ordinary(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(torch.isfinite(value).all())


def _flushed(graph: Graph, given: Arrays) -> dict[str, np.ndarray]:
    """The parameters without subnormal numbers."""
    made = {}
    for name, array in given.items():
        dtype = graph.type(name).dtype
        if dtype.is_float:
            small = np.abs(array.astype(np.float64)) < underflow(dtype.unit_roundoff)
            array = np.where(small, np.copysign(np.zeros_like(array), array), array)
        made[name] = array
    return made


def _at_edges(envelope: Envelope, values: list[Tensor], decided: bool, known: bool) -> Envelope:
    if not decided:
        return replace(envelope, any=np.ones_like(envelope.any))
    if not envelope.dtype.is_float:
        return envelope
    wide = [value.double().numpy() for value in values]
    nan = np.logical_and.reduce([np.isnan(value) for value in wide])
    infinite = np.isinf(wide[0]) & (wide[0] == wide[1]) & (wide[0] == wide[2])
    sure = (nan | infinite) & known
    # What is neither: a number, as always, or not the same everywhere.
    unsure = ~sure & ~np.logical_and.reduce([np.isfinite(value) for value in wide])
    lo, hi = (np.where(sure, wide[0], end) for end in (envelope.lo, envelope.hi))
    return replace(envelope, lo=lo, hi=hi, any=(envelope.any & ~sure) | unsure)
