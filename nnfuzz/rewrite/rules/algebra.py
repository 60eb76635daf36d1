"""Rules that compute the result of one node by other nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.rewrite.draft import Draft, Nodes, attributes
from nnfuzz.rewrite.rule import nodes
from nnfuzz.rewrite.rules.identities import MOST_ELEMENTS, ints

FAMILY = "algebra"
_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
_MOST_WINDOWS = 16

Node = onnx.NodeProto


def _real(draft: Draft, node: Node) -> bool:
    return draft.dtype(node.output[0]) in _REALS


@nodes(FAMILY, ["Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min", "Sum"])
def swapped_operands(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Op(a, b) -> Op(b, a) for Add, Mul, And, Or, Xor, Equal, Max, Min and Sum, which commute; the
    order of a longer sum is one that the envelope admits."""
    return emit.copied(node, [*node.input][::-1])


@nodes(FAMILY, ["Where"], uses=["Not"])
def mirrored_where(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Where(c, a, b) -> Where(not c, b, a): the same element is chosen."""
    condition, a, b = node.input
    return [emit.one("Where", emit.one("Not", condition), b, a)]


@nodes(FAMILY, ["Relu"], _real, uses=["Max", "Clip", "Where", "Greater", "LeakyRelu"])
def relu_otherwise(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Relu(x) -> Max(x, 0), Clip(x, 0), Where(x > 0, x, 0) or LeakyRelu(x, alpha=0): each chooses x
    or a zero."""
    (x,) = node.input
    zero = emit.const(0, draft.types[node.output[0]].dtype)
    ways = (
        lambda: emit.one("Max", x, zero),
        lambda: emit.one("Clip", x, zero),
        lambda: emit.one("Where", emit.one("Greater", x, zero), x, zero),
        lambda: emit.one("LeakyRelu", x, alpha=0.0),
    )
    return [rng.choice(ways)()]


@nodes(FAMILY, ["Split"], lambda draft, node: draft.rank(node.input[0]) > 0, uses=["Slice"])
def split_as_slices(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Split(x) -> one Slice per part, cut where Split cuts."""
    x, rank = node.input[0], draft.rank(node.input[0])
    axis, start, parts = attributes(node).get("axis", 0) % rank, 0, []
    for name in node.output:
        type_ = draft.types.get(name)
        if type_ is None:
            return emit.copied(node, node.input)
        end = start + type_.sizes[axis]
        parts.append(emit.one("Slice", x, ints(emit, start), ints(emit, end), ints(emit, axis)))
        start = end
    return parts


def _static(draft: Draft, node: Node) -> bool:
    return node.output[0] in draft.types and node.input[0] in draft.types


def _matrices(draft: Draft, node: Node) -> bool:
    return _real(draft, node) and all(draft.rank(name) == 2 for name in node.input)


@nodes(FAMILY, ["MatMul"], _matrices, uses=["Gemm", "Transpose"], bits=False)
def matmul_as_gemm(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """MatMul of matrices -> Gemm without C, either operand possibly transposed twice: the same
    products are added, in an order that the envelope of MatMul leaves open."""
    transposed = [int(rng.random() < 0.4) for _ in range(2)]
    operands = [
        emit.one("Transpose", x, perm=[1, 0]) if t else x for x, t in zip(node.input, transposed)
    ]
    flags = {name: 1 for name, t in zip(("transA", "transB"), transposed) if t}
    return [emit.one("Gemm", *operands, **flags)]


@nodes(FAMILY, ["MatMul"], _matrices, uses=["Conv", "Reshape", "Transpose"], bits=False)
def matmul_as_conv(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """MatMul (M, K) x (K, N) -> Conv of (1, K, M, 1) with N filters of 1 x 1, transposed back: the
    same products are added."""
    a, b = node.input
    (m, k), n = draft.types[a].sizes, draft.types[b].sizes[1]
    image = emit.one("Reshape", emit.one("Transpose", a, perm=[1, 0]), ints(emit, 1, k, m, 1))
    filters = emit.one("Reshape", emit.one("Transpose", b, perm=[1, 0]), ints(emit, n, k, 1, 1))
    result = emit.one("Conv", image, filters)
    return [emit.one("Transpose", emit.one("Reshape", result, ints(emit, n, m)), perm=[1, 0])]


def _pointwise(draft: Draft, node: Node) -> bool:
    own = attributes(node)
    plain = own.get("group", 1) == 1 and not any(own.get("pads", [])) and len(node.input) == 2
    kernel = draft.types.get(node.input[1])
    return (
        plain
        and _static(draft, node)
        and own.get("auto_pad", b"NOTSET") in (b"NOTSET", "NOTSET")
        and all(s == 1 for s in own.get("strides", []))
        and kernel is not None
        and all(size == 1 for size in kernel.sizes[2:])
    )


@nodes(FAMILY, ["Conv"], _pointwise, uses=["MatMul", "Reshape"], bits=False)
def conv_as_matmul(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Conv with a 1 x 1 kernel and nothing else -> MatMul of the filters with the flat image: the
    same products are added."""
    x, w = node.input
    n, c, *_ = draft.types[x].sizes
    image = emit.one("Reshape", x, ints(emit, n, c, -1))
    filters = emit.one("Reshape", w, ints(emit, draft.types[w].sizes[0], c))
    sizes = draft.types[node.output[0]].sizes
    return [emit.one("Reshape", emit.one("MatMul", filters, image), ints(emit, *sizes))]


def _windowed(draft: Draft, node: Node) -> bool:
    """Whether a convolution has known parameters and is small enough to be unfolded."""
    own = attributes(node)
    known = _static(draft, node) and draft.rank(node.input[1]) > 2 and _real(draft, node)
    explicit = own.get("auto_pad", b"NOTSET") == b"NOTSET" and own.get("group", 1) == 1
    if not known or not explicit:
        return False
    kernel, result = (draft.types[name].sizes for name in (node.input[1], node.output[0]))
    windows = math.prod(kernel[2:])
    unfolded = windows * kernel[1] * math.prod(result[2:]) * result[0]
    return windows <= _MOST_WINDOWS and unfolded <= MOST_ELEMENTS


@nodes(FAMILY, ["Conv"], _windowed, bits=False,
       uses=["MatMul", "Reshape", "Pad", "Slice", "Concat", "Transpose", "Add"])  # fmt: skip
def conv_as_unfold(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Conv -> MatMul of the filters with the unfolded image, which has a Slice of the padded image
    for each element of the kernel: the same products are added, those with padding being zero."""
    x, w, own = node.input[0], node.input[1], attributes(node)
    filters, (batch, _, *sizes) = draft.types[w].sizes, draft.types[node.output[0]].sizes
    rank, dtype = len(sizes), draft.types[x].dtype
    strides, dilations = (own.get(name, [1] * rank) for name in ("strides", "dilations"))
    if any(pads := own.get("pads", [])):
        around = [0, 0, *pads[:rank], 0, 0, *pads[rank:]]
        x = emit.one("Pad", x, ints(emit, *around), emit.const(0, dtype))
    axes, steps = ints(emit, *range(2, rank + 2)), ints(emit, *strides)
    windows = []
    for offset in np.ndindex(*filters[2:]):
        starts = [o * d for o, d in zip(offset, dilations)]
        ends = [start + (n - 1) * s + 1 for start, n, s in zip(starts, sizes, strides)]
        windows.append(emit.one("Slice", x, ints(emit, *starts), ints(emit, *ends), axes, steps))
    unfolded = emit.one("Concat", *windows, axis=1)
    columns = emit.one("Reshape", unfolded, ints(emit, batch, len(windows) * filters[1], -1))
    last = [0, *range(2, rank + 2), 1]  # windows outside of channels, as the slices are joined
    rows = emit.one("Reshape", emit.one("Transpose", w, perm=last), ints(emit, filters[0], -1))
    product = emit.one("MatMul", rows, columns)
    result = emit.one("Reshape", product, ints(emit, batch, filters[0], *sizes))
    if len(node.input) > 2 and node.input[2]:
        bias = emit.one("Reshape", node.input[2], ints(emit, filters[0], *[1] * rank))
        result = emit.one("Add", result, bias)
    return [result]


RULES = (
    swapped_operands, mirrored_where, relu_otherwise, split_as_slices, matmul_as_gemm,
    matmul_as_conv, conv_as_matmul, conv_as_unfold,
)  # fmt: skip
