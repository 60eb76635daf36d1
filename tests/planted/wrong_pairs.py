"""Compilers with one planted fault that two operators in a row show, operands that are constant
together, integers that float32 does not hold, or numbers whose exponential overflows. Each is what
such a compiler makes of an ONNX model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.planted.edits import (
    Compilers,
    Model,
    attribute,
    constants,
    dtypes_of,
    into_identity,
    makers,
    replaced,
    shapes_of,
)

COMPILERS = Compilers()
PAIRS, INTEGERS, CONSTANTS, OVERFLOW, PRECISION = GROUPS = (
    *("pairs", "int64", "constants", "overflow", "precision"),
)
"""What a compiler's fault takes to show; the words in which its text begins."""


def pairs(model: Model, outer: Sequence[str], inner: Sequence[str]) -> Iterator[tuple]:
    """Each node of an outer operator whose first input an inner one computes, with that node."""
    made = makers(model)
    for node in model.graph.node:
        before = made.get(node.input[0]) if node.op_type in outer and node.input else None
        if before is not None and before.op_type in inner:
            yield node, before


def array(model: Model, node: onnx.NodeProto, place: int) -> np.ndarray | None:
    """The constant that a node reads; None if it is computed, given or absent."""
    held = constants(model).get(node.input[place]) if place < len(node.input) else None
    return None if held is None else numpy_helper.to_array(held)


def read(model: Model, node: onnx.NodeProto, place: int, values: np.ndarray) -> None:
    """Makes a node read a new constant."""
    name = f"{node.output[0]}_planted_{place}"
    model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
    node.input.extend([""] * (place + 1 - len(node.input)))
    node.input[place] = name


def wholly_constant(model: Model, node: onnx.NodeProto, least: int) -> bool:
    """Whether every parameter behind the first input is a constant, and there are so many."""
    held = constants(model)
    return len(node.input) > least and all(n in held for n in node.input[1:] if n)


# -- pairs ----------------------------------------------------------------------------------------


@COMPILERS.of(PAIRS)
def merges_clips_to_what_both_admit(model: Model) -> bool:
    """Clip of Clip takes the greater minimum and the lesser maximum, also where these cross."""
    changed = False
    for node, before in pairs(model, ["Clip"], ["Clip"]):
        ends = [[array(model, n, i) for n in (node, before)] for i in (1, 2)]
        (low, high) = ([e for e in of if e is not None] for of in ends)
        whole = all(len(n.input) == 3 for n in (node, before))
        if low and high and whole and max(low) > min(high):
            read(model, node, 1, max(low))
            read(model, node, 2, min(high))
            node.input[0], changed = before.input[0], True
    return changed


@COMPILERS.of(PAIRS)
def drops_requantisation(model: Model) -> bool:
    """QuantizeLinear of DequantizeLinear is nothing, whatever the scales are."""
    dtypes, changed = dtypes_of(model), False
    for node, before in pairs(model, ["QuantizeLinear"], ["DequantizeLinear"]):
        same = dtypes.get(node.output[0]) == dtypes.get(before.input[0])
        if same and [*node.input[1:]] != [*before.input[1:]]:
            into_identity(node, before.input[0])
            changed = True
    return changed


@COMPILERS.of(PAIRS)
def composes_transposes_backwards(model: Model) -> bool:
    """Transpose of Transpose composes the orders the wrong way round."""
    changed = False
    for node, before in pairs(model, ["Transpose"], ["Transpose"]):
        p, q = ([*a.ints] if (a := attribute(n, "perm")) else [] for n in (before, node))
        if p and q and [p[i] for i in q] != [q[i] for i in p]:
            attribute(node, "perm").ints[:] = [q[i] for i in p]
            node.input[0], changed = before.input[0], True
    return changed


@COMPILERS.of(PAIRS)
def copies_sizes_of_the_first_reshape(model: Model) -> bool:
    """Reshape of Reshape skips the first one, though a 0 copies a size of its result."""
    changed = False
    for node, before in pairs(model, ["Reshape"], ["Reshape"]):
        wanted, zero = array(model, node, 1), attribute(node, "allowzero")
        if wanted is not None and not wanted.all() and not (zero and zero.i):
            node.input[0], changed = before.input[0], True
    return changed


@COMPILERS.of(PAIRS)
def takes_the_root_of_a_square_for_nothing(model: Model) -> bool:
    """Sqrt of x * x or of x to the power of 2 is x, not its absolute value."""
    changed = False
    for node, before in pairs(model, ["Sqrt"], ["Mul", "Pow"]):
        exponent = array(model, before, 1)
        squared = before.op_type == "Pow" and exponent is not None and (exponent == 2).all()
        if squared or (before.op_type == "Mul" and before.input[0] == before.input[1]):
            into_identity(node, before.input[0])
            changed = True
    return changed


@COMPILERS.of(PAIRS)
def reduces_before_expanding(model: Model) -> bool:
    """A sum, norm or product over axes that Expand has made longer reads what it expands."""
    kinds = [f"Reduce{name}" for name in ("Sum", "Prod", "L1", "L2", "SumSquare", "LogSumExp")]
    shapes, changed = shapes_of(model), False
    for node, before in pairs(model, kinds, ["Expand"]):
        sizes, longer = shapes.get(before.input[0]), shapes.get(before.output[0])
        axes = array(model, node, 1)
        if not longer or sizes is None or len(sizes) != len(longer):
            continue
        over = [int(a) % len(longer) for a in axes] if axes is not None else range(len(longer))
        grown = [i for i, (a, b) in enumerate(zip(sizes, longer)) if a != b]
        if grown and set(grown) <= {*over}:
            node.input[0], changed = before.input[0], True
    return changed


def _padded(model: Model, operators: Sequence[str]) -> bool:
    changed = False
    for node, before in pairs(model, operators, ["Pad"]):
        pads, auto = array(model, before, 1), attribute(node, "auto_pad")
        if pads is None or len(before.input) > 3 or (auto and auto.s not in (b"", b"NOTSET")):
            continue
        begins, ends = np.split(pads, 2)
        own = attribute(node, "pads")
        spatial = [int(p) for p in (*begins[2:], *ends[2:])]
        if (pads < 0).any() or begins[:2].any() or ends[:2].any() or not any(spatial):
            continue
        both = [a + b for a, b in zip(spatial, own.ints)] if own else spatial
        if own:
            node.attribute.remove(own)
        node.attribute.append(helper.make_attribute("pads", both))
        node.input[0], changed = before.input[0], True
    return changed


@COMPILERS.of(PAIRS)
def pads_in_the_pooling(model: Model) -> bool:
    """A Pad in front of a pooling becomes the pooling's own, whatever its mode and value."""
    return _padded(model, ["MaxPool", "AveragePool", "LpPool"])


@COMPILERS.of(PAIRS)
def pads_in_the_convolution(model: Model) -> bool:
    """A Pad in front of a convolution becomes padding with zeros, whatever its mode and value."""
    return _padded(model, ["Conv", "ConvInteger"])


@COMPILERS.of(PAIRS)
def joins_parts_as_they_were(model: Model) -> bool:
    """Concat of all parts of a Split is nothing, in whatever order they come."""
    made, changed = makers(model), False
    for node in model.graph.node:
        split = made.get(node.input[0]) if node.op_type == "Concat" else None
        if split is None or split.op_type != "Split" or [*node.input] == [*split.output]:
            continue
        if sorted(node.input) == sorted(split.output):
            into_identity(node, split.input[0])
            changed = True
    return changed


BITS = {
    TensorProto.FLOAT16: 11, TensorProto.BFLOAT16: 8, TensorProto.FLOAT: 24,
    TensorProto.DOUBLE: 53, TensorProto.INT8: 8, TensorProto.UINT8: 8, TensorProto.INT16: 16,
    TensorProto.UINT16: 16, TensorProto.INT32: 32, TensorProto.INT64: 64,
}  # fmt: skip


@COMPILERS.of(PAIRS)
def skips_the_narrow_cast(model: Model) -> bool:
    """Cast of Cast skips a dtype with fewer bits than the one in front and the one behind."""
    dtypes, changed = dtypes_of(model), False
    for node, before in pairs(model, ["Cast"], ["Cast"]):
        names = before.input[0], before.output[0], node.output[0]
        first, between, last = (BITS.get(dtypes.get(name, 0), 0) for name in names)
        if 0 < between < min(first, last):
            node.input[0], changed = before.input[0], True
    return changed


@COMPILERS.of(PAIRS)
def slices_once(model: Model) -> bool:
    """Slice of Slice along the same axes begins at the sum of the starts, whatever the step, and
    ends where the second one does, whatever the first one cuts off.
    """
    shapes, changed = shapes_of(model), False
    for node, before in pairs(model, ["Slice"], ["Slice"]):
        fields = [[array(model, n, i) for i in (1, 2, 3, 4)] for n in (before, node)]
        whole, sizes = (shapes.get(n.input[0]) for n in (before, node))
        if not (whole and sizes) or any(field is None for of in fields for field in of):
            continue
        (starts, _, axes, steps), (more, ends, other, again) = fields
        if axes.tolist() != other.tolist() or min(*steps, *again) < 0:
            continue
        first, between = (np.array([of[a] for a in axes]) for of in (whole, sizes))
        starts, more, ends = (
            starts % first,
            more % between,
            np.where(ends < 0, ends % between, ends),
        )
        within = ends < between
        read(model, node, 1, starts + more)
        read(model, node, 2, np.where(within, starts + ends, 2**31 - 1))
        read(model, node, 4, steps * again)
        node.input[0], changed = before.input[0], True
    return changed


@COMPILERS.of(PAIRS)
def cancels_all_squeezes(model: Model) -> bool:
    """Squeeze of Unsqueeze and the reverse are nothing, whatever the axes are."""
    shapes, changed = shapes_of(model), False
    for operators in (["Squeeze"], ["Unsqueeze"]), (["Unsqueeze"], ["Squeeze"]):
        for node, before in pairs(model, *operators):
            if shapes.get(node.output[0]) != shapes.get(before.input[0]) is not None:
                into_identity(node, before.input[0])
                changed = True
    return changed


@COMPILERS.of(PAIRS)
def cancels_integer_quotients(model: Model) -> bool:
    """Mul of Div by one integer is nothing, and so is Div of Mul, whatever is cut off or wraps."""
    dtypes, shapes, changed = dtypes_of(model), shapes_of(model), False
    for operators in (["Mul"], ["Div"]), (["Div"], ["Mul"]):
        for node, before in pairs(model, *operators):
            one, other = (array(model, n, 1) for n in (node, before))
            whole = dtypes.get(node.output[0]) not in (1, 10, 11, 16)
            same = node.input[1] == before.input[1] or (
                one is not None and other is not None and np.array_equal(one, other)
            )
            kept = shapes.get(before.input[0]) == shapes.get(node.output[0])
            if whole and same and kept:
                into_identity(node, before.input[0])
                changed = True
    return changed


# -- integers -------------------------------------------------------------------------------------

ARITHMETIC = ("Add", "Sub", "Mul", "Abs", "Neg", "Max", "Min", "Sum", "ReduceSum", "ReduceMax")
COMPARISON = ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual")


def _through(model: Model, operators: Sequence[str], kinds: Sequence[int], to: int) -> bool:
    """Puts Casts around operators whose operands have one of some dtypes."""
    dtypes, kept, changed = dtypes_of(model), [], False
    for node in model.graph.node:
        node = onnx.NodeProto.FromString(node.SerializeToString())
        dtype = dtypes.get(node.input[0]) if node.input else None
        if node.op_type not in operators or dtype not in kinds or len(node.output) != 1:
            kept.append(node)
            continue
        for i, name in enumerate(node.input):
            if dtypes.get(name) == dtype and not (i and node.op_type.startswith("Reduce")):
                node.input[i] = f"{node.output[0]}_cast_{i}"
                kept.append(helper.make_node("Cast", [name], [node.input[i]], to=to))
        kept.append(node)
        changed = True
        if dtypes.get(node.output[0]) == dtype:
            result = node.output[0]
            node.output[0] = f"{result}_cast"
            kept.append(helper.make_node("Cast", [node.output[0]], [result], to=dtype))
    if changed:
        del model.graph.node[:]
        model.graph.node.extend(kept)
    return changed


@COMPILERS.of(INTEGERS)
def computes_int64_in_float32(model: Model) -> bool:
    """Arithmetic of int64 goes through float32, which loses what is beyond 2^24."""
    return _through(model, ARITHMETIC, [TensorProto.INT64], TensorProto.FLOAT)


@COMPILERS.of(INTEGERS)
def computes_int32_in_float32(model: Model) -> bool:
    """Arithmetic of int32 goes through float32, which loses what is beyond 2^24."""
    return _through(model, ARITHMETIC, [TensorProto.INT32], TensorProto.FLOAT)


@COMPILERS.of(INTEGERS)
def computes_int64_in_int32(model: Model) -> bool:
    """Arithmetic of int64 is done in int32, which loses what is beyond 2^31."""
    return _through(model, ARITHMETIC, [TensorProto.INT64], TensorProto.INT32)


@COMPILERS.of(INTEGERS)
def computes_int64_in_float64(model: Model) -> bool:
    """Arithmetic of int64 goes through float64, which loses what is beyond 2^53."""
    return _through(model, ARITHMETIC, [TensorProto.INT64], TensorProto.DOUBLE)


@COMPILERS.of(INTEGERS)
def compares_int64_in_int32(model: Model) -> bool:
    """Comparisons of int64 are done in int32, which loses what is beyond 2^31."""
    return _through(model, COMPARISON, [TensorProto.INT64], TensorProto.INT32)


@COMPILERS.of(INTEGERS)
def divides_int64_in_float32(model: Model) -> bool:
    """Quotients of int64 are computed in float32, which loses what is beyond 2^24."""
    return _through(model, ["Div"], [TensorProto.INT64], TensorProto.FLOAT)


# -- constants ------------------------------------------------------------------------------------


def _zeroed(model: Model, operators: Sequence[str], place: int) -> bool:
    """Zeroes one parameter of operators all of whose parameters are constant."""
    changed = False
    for node in model.graph.node:
        if node.op_type in operators and wholly_constant(model, node, place):
            values = array(model, node, place)
            if values is not None and values.any():
                read(model, node, place, np.zeros_like(values))
                changed = True
    return changed


@COMPILERS.of(CONSTANTS)
def packs_kernels_without_bias(model: Model) -> bool:
    """A convolution whose kernel and bias are constant loses its bias."""
    return _zeroed(model, ["Conv", "ConvTranspose"], 2)


@COMPILERS.of(CONSTANTS)
def folds_statistics_without_mean(model: Model) -> bool:
    """A BatchNormalization whose parameters all are constant takes the mean for 0."""
    return _zeroed(model, ["BatchNormalization"], 3)


@COMPILERS.of(CONSTANTS)
def packs_normalisation_without_bias(model: Model) -> bool:
    """A normalisation whose scale and bias are constant loses its bias."""
    operators = ["LayerNormalization", "InstanceNormalization", "GroupNormalization"]
    return _zeroed(model, operators, 2)


@COMPILERS.of(CONSTANTS)
def packs_products_without_bias(model: Model) -> bool:
    """A Gemm whose matrix and bias are constant loses its bias."""
    return _zeroed(model, ["Gemm"], 2)


@COMPILERS.of(CONSTANTS)
def packs_recurrent_weights_without_bias(model: Model) -> bool:
    """A recurrent layer whose weights and bias are constant loses its bias."""
    changed = False
    for node in model.graph.node:
        if node.op_type in ("LSTM", "GRU", "RNN") and len(node.input) > 3:
            held = [array(model, node, i) for i in (1, 2, 3)]
            if all(h is not None for h in held) and held[2].any():
                read(model, node, 3, np.zeros_like(held[2]))
                changed = True
    return changed


@COMPILERS.of(CONSTANTS)
def folds_normalisation_into_convolution(model: Model) -> bool:
    """BatchNormalization behind a Conv, both wholly constant, becomes its kernel without epsilon,
    and the scale of the second channel is that of the first.
    """
    changed = False
    for node, before in pairs(model, ["BatchNormalization"], ["Conv"]):
        scale = array(model, node, 1)
        if wholly_constant(model, before, 1) and wholly_constant(model, node, 4) and scale.size > 1:
            wrong = scale.copy()
            wrong[1] = wrong[0]
            read(model, node, 1, wrong)
            changed = True
    return changed


# -- overflow -------------------------------------------------------------------------------------


@COMPILERS.of(OVERFLOW)
def softplus_by_exp(model: Model) -> bool:
    """Softplus is log(1 + exp(x))."""
    return _with_one(model, "Softplus", lambda x, y, one: [
        ("Exp", [x], [f"{y}_e"]), ("Add", [f"{y}_e", one], [f"{y}_s"]), ("Log", [f"{y}_s"], [y]),
    ])  # fmt: skip


@COMPILERS.of(OVERFLOW)
def sigmoid_by_exp(model: Model) -> bool:
    """Sigmoid is exp(x) / (1 + exp(x))."""
    return _with_one(model, "Sigmoid", lambda x, y, one: [
        ("Exp", [x], [f"{y}_e"]), ("Add", [f"{y}_e", one], [f"{y}_s"]),
        ("Div", [f"{y}_e", f"{y}_s"], [y]),
    ])  # fmt: skip


@COMPILERS.of(OVERFLOW)
def tanh_by_exp(model: Model) -> bool:
    """Tanh is (exp(2 x) - 1) / (exp(2 x) + 1)."""
    return _with_one(model, "Tanh", lambda x, y, one: [
        ("Add", [x, x], [f"{y}_x"]), ("Exp", [f"{y}_x"], [f"{y}_e"]),
        ("Sub", [f"{y}_e", one], [f"{y}_a"]), ("Add", [f"{y}_e", one], [f"{y}_b"]),
        ("Div", [f"{y}_a", f"{y}_b"], [y]),
    ])  # fmt: skip


def _with_one(model: Model, operator: str, steps: Callable[[str, str, str], list]) -> bool:
    """Replaces float32 nodes of an operator, with a constant 1 to read."""
    dtypes = dtypes_of(model)
    wanted = [n for n in model.graph.node if n.op_type == operator]
    if not wanted or any(dtypes.get(n.input[0]) != TensorProto.FLOAT for n in wanted):
        return False
    one = numpy_helper.from_array(np.ones((), np.float32), "planted_one")
    model.graph.initializer.append(one)
    return replaced(model, operator, lambda x, y: steps(x[0], y, "planted_one"))


def _without_maximum(model: Model, operator: str, last: Callable[[str, list], list]) -> bool:
    """Computes an operator by sums of exponentials from which no maximum is subtracted."""
    kept, changed = [], False
    for node in model.graph.node:
        node = onnx.NodeProto.FromString(node.SerializeToString())
        if node.op_type != operator:
            kept.append(node)
            continue
        y, changed = node.output[0], True
        kept.append(helper.make_node("Exp", [node.input[0]], [f"{y}_e"]))
        fields = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        axes = [*node.input[1:]]
        if operator.startswith("Reduce"):
            kept.append(helper.make_node("ReduceSum", [f"{y}_e", *axes], [f"{y}_s"], **fields))
        else:
            name = f"{y}_axes"
            values = np.array([fields.get("axis", -1)], np.int64)
            model.graph.initializer.append(numpy_helper.from_array(values, name))
            kept.append(helper.make_node("ReduceSum", [f"{y}_e", name], [f"{y}_s"], keepdims=1))
        kept += last(y, [node.input[0], f"{y}_e", f"{y}_s"])
    if changed:
        del model.graph.node[:]
        model.graph.node.extend(kept)
    return changed


@COMPILERS.of(OVERFLOW)
def softmax_without_maximum(model: Model) -> bool:
    """Softmax subtracts no maximum."""
    return _without_maximum(
        model, "Softmax", lambda y, v: [helper.make_node("Div", v[1:], [y])]
    )  # fmt: skip


@COMPILERS.of(OVERFLOW)
def log_softmax_without_maximum(model: Model) -> bool:
    """LogSoftmax subtracts no maximum."""

    def last(y: str, v: list[str]) -> list:
        log = helper.make_node("Log", [v[2]], [f"{y}_l"])
        return [log, helper.make_node("Sub", [v[0], f"{y}_l"], [y])]

    return _without_maximum(model, "LogSoftmax", last)


@COMPILERS.of(OVERFLOW)
def log_sum_exp_without_maximum(model: Model) -> bool:
    """ReduceLogSumExp subtracts no maximum."""
    return _without_maximum(
        model, "ReduceLogSumExp", lambda y, v: [helper.make_node("Log", [v[2]], [y])]
    )


# -- precision ------------------------------------------------------------------------------------


@COMPILERS.of(PRECISION)
def folds_doubles_in_float32(model: Model) -> bool:
    """Arithmetic of float64 constants is folded in float32."""
    held, dtypes, changed = constants(model), dtypes_of(model), False
    folded = {"Add", "Sub", "Mul", "Div", "Sqrt", "Exp", "Tanh", "MatMul", "ReduceSum", "Neg"}
    known, rounded = set(held), []
    for node in model.graph.node:
        if node.input and known.issuperset(n for n in node.input if n):
            known.update(node.output)
            if node.op_type in folded and dtypes.get(node.output[0]) == TensorProto.DOUBLE:
                rounded.append(node.output[0])
    kept = []
    for node in model.graph.node:
        node = onnx.NodeProto.FromString(node.SerializeToString())
        kept.append(node)
        if node.output[0] in rounded:
            y, node.output[0] = node.output[0], f"{node.output[0]}_exact"
            kept.append(helper.make_node("Cast", [f"{y}_exact"], [f"{y}_f"], to=TensorProto.FLOAT))
            kept.append(helper.make_node("Cast", [f"{y}_f"], [y], to=TensorProto.DOUBLE))
            changed = True
    if changed:
        del model.graph.node[:]
        model.graph.node.extend(kept)
    return changed


@COMPILERS.of(PRECISION)
def normalises_in_float16(model: Model) -> bool:
    """LayerNormalization and InstanceNormalization of float32 are computed in float16."""
    operators = ["LayerNormalization", "InstanceNormalization", "GroupNormalization"]
    return _through(model, operators, [TensorProto.FLOAT], TensorProto.FLOAT16)


@COMPILERS.of(PRECISION)
def multiplies_doubles_in_float32(model: Model) -> bool:
    """Products of float64 are computed in float32."""
    operators = ["Mul", "Add", "Sub", "Div"]
    return _through(model, operators, [TensorProto.DOUBLE], TensorProto.FLOAT)
