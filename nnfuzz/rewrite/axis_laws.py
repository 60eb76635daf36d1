"""Batch axes: axes along which an operator computes every slice by itself, by ONNX's specification.

If two operands are concatenated along such an axis, the result is the concatenation of the two
results. Which axes these are differs between operators and between operands; a law says it for one
node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from nnfuzz.ir.types import TensorType
from nnfuzz.rewrite.draft import Draft, attributes

OLDEST = 13
"""The first operator set whose specification the laws follow."""


@dataclass(frozen=True)
class Law:
    """The batch axis of each operand and output of a node, counted from the front.

    inputs: position of an operand -> its batch axis; an operand without one belongs to every slice.
    outputs: the batch axis of each output. sizes: position of a constant operand that holds sizes
    -> index of the element that is the extent of the batch axis.
    """

    inputs: Mapping[int, int]
    outputs: Sequence[int]
    sizes: Mapping[int, int] = field(default_factory=dict)


Find = Callable[["Sight", int, int], Law | None]
"""(node, place of an operand, its axis) -> the law for that axis; None if slices are mixed."""


class Sight:
    """A node with the types and constants of its operands. Raises: KeyError for an unknown type."""

    def __init__(self, draft: Draft, node: onnx.NodeProto) -> None:
        self.draft, self.node = draft, node
        self.attributes = attributes(node)

    def given(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])

    def type(self, place: int) -> TensorType:
        return self.draft.types[self.node.input[place]]

    def sizes(self, place: int) -> tuple[int, ...]:
        return self.type(place).sizes

    @property
    def result(self) -> tuple[int, ...]:
        """Sizes of the first output."""
        return self.draft.types[self.node.output[0]].sizes

    def constant(self, place: int) -> np.ndarray | None:
        """The value of a constant operand; None if it is computed or left out."""
        return self.draft.value(self.node.input[place]) if self.given(place) else None

    def same_axis(self, axis: int) -> Sequence[int]:
        return [axis] * len(self.node.output)


# -- element by element ---------------------------------------------------------------------------


def broadcast(node: Sight, place: int, axis: int) -> Law | None:
    """Any axis. Operands are aligned at their last axes; one that is broadcast along the batch axis
    serves every slice.
    """
    result = node.result
    at, extent = axis + len(result) - len(node.sizes(place)), node.sizes(place)[axis]
    inputs = {}
    for other in filter(node.given, range(len(node.node.input))):
        own = at - len(result) + len(node.sizes(other))
        if own >= 0 and node.sizes(other)[own] == extent:
            inputs[other] = own
    return Law(inputs, node.same_axis(at))


def alone(node: Sight, place: int, axis: int) -> Law | None:
    """Any axis of the first operand; each other operand is one number for all elements."""
    others = filter(node.given, range(1, len(node.node.input)))
    if place or any(node.type(other).rank for other in others):
        return None
    return Law({0: axis}, node.same_axis(axis))


# -- all axes but some ----------------------------------------------------------------------------


def but_axis(default: int) -> Find:
    """Any axis except the one that the attribute names."""

    def find(node: Sight, place: int, axis: int) -> Law | None:
        own = node.attributes.get("axis", default) % len(node.sizes(0))
        return None if place or axis == own else Law({0: axis}, node.same_axis(axis))

    return find


def largest_law(node: Sight, place: int, axis: int) -> Law | None:
    """TopK, unless the order of its results is left open."""
    return but_axis(-1)(node, place, axis) if node.attributes.get("sorted", 1) else None


def before_axis(node: Sight, place: int, axis: int) -> Law | None:
    """Axes before the one that the attribute names; scales of the others serve every slice."""
    rank = len(node.sizes(0))
    own = node.attributes.get("axis", -1) % rank
    wide = any(node.type(p).rank > rank - own for p in (1, 2) if node.given(p))
    return None if place or axis >= own or wide else Law({0: axis}, node.same_axis(axis))


def arg_reduced(node: Sight, place: int, axis: int) -> Law | None:
    own = node.attributes.get("axis", 0) % len(node.sizes(0))
    return _without(node, place, axis, [own])


def reduced_law(node: Sight, place: int, axis: int) -> Law | None:
    """Any axis that is not reduced."""
    axes = _axes(node, 1)
    return _without(node, place, axis, axes) if axes else None


def _without(node: Sight, place: int, axis: int, gone: Sequence[int]) -> Law | None:
    if place or axis in gone:
        return None
    shift = 0 if node.attributes.get("keepdims", 1) else sum(other < axis for other in gone)
    return Law({0: axis}, node.same_axis(axis - shift))


def _axes(node: Sight, place: int) -> list[int]:
    """Axes that an attribute or a constant names; empty if they are unknown."""
    axes = node.constant(place) if node.given(place) else node.attributes.get("axes")
    rank = len(node.sizes(0))
    return [int(axis) % rank for axis in np.ravel(axes)] if axes is not None and rank else []


def but_constant_axes(place_of_axes: int) -> Find:
    """Any axis except those that a constant operand names."""

    def find(node: Sight, place: int, axis: int) -> Law | None:
        axes = _axes(node, place_of_axes)
        return None if place or not axes or axis in axes else Law({0: axis}, node.same_axis(axis))

    return find


def sliced(node: Sight, place: int, axis: int) -> Law | None:
    starts = node.constant(1)
    if starts is not None and not node.given(3):
        return None if place or axis < starts.size else Law({0: axis}, node.same_axis(axis))
    return but_constant_axes(3)(node, place, axis)


def padded(node: Sight, place: int, axis: int) -> Law | None:
    """Axes without padding."""
    pads, rank = node.constant(1), len(node.sizes(0))
    if place or pads is None or node.given(3) or pads[axis] or pads[axis + rank]:
        return None
    return Law({0: axis}, [axis])


def tiled(node: Sight, place: int, axis: int) -> Law | None:
    repeats = node.constant(1)
    if place or repeats is None or repeats[axis] != 1:
        return None
    return Law({0: axis}, [axis])


def joined_law(node: Sight, place: int, axis: int) -> Law | None:
    """Concat: any axis except the one of the concatenation; all operands have it."""
    own = node.attributes["axis"] % len(node.sizes(0))
    every = dict.fromkeys(range(len(node.node.input)), axis)
    return None if axis == own else Law(every, [axis])


def gathered(node: Sight, place: int, axis: int) -> Law | None:
    """Gather: any axis of the data except the gathered one; the indices serve every slice."""
    own = node.attributes.get("axis", 0) % len(node.sizes(0))
    if place or axis == own:
        return None
    return Law({0: axis}, [axis if axis < own else axis + len(node.sizes(1)) - 1])


def elements(node: Sight, place: int, axis: int) -> Law | None:
    """GatherElements, ScatterElements: any axis except the attribute's, if indices and data
    have the same extent along it.
    """
    own = node.attributes.get("axis", 0) % len(node.sizes(0))
    extents = {node.sizes(other)[axis] for other in range(len(node.node.input))}
    every = dict.fromkeys(range(len(node.node.input)), axis)
    return None if axis == own or len(extents) > 1 else Law(every, [axis])


def but_last_two(node: Sight, place: int, axis: int) -> Law | None:
    rank = len(node.sizes(0))
    return None if place or axis >= rank - 2 else Law({0: axis}, [axis])


# -- the first axis -------------------------------------------------------------------------------


def first(*places: int, outputs: int = 1) -> Find:
    """The first axis of these operands, as far as they are present; others serve every slice."""

    def find(node: Sight, place: int, axis: int) -> Law | None:
        there = [p for p in places if node.given(p)]
        if axis or place not in there or len(node.node.output) > outputs:
            return None
        return Law(dict.fromkeys(there, 0), node.same_axis(0))

    return find


def normalised(node: Sight, place: int, axis: int) -> Law | None:
    """BatchNormalization with given statistics."""
    trained = node.attributes.get("training_mode", 0)
    return None if trained else first(0)(node, place, axis)


def attended(node: Sight, place: int, axis: int) -> Law | None:
    """Attention: the first axis of all operands; a mask may be shared by all slices."""
    there = [p for p in (0, 1, 2, 4, 5, 6) if node.given(p)]
    if node.given(3) and len(node.sizes(3)) == 4 and node.sizes(3)[0] == node.sizes(0)[0]:
        there.append(3)
    return None if axis or place not in there else Law(dict.fromkeys(there, 0), node.same_axis(0))


def recurrent(node: Sight, place: int, axis: int) -> Law | None:
    """RNN, GRU, LSTM: the batch of sequences, of initial states and of lengths."""
    behind = node.attributes.get("layout", 0) == 0
    axes = {0: int(behind), 4: 0, 5: int(behind), 6: int(behind)}
    axes = {p: a for p, a in axes.items() if node.given(p)}
    outputs = [2, 1, 1] if behind else [0, 0, 0]
    return Law(axes, outputs[: len(node.node.output)]) if axes.get(place) == axis else None


# -- products -------------------------------------------------------------------------------------


def multiplied_law(node: Sight, place: int, axis: int) -> Law | None:
    """MatMul: rows of the first matrix, columns of the second, or an axis of the stack."""
    if place > 1 or any(node.type(p).rank for p in (2, 3) if node.given(p)):
        return None
    ranks, result = [len(node.sizes(p)) for p in (0, 1)], len(node.result)
    if min(ranks) < 1 or axis == (ranks[0] - 1, max(ranks[1] - 2, 0))[place]:
        return None
    if axis >= ranks[place] - 2:
        vector = ranks[1 - place] == 1
        return Law({place: axis}, [result - 1 if place or vector else result - 2])
    from_behind = axis - ranks[place]
    other = ranks[1 - place] + from_behind
    inputs = {place: axis}
    if min(ranks) < 2:
        return Law(inputs, [axis])
    if other >= 0 and node.sizes(1 - place)[other] == node.sizes(place)[axis]:
        inputs[1 - place] = other
    return Law(inputs, [result + from_behind])


def gemm(node: Sight, place: int, axis: int) -> Law | None:
    """Gemm: rows of the first matrix or columns of the second, with those of what is added."""
    flipped = node.attributes.get(("transA", "transB")[place], 0) if place < 2 else 0
    if place > 1 or axis != (place if not flipped else 1 - place):
        return None
    inputs, added = {place: axis}, node.sizes(2) if node.given(2) else ()
    own = place - 2 + len(added)
    if own >= 0 and added[own] == node.sizes(place)[axis]:
        inputs[2] = own
    return Law(inputs, [place])


def summed_law(node: Sight, place: int, axis: int) -> Law | None:
    """Einsum: an axis whose letter is in the result, in all operands that have the letter."""
    equation = node.attributes["equation"].decode().replace(" ", "")
    if "->" not in equation or "." in equation:
        return None
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    letter = operands[place][axis]
    if letter not in result or any(term.count(letter) > 1 for term in (*operands, result)):
        return None
    inputs = {p: term.index(letter) for p, term in enumerate(operands) if letter in term}
    return Law(inputs, [result.index(letter)])


# -- movement -------------------------------------------------------------------------------------


def transposed(node: Sight, place: int, axis: int) -> Law | None:
    perm = node.attributes.get("perm", [*range(len(node.sizes(0)))][::-1])
    return Law({0: axis}, [perm.index(axis)])


def reshaped(node: Sight, place: int, axis: int) -> Law | None:
    """Reshape: an axis that the result has, too, with equally many elements before it."""
    sizes = node.constant(1)
    after = _kept(node.sizes(0), node.result, axis)
    if place or sizes is None or after < 0 or 0 in sizes:
        return None
    return Law({0: axis}, [after], {1: after})


def flattened(node: Sight, place: int, axis: int) -> Law | None:
    """Flatten: an axis that is all of a dimension of the result; `law` compares their extents."""
    cut, rank = node.attributes.get("axis", 1), len(node.sizes(0))
    return Law({0: axis}, [int(axis >= (cut + rank if cut < 0 else cut))])


def _kept(before: Sequence[int], after: Sequence[int], axis: int) -> int:
    """Position of an axis in another shape of the same elements; -1 if that has no such axis."""
    front = math.prod(before[:axis])
    same = (i for i, n in enumerate(after) if n == before[axis] and math.prod(after[:i]) == front)
    return next(same, -1)


def unsqueezed(node: Sight, place: int, axis: int) -> Law | None:
    axes, rank = node.constant(1), len(node.result)
    if place or axes is None:
        return None
    new = {int(a) % rank for a in np.ravel(axes)}
    return Law({0: axis}, [[a for a in range(rank) if a not in new][axis]])


def squeezed(node: Sight, place: int, axis: int) -> Law | None:
    axes = _axes(node, 1)
    if place or not axes or axis in axes:
        return None
    return Law({0: axis}, [axis - sum(a < axis for a in axes)])


def expanded(node: Sight, place: int, axis: int) -> Law | None:
    sizes, result = node.constant(1), node.result
    if place or sizes is None:
        return None
    at = axis + len(result) - len(node.sizes(0))
    position = at - len(result) + sizes.size
    return Law({0: axis}, [at], {1: position} if position >= 0 else {})


_ELEMENTWISE = (
    "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr "
    "BitwiseXor Ceil Celu Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual "
    "HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish "
    "Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus "
    "Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"
).split()
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
_FIRST = (
    "AveragePool Conv ConvTranspose DepthToSpace GlobalAveragePool GlobalLpPool GlobalMaxPool "
    "GroupNormalization InstanceNormalization LRN LpPool MaxPool SpaceToDepth"
).split()
LAWS: Mapping[str, Find] = {
    **dict.fromkeys(_ELEMENTWISE, broadcast),
    **dict.fromkeys(("Cast", "Clip", "QuantizeLinear", "DequantizeLinear"), alone),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"), but_axis(-1)),
    "TopK": largest_law,
    "Split": but_axis(0),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization"), before_axis),
    **dict.fromkeys(("ArgMax", "ArgMin"), arg_reduced),
    **{f"Reduce{name}": reduced_law for name in _REDUCTIONS},
    "CumSum": but_constant_axes(1),
    "Slice": sliced,
    "Pad": padded,
    "Tile": tiled,
    "Concat": joined_law,
    "Gather": gathered,
    **dict.fromkeys(("GatherElements", "ScatterElements"), elements),
    **dict.fromkeys(("Det", "Trilu"), but_last_two),
    **dict.fromkeys(_FIRST, first(0)),
    "BatchNormalization": normalised,
    "GridSample": first(0, 1),
    "Attention": attended,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), recurrent),
    **dict.fromkeys(("MatMul", "MatMulInteger"), multiplied_law),
    "Gemm": gemm,
    "Einsum": summed_law,
    "Transpose": transposed,
    "Reshape": reshaped,
    "Flatten": flattened,
    "Unsqueeze": unsqueezed,
    "Squeeze": squeezed,
    "Expand": expanded,
}
"""Laws by operator."""


def law(draft: Draft, node: onnx.NodeProto, place: int, axis: int) -> Law | None:
    """The law of a node for an axis of one of its operands.

    None if there is none, or if extents along the axis differ, so that an operand is broadcast.
    """
    find = LAWS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if find is None or draft.opset < OLDEST or not all(name for name in node.output):
        return None
    try:
        sight = Sight(draft, node)
        result = find(sight, place, axis)
        if result is None:
            return None
        extents = {sight.sizes(p)[a] for p, a in result.inputs.items()}
        outputs = (draft.types[name].sizes[a] for name, a in zip(node.output, result.outputs))
        return result if len(extents | {*outputs}) == 1 else None
    except (KeyError, IndexError):  # a type that inference does not know
        return None
