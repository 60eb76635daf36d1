"""The numbers that the wrong elements of a single operator were computed from."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.mismatch import first_wrong
from nnfuzz.triage.signature import Failure

_WIDE = ("int64", "uint64")


def wide_operands(case: TestCase, failure: Failure, verdict: Verdict | None) -> tuple[int, ...]:
    """The 64-bit integers at the place of the worst element, in inputs and weights of a model of a
    single operator; none unless all of these can be broadcast to its result.
    """
    graph = case.graph
    nodes = graph.nodes
    if len(nodes) != 1 or not case.model:
        return ()
    wrong = first_wrong(verdict, failure.targets, nodes[0].outputs)
    if wrong is None or wrong.worst is None:
        return ()
    shapes = graph.shapes
    arrays = list(_read(case, nodes[0].inputs))
    try:
        values = [np.broadcast_to(a, shapes[wrong.output])[wrong.worst.index] for a in arrays]
    except (ValueError, KeyError, IndexError):
        return ()
    return tuple(int(x) for x, a in zip(values, arrays, strict=True) if a.dtype.name in _WIDE)


def largest_operand(case: TestCase) -> float:
    """The largest magnitude of a finite float that a model of a single operator reads; 0 if none
    does, and of several operators.
    """
    nodes = case.graph.nodes
    if len(nodes) != 1 or not case.model:
        return 0.0
    arrays = (a.astype(float) for a in _read(case, nodes[0].inputs) if is_floating(a))
    return max((float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arrays), default=0.0)


def _read(case: TestCase, names: Collection[str]) -> Iterator[np.ndarray]:
    """What a node reads from inputs, then all constants of the model: some are its attributes."""
    import onnx
    from onnx import numpy_helper

    yield from (case.inputs[name] for name in names if name in case.inputs)
    graph = onnx.load_model_from_string(case.model).graph
    yield from map(numpy_helper.to_array, graph.initializer)
