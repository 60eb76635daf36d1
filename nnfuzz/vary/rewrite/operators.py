"""Rules that insert operators which keep a value, or compute a node's result by others."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.vary.rewrite.draft import Admits, Draft, Kind, Nodes, attributes, nodes, values

IDENTITIES, ALGEBRA, EMPTY = "identities", "algebra", "empty tensors"
"""Names of the families of rules."""
MOST_ELEMENTS = 1 << 16  # limit for a value that is copied several times
Node = onnx.NodeProto
_MOST_WINDOWS = 16
_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
_NUMBERS = (*_REALS, DType.INT32, DType.INT64)
_PLAIN = (*_NUMBERS, DType.BOOL)
MOVED = (*_PLAIN, DType.INT8, DType.UINT8)
"""Dtypes whose tensors can be sliced, concatenated and reshaped at every opset."""
_WIDER = {
    DType.FLOAT16: (DType.FLOAT32, DType.FLOAT64),
    DType.FLOAT32: (DType.FLOAT64,),
    DType.BFLOAT16: (DType.FLOAT32,),
    DType.INT8: (DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32),
    DType.UINT8: (DType.INT32, DType.INT64, DType.FLOAT32),
    DType.INT16: (DType.INT32, DType.FLOAT32),
    DType.INT32: (DType.INT64, DType.FLOAT64),
    DType.BOOL: (DType.UINT8, DType.INT32, DType.INT64, DType.FLOAT32),
}


def of(dtypes: tuple[DType, ...], rank: int = 0) -> Admits:
    """Accepts types by dtype and by least rank."""

    def admits(type_: TensorType) -> bool:
        small = type_.elements <= MOST_ELEMENTS
        return type_.dtype in dtypes and type_.rank >= rank and small

    return admits


def ints(emit: Nodes, *numbers: int) -> str:
    return emit.const([*numbers], DType.INT64)


@values(IDENTITIES, of(_PLAIN, rank=1), uses=["Expand"])
def expand_same(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Expand(x, shape of x), some sizes replaced by 1: broadcasting keeps the sizes of x."""
    sizes = [1 if rng.random() < 0.4 else size for size in type_.sizes]
    return emit.one("Expand", x, ints(emit, *sizes))


@values(IDENTITIES, of(tuple(_WIDER)), uses=["Cast"])
def cast_wider(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x cast to a type that holds every value of x's type, and back: both casts are exact."""
    wider = rng.choice(_WIDER[type_.dtype])
    return emit.one("Cast", emit.one("Cast", x, to=wider), to=type_.dtype)


@values(IDENTITIES, of(_NUMBERS), uses=["Mul", "Div"])
def times_one(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> x * 1 or x / 1: exact in IEEE arithmetic and in integers, signs of zeros included."""
    shape = type_.sizes[rng.randint(0, type_.rank) :]  # it broadcasts to x
    ones = np.full([size if rng.random() < 0.5 else 1 for size in shape], 1)
    one = emit.const(ones, type_.dtype)
    if rng.random() < 0.3:
        return emit.one("Div", x, one)
    return emit.one("Mul", *rng.sample([x, one], 2))


@values(IDENTITIES, of((DType.FLOAT32,), rank=1), uses=["Dropout"])
def dropout_inference(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Dropout(x) without training, whatever its ratio: ONNX defines it as x."""
    ratio = [emit.const(rng.choice([0.0, 0.5, 0.9]), DType.FLOAT32)] if rng.random() < 0.7 else []
    if rng.random() < 0.5:
        return emit.one("Dropout", x, *ratio)
    return emit.several("Dropout", 2, x, *ratio)[0]


# -- nodes by other nodes ------------------------------------------------------------------------


def _real(draft: Draft, node: Node) -> bool:
    return draft.dtype(node.output[0]) in _REALS


def _static(draft: Draft, node: Node) -> bool:
    return node.output[0] in draft.types and node.input[0] in draft.types


def _matrices(draft: Draft, node: Node) -> bool:
    return _real(draft, node) and all(draft.rank(name) == 2 for name in node.input)


@nodes(ALGEBRA, ["MatMul"], _matrices, uses=["Gemm", "Transpose"], bits=False)
def matmul_as_gemm(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """MatMul of matrices -> Gemm without C, each operand possibly transposed twice: the same
    products are added, in an order that the error bounds of MatMul admit."""
    transposed = [int(rng.random() < 0.4) for _ in range(2)]
    operands = [
        emit.one("Transpose", x, perm=[1, 0]) if t else x for x, t in zip(node.input, transposed)
    ]
    flags = {name: 1 for name, t in zip(("transA", "transB"), transposed) if t}
    return [emit.one("Gemm", *operands, **flags)]


@nodes(ALGEBRA, ["MatMul"], _matrices, uses=["Conv", "Reshape", "Transpose"], bits=False)
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


@nodes(ALGEBRA, ["Conv"], _pointwise, uses=["MatMul", "Reshape"], bits=False)
def conv_as_matmul(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Conv with a 1 x 1 kernel and no other attributes -> MatMul of the filters with the flattened
    image: the same products are added."""
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


@nodes(ALGEBRA, ["Conv"], _windowed, bits=False,
       uses=["MatMul", "Reshape", "Pad", "Slice", "Concat", "Transpose", "Add"])  # fmt: skip
def conv_as_unfold(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Conv -> MatMul of the filters with the unfolded image, which has a Slice of the padded image
    for each element of the kernel: the same products are added; products with padding are zero."""
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
    last = [0, *range(2, rank + 2), 1]  # windows before channels, as the slices are
    rows = emit.one("Reshape", emit.one("Transpose", w, perm=last), ints(emit, filters[0], -1))
    product = emit.one("MatMul", rows, columns)
    result = emit.one("Reshape", product, ints(emit, batch, filters[0], *sizes))
    if len(node.input) > 2 and node.input[2]:
        bias = emit.one("Reshape", node.input[2], ints(emit, filters[0], *[1] * rank))
        result = emit.one("Add", result, bias)
    return [result]


# -- empty slices of nodes that compute every slice along the first axis by itself ---------------

_ELEMENTWISE = (
    "Abs Add Ceil Cos Div Elu Equal Erf Exp Floor Gelu Greater HardSwish LeakyRelu Less Log Max "
    "Min Mul Neg Not Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Sqrt Sub Tanh Where"
).split()
"""Operators all of whose operands are cut, if they have the first axis of the result."""
_FIRST = (
    "AveragePool Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalMaxPool "
    "GroupNormalization InstanceNormalization LRN MatMul MaxPool SpaceToDepth"
).split()
"""Operators of which only the first operand is cut."""


def _cut(draft: Draft, node: Node) -> list[int]:
    """Positions of the operands to cut along the first axis; none if the slices are mixed."""
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


def _parted(emit: Nodes, draft: Draft, node: Node, at: int) -> Sequence[str]:
    """A node's copies for slices before and after a position; a Concat of their results."""
    count, parts = draft.types[node.output[0]].sizes[0], []
    for start, end in ((0, at), (at, count)):
        read = [*node.input]
        for place in _cut(draft, node):
            bounds = (ints(emit, number) for number in (start, end, 0))
            read[place] = emit.one("Slice", read[place], *bounds)
        parts += emit.copied(node, read)
    return [emit.one("Concat", *parts, axis=0)]


@nodes(EMPTY, [*_ELEMENTWISE, *_FIRST], lambda d, n: bool(_cut(d, n)), bits=False,
       uses=["Slice", "Concat"], kind=Kind.EMPTY)  # fmt: skip
def batch_with_nothing(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """A node that computes each slice along the first axis separately -> one copy for all slices,
    one for none, and a Concat of the results: ONNX allows a dimension of 0."""
    return _parted(emit, draft, node, rng.choice((0, draft.types[node.output[0]].sizes[0])))


@values(EMPTY, of(MOVED, rank=1), uses=["Slice", "Concat"], kind=Kind.EMPTY)
def joined_with_nothing(emit: Nodes, x: str, type_: TensorType, rng: random.Random) -> str:
    """x -> Concat of x and an empty tensor (a slice of x or a constant): ONNX allows size 0."""
    axis = rng.randrange(type_.rank)
    sizes = [0 if i == axis else size for i, size in enumerate(type_.sizes)]
    if rng.random() < 0.5:
        empty = emit.const(np.zeros(sizes), type_.dtype)
    else:
        start = ints(emit, rng.randint(0, type_.sizes[axis]))
        empty = emit.one("Slice", x, start, start, ints(emit, axis))
    return emit.one("Concat", *rng.sample([x, empty], 2), axis=axis)


RULES = (
    expand_same, cast_wider, times_one, dropout_inference, matmul_as_gemm, matmul_as_conv,
    conv_as_matmul, conv_as_unfold, batch_with_nothing, joined_with_nothing,
)  # fmt: skip
