"""Rules for nodes that compute every slice along the first axis by itself, and for empty slices."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import onnx

from nnfuzz.ir.types import TensorType
from nnfuzz.rewrite.draft import Draft, Nodes
from nnfuzz.rewrite.rule import Kind, nodes, values
from nnfuzz.rewrite.rules.identities import MOVED, ints, of

FAMILY = "parts"
EMPTY_FAMILY = "empty tensors"
_ELEMENTWISE = (
    "Abs Add Ceil Cos Div Elu Equal Erf Exp Floor Gelu Greater HardSwish LeakyRelu Less Log Max "
    "Min Mul Neg Not Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Sqrt Sub Tanh Where"
).split()
"""Operators all of whose operands are cut, if they have the first axis of the result."""
_FIRST = (
    "AveragePool Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool "
    "GroupNormalization InstanceNormalization LRN MatMul MaxPool SpaceToDepth"
).split()
"""Operators whose first operand alone is cut."""


def _cut(draft: Draft, node: onnx.NodeProto) -> list[int]:
    """Positions of the operands that are cut along the first axis; none if slices are mixed."""
    names = [*node.input, *node.output]
    if len(node.output) != 1 or any(draft.dtype(name) not in MOVED for name in names):
        return []
    *shapes, result = (draft.types[name].sizes for name in names)
    by_matrix = node.op_type == "MatMul"
    if by_matrix and (len(shapes[0]) < 2 or len(shapes[1]) > 2):
        return []
    operands = shapes if node.op_type in _ELEMENTWISE else shapes[:1]
    aligned = [i for i, sizes in enumerate(operands) if by_matrix or len(sizes) == len(result) > 0]
    return [i for i in aligned if operands[i][0] == result[0]]


def _parted(emit: Nodes, draft: Draft, node: onnx.NodeProto, at: int) -> Sequence[str]:
    """Copies of a node for the slices before and behind a place, and Concat of their results."""
    count, parts = draft.types[node.output[0]].sizes[0], []
    for start, end in ((0, at), (at, count)):
        read = [*node.input]
        for place in _cut(draft, node):
            bounds = (ints(emit, number) for number in (start, end, 0))
            read[place] = emit.one("Slice", read[place], *bounds)
        parts += emit.copied(node, read)
    return [emit.one("Concat", *parts, axis=0)]


def _several(draft: Draft, node: onnx.NodeProto) -> bool:
    return bool(_cut(draft, node)) and draft.types[node.output[0]].sizes[0] > 1


@nodes(FAMILY, [*_ELEMENTWISE, *_FIRST], _several, uses=["Slice", "Concat"], bits=False)
def batch_in_parts(
    emit: Nodes, draft: Draft, node: onnx.NodeProto, rng: random.Random
) -> Sequence[str]:
    """A node that computes every slice along the first axis by itself -> the same on the first
    slices and on the others, and Concat of the results."""
    return _parted(emit, draft, node, rng.randint(1, draft.types[node.output[0]].sizes[0] - 1))


@nodes(EMPTY_FAMILY, [*_ELEMENTWISE, *_FIRST], lambda d, n: bool(_cut(d, n)), bits=False,
       uses=["Slice", "Concat"], kind=Kind.EMPTY)  # fmt: skip
def batch_with_nothing(
    emit: Nodes, draft: Draft, node: onnx.NodeProto, rng: random.Random
) -> Sequence[str]:
    """A node that computes every slice along the first axis by itself -> the same on all slices and
    once more on none, and Concat of the results: by ONNX a dimension may be 0."""
    return _parted(emit, draft, node, rng.choice((0, draft.types[node.output[0]].sizes[0])))


@values(EMPTY_FAMILY, of(MOVED, rank=1), uses=["Slice", "Concat"], kind=Kind.EMPTY)
def joined_with_nothing(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Concat of x and of what has no slices along that axis, a part of x or a constant: by
    ONNX a dimension may be 0."""
    axis = rng.randrange(type_.rank)
    sizes = [0 if i == axis else size for i, size in enumerate(type_.sizes)]
    if rng.random() < 0.5:
        empty = emit.const(np.zeros(sizes), type_.dtype)
    else:
        start = ints(emit, rng.randint(0, type_.sizes[axis]))
        empty = emit.one("Slice", x, start, start, ints(emit, axis))
    return emit.one("Concat", *rng.sample([x, empty], 2), axis=axis)


RULES = (batch_in_parts, batch_with_nothing, joined_with_nothing)
