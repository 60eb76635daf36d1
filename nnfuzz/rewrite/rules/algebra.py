"""Rules that compute the result of one node by other nodes."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs

from nnfuzz.ir.dtypes import DType
from nnfuzz.rewrite.draft import Draft, Nodes, attributes
from nnfuzz.rewrite.rule import nodes
from nnfuzz.rewrite.rules.identities import MOST_ELEMENTS, ints

FAMILY = "algebra"
_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)
_SUMS = ("Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum")
"""Contractions, into which a compiler may fold the nodes behind them."""
_MOST_WINDOWS = 16
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

Node = onnx.NodeProto


def _real(draft: Draft, node: Node) -> bool:
    return draft.dtype(node.output[0]) in _REALS


def _binary(draft: Draft, node: Node) -> bool:
    return len(node.input) == 2


@nodes(FAMILY, ["Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min", "Sum"])
def swapped_operands(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Op(a, b) -> Op(b, a) for Add, Mul, And, Or, Xor, Equal, Max, Min and Sum, which commute; the
    order of a longer sum is one that the envelope admits."""
    return emit.copied(node, [*node.input][::-1])


@nodes(FAMILY, ["Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
def mirrored_comparison(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """a > b -> b < a, a >= b -> b <= a, and back: true of NaN as well."""
    mirrored = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}
    mirrored |= {b: a for a, b in mirrored.items()}
    return [emit.one(mirrored[node.op_type], node.input[1], node.input[0])]


@nodes(FAMILY, ["Where"], uses=["Not"])
def mirrored_where(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Where(c, a, b) -> Where(not c, b, a): the same element is chosen."""
    condition, a, b = node.input
    return [emit.one("Where", emit.one("Not", condition), b, a)]


@nodes(FAMILY, ["Add", "Sub"], _real, uses=["Add", "Sub", "Neg"])
def minus_negated(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """a + b -> a - (-b), a - b -> a + (-b): IEEE 754 defines subtraction so; floats only."""
    other = "Sub" if node.op_type == "Add" else "Add"
    return [emit.one(other, node.input[0], emit.one("Neg", node.input[1]))]


@nodes(FAMILY, ["Neg"], _real, uses=["Mul", "Sub"])
def negated_as_product(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """-x -> x * -1, or -0.0 - x: exact in IEEE arithmetic."""
    dtype = draft.types[node.output[0]].dtype
    if rng.random() < 0.5:
        return [emit.one("Mul", node.input[0], emit.const(-1, dtype))]
    return [emit.one("Sub", emit.const(-0.0, dtype), node.input[0])]


@nodes(FAMILY, ["Abs"], _real, uses=["Neg", "Max"])
def abs_as_max(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """|x| -> Max(x, -x): exact, and equal for either zero."""
    (x,) = node.input
    return [emit.one("Max", x, emit.one("Neg", x))]


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


def _bounded(draft: Draft, node: Node) -> bool:
    return _real(draft, node) and len(node.input) == 3 and all(node.input)


@nodes(FAMILY, ["Clip"], _bounded, uses=["Max", "Min"])
def clip_as_min_max(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Clip(x, lo, hi) -> Min(Max(x, lo), hi): the definition of Clip since opset 13."""
    x, lo, hi = node.input
    return [emit.one("Min", emit.one("Max", x, lo), hi)]


@nodes(FAMILY, ["Relu", "Abs", "Ceil", "Floor", "Round", "Sign"])
def idempotent_twice(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """f(x) -> f(f(x)) for Relu, Abs, Ceil, Floor, Round and Sign, which leave their results alone;
    |x| of the smallest integer is itself after wrapping around."""
    return [emit.one(node.op_type, emit.one(node.op_type, node.input[0]))]


def _long(draft: Draft, node: Node) -> bool:
    return len(node.input) > 2


@nodes(FAMILY, ["Concat", "Max", "Min"], _long)
def nested_variadic(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Op(a, b, c) -> Op(Op(a, b), c) for Concat, Max and Min, which are associative."""
    cut = rng.randint(2, len(node.input) - 1)
    head = emit.copied(node, node.input[:cut])
    return emit.copied(node, [*head, *node.input[cut:]])


@nodes(FAMILY, ["Add", "Sum"], lambda draft, node: _real(draft, node) and _binary(draft, node))
def sum_or_add(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Add(a, b) -> Sum(a, b) and back: one addition, with the same broadcasting."""
    return [emit.one("Sum" if node.op_type == "Add" else "Add", *node.input)]


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


@nodes(FAMILY, ["Flatten", "Squeeze", "Unsqueeze", "Reshape"], _static, uses=["Reshape"])
def movement_as_reshape(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Flatten, Squeeze, Unsqueeze or Reshape -> Reshape to the shape of the result: all keep the
    order of elements."""
    sizes = [*draft.types[node.output[0]].sizes]
    if sizes and rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    return [emit.one("Reshape", node.input[0], ints(emit, *sizes))]


@nodes(FAMILY, ["Transpose"], lambda d, n: _static(d, n) and d.rank(n.input[0]) > 0 and _real(d, n),
       uses=["Einsum"])  # fmt: skip
def transpose_as_einsum(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Transpose(x, p) -> Einsum(abc->cab): no sum, so that every element is one of x."""
    rank = draft.rank(node.input[0])
    perm = attributes(node).get("perm", [*range(rank)][::-1])
    letters = _LETTERS[:rank]
    out = "".join(letters[axis] for axis in perm)
    return [emit.one("Einsum", node.input[0], equation=f"{letters}->{out}")]


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


def _ranked(draft: Draft, node: Node) -> bool:
    """Whether both operands have the same rank, at least 2: an ellipsis stands for equal axes."""
    first, second = (draft.rank(name) for name in node.input)
    return _real(draft, node) and first == second >= 2


@nodes(FAMILY, ["MatMul"], _ranked, uses=["Einsum"], bits=False)
def matmul_as_einsum(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """MatMul -> Einsum(...ij,...jk->...ik): the same products are added."""
    equation = "...ij,...jk->...ik"
    if all(draft.rank(name) == 2 for name in node.input):
        equation = "ij,jk->ik"
    return [emit.one("Einsum", *node.input, equation=equation)]


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


def _axes(draft: Draft, node: Node) -> list[int]:
    """The axes of a reduction; empty if they are unknown."""
    own, rank = attributes(node), draft.rank(node.input[0])
    if len(node.input) > 1 and node.input[1]:
        value = draft.value(node.input[1])
        axes = [] if value is None else [*value.reshape(-1).tolist()]
    else:
        axes = [*own.get("axes", [])]
    return sorted(axis % rank for axis in axes) if rank > 0 else []


def _spatial(draft: Draft, node: Node) -> bool:
    rank = draft.rank(node.input[0])
    kept = attributes(node).get("keepdims", 1) == 1
    return rank > 2 and kept and _real(draft, node) and _axes(draft, node) == [*range(2, rank)]


@nodes(FAMILY, ["ReduceMean"], _spatial, uses=["GlobalAveragePool"], bits=False)
def mean_as_pool(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """ReduceMean over all axes but the first two -> GlobalAveragePool: the same mean."""
    return [emit.one("GlobalAveragePool", node.input[0])]


def _pooled(draft: Draft, node: Node) -> bool:
    return _static(draft, node) and _real(draft, node) and draft.rank(node.input[0]) > 2


@nodes(FAMILY, ["GlobalAveragePool"], _pooled, uses=["ReduceMean"], bits=False)
def pool_as_mean(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """GlobalAveragePool -> ReduceMean over all axes but the first two: the same mean."""
    axes = [*range(2, draft.rank(node.input[0]))]
    return _reduced(emit, "ReduceMean", node.input[0], axes)


def _reduced(emit: Nodes, operator: str, x: str, axes: list[int]) -> list[str]:
    if emit.opset >= 18:
        return [emit.one(operator, x, ints(emit, *axes))]
    return [emit.one(operator, x, axes=axes)]


def _sum_of_squares(draft: Draft, node: Node) -> bool:
    return _real(draft, node) and draft.rank(node.input[0]) > 0 and bool(_axes(draft, node))


@nodes(FAMILY, ["ReduceMax", "ReduceMin"], _sum_of_squares, uses=["ReduceMax", "ReduceMin"])
def reduced_in_steps(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """ReduceMax or ReduceMin over several axes -> over one axis after the other: the largest of the
    largest is the largest; over one axis, twice, the second time over a size of 1."""
    rank, kept = draft.rank(node.input[0]), attributes(node).get("keepdims", 1)
    axes, x = _axes(draft, node), node.input[0]
    order = rng.sample(axes, len(axes))
    order = order if len(order) > 1 else order * 2
    for axis in order:
        (x,) = _reduced(emit, node.op_type, x, [axis - rank if rng.random() < 0.3 else axis])
    if not kept:
        x = emit.one("Squeeze", x, ints(emit, *axes))
    return [x]


def _normalising(draft: Draft, node: Node) -> bool:
    own = attributes(node)
    return (
        draft.dtype(node.output[0]) in (DType.FLOAT32, DType.FLOAT64)
        and len([name for name in node.output if name]) == 1
        and not own.get("training_mode", 0)
        and draft.rank(node.input[0]) >= 2
        and all(draft.dtype(name) is draft.dtype(node.input[0]) for name in node.input)
        and all(draft.rank(name) == 1 for name in node.input[1:])
        and draft.maker(node.input[0]) not in (*_SUMS, *_MOVES)
    )


_MOVES = ("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Identity", "Concat", "Slice", "Expand")


@nodes(FAMILY, ["BatchNormalization"], _normalising,
       uses=["Sub", "Mul", "Add", "Div", "Sqrt", "Reshape"], bits=False)  # fmt: skip
def norm_as_mul_add(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """BatchNormalization -> (x - mean) * (scale / Sqrt(var + epsilon)) + bias. Of n correctly
    rounded steps none errs by more than half a unit in the last place, five and a half in all,
    relative to |g| (|x| + |m|) + |b|; the envelope of BatchNormalization allows eight. Not behind a
    sum, into which a compiler might fold it, nor in float16, where g may overflow."""
    x, scale, bias, mean, var = node.input
    dtype, rank = draft.types[x].dtype, draft.rank(x)
    epsilon = emit.const(np.float32(attributes(node).get("epsilon", 1e-5)), dtype)
    channels = (-1, *[1] * (rank - 2)) if rank > 2 else (1, -1)

    def wide(name: str) -> str:
        return emit.one("Reshape", name, ints(emit, *channels))

    gain = emit.one("Div", scale, emit.one("Sqrt", emit.one("Add", var, epsilon)))
    centred = emit.one("Sub", x, wide(mean))
    return [emit.one("Add", emit.one("Mul", centred, wide(gain)), wide(bias))]


# -- the same node, written otherwise ---------------------------------------------------------


_AXIS = (
    "Concat Softmax LogSoftmax Hardmax Gather GatherElements ScatterElements Split ArgMax ArgMin "
    "LayerNormalization TopK Compress Unique Flatten"
).split()
_AXES_INPUT = {"Squeeze": 1, "Slice": 3, "Pad": 3, "CumSum": 1} | {
    f"Reduce{name}": 1 for name in "Max Min Mean Sum Prod L1 L2 LogSum LogSumExp SumSquare".split()
}


def _axis_constant(draft: Draft, node: Node) -> str:
    """The name of the constant that holds a node's axes; "" for none."""
    position = _AXES_INPUT.get(node.op_type, 1 << 30)
    name = node.input[position] if position < len(node.input) else ""
    return name if name in draft.constants else ""


def _with_axis(draft: Draft, node: Node) -> bool:
    there = node.op_type in _AXIS and "axis" in attributes(node)
    return (
        bool(node.input)
        and draft.rank(node.input[0]) > 0
        and (there or bool(_axis_constant(draft, node)))
    )


@nodes(FAMILY, (), _with_axis)
def axis_from_behind(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """An axis -> the same axis, counted from the other end, where the operator takes both."""
    rank, changed = draft.rank(node.input[0]), Node.FromString(node.SerializeToString())
    for attribute in changed.attribute:
        if attribute.name == "axis" and attribute.i != rank:  # Flatten's last one has no other name
            attribute.i += rank if attribute.i < 0 else -rank
    if name := _axis_constant(draft, node):
        axes = draft.value(name)
        assert axes is not None
        other = np.where(axes < 0, axes + rank, axes - rank)
        where = _AXES_INPUT[node.op_type]
        changed.input[where] = emit.const(other, draft.types[name].dtype)
    return emit.copied(changed, changed.input)


def _defaults(draft: Draft, node: Node) -> dict[str, Any]:
    """Attributes to which the standard gives a default."""
    try:
        schema = defs.get_schema(node.op_type, draft.opset, "")
    except defs.SchemaError:
        return {}
    defaults = {k: a.default_value for k, a in schema.attributes.items()}
    return {name: value for name, value in defaults.items() if value.name and value.type}


def _undeclared(draft: Draft, node: Node) -> bool:
    own = {a.name for a in node.attribute}
    return bool(_defaults(draft, node).keys() - own) and not _exclusive(node)


def _exclusive(node: Node) -> bool:
    """Whether attributes exclude each other, so that stating a default changes the meaning."""
    return node.op_type in ("Constant", "ConstantOfShape")


@nodes(FAMILY, (), _undeclared)
def defaults_spelled_out(
    emit: Nodes, draft: Draft, node: Node, rng: random.Random
) -> Sequence[str]:
    """Attributes that are absent -> the same with the default that the standard gives them."""
    changed = Node.FromString(node.SerializeToString())
    own = {a.name for a in node.attribute}
    changed.attribute.extend(v for k, v in _defaults(draft, node).items() if k not in own)
    return emit.copied(changed, changed.input)


def _declared(draft: Draft, node: Node) -> bool:
    return bool(_usual(draft, node))


def _usual(draft: Draft, node: Node) -> list[str]:
    """Names of attributes whose value is the default."""
    known = _defaults(draft, node)
    return [a.name for a in node.attribute if a.name in known and _same(a, known[a.name])]


def _same(one: onnx.AttributeProto, other: onnx.AttributeProto) -> bool:
    values = [onnx.helper.get_attribute_value(a) for a in (one, other)]
    return one.type == other.type and values[0] == values[1]


@nodes(FAMILY, (), _declared)
def defaults_left_out(emit: Nodes, draft: Draft, node: Node, rng: random.Random) -> Sequence[str]:
    """Attributes with their default -> without them: the standard gives them that value."""
    usual = _usual(draft, node)
    changed = Node.FromString(node.SerializeToString())
    del changed.attribute[:]
    changed.attribute.extend(a for a in node.attribute if a.name not in usual)
    return emit.copied(changed, changed.input)


RULES = (
    swapped_operands, mirrored_comparison, mirrored_where, minus_negated, negated_as_product,
    abs_as_max, relu_otherwise, clip_as_min_max, idempotent_twice, nested_variadic, sum_or_add,
    split_as_slices, movement_as_reshape, transpose_as_einsum, matmul_as_gemm, matmul_as_einsum,
    matmul_as_conv, conv_as_matmul, conv_as_unfold, mean_as_pool, pool_as_mean, reduced_in_steps,
    norm_as_mul_add, axis_from_behind, defaults_spelled_out, defaults_left_out,
)  # fmt: skip
