"""Sizes for the dimensions that a model leaves open."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import numpy_helper

UNKNOWN_SIZE = 2
"""Size of every open dimension unless nodes fail with it."""
COMMON = (1, 3, 4, 8, 16, 32, 64, 224)
"""Sizes tried next: first the same for every dimension, then drawn for each."""
ATTEMPTS = 32
MOST, LARGEST, LITERALS = 16, 256, 8
"""Most elements of a constant that are read, the largest number that counts as a size, and most
sizes."""


def open_sizes(graph: onnx.GraphProto) -> list[str]:
    """The names of the open dimensions of all inputs: their own, or one from the input's."""
    names = [name for info in graph.input for name, _ in _open(info)]
    return list(dict.fromkeys(names))


def assignments(names: Sequence[str], literal: Sequence[int]) -> Iterator[Mapping[str, int]]:
    """Sizes by name, the likely ones first; one that is empty if no dimension is open.

    literal: numbers that the model may have in place of sizes.
    """
    yield dict.fromkeys(names, UNKNOWN_SIZE)
    if not names:
        return
    options = list(dict.fromkeys([*literal, *COMMON]))
    yield from (dict.fromkeys(names, size) for size in options)
    if len(names) > 1:
        dice = random.Random(0)
        for _ in range(ATTEMPTS):
            yield {name: dice.choice((UNKNOWN_SIZE, *options)) for name in names}


def literals(graph: onnx.GraphProto) -> list[int]:
    """Integers among the small constants of a graph that may be sizes, the most frequent first."""
    inside = [a.t for node in graph.node for a in node.attribute if a.HasField("t")]
    constants = [*graph.initializer, *inside]
    small = [t for t in constants if t.data_type == onnx.TensorProto.INT64 and sum(t.dims) <= MOST]
    found = Counter(int(v) for t in small for v in numpy_helper.to_array(t).flat)
    return [size for size, _ in found.most_common() if UNKNOWN_SIZE < size <= LARGEST][:LITERALS]


def sized(graph: onnx.GraphProto, sizes: Mapping[str, int]) -> onnx.GraphProto:
    """A copy with these sizes, wherever a dimension of the name is declared."""
    copy = onnx.GraphProto()
    copy.CopyFrom(graph)
    for info in (*copy.input, *copy.value_info, *copy.output):
        for name, dim in _open(info):
            if name in sizes:
                dim.dim_value = sizes[name]
    return copy


def _open(info: onnx.ValueInfoProto) -> Iterator[tuple[str, onnx.TensorShapeProto.Dimension]]:
    """Open dimensions with names."""
    for axis, dim in enumerate(info.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") or dim.dim_value < 0:
            yield dim.dim_param or f"{info.name}[{axis}]", dim
