"""Operators on codes (quantised integers) in place of operators on floats, and integer products
that are scaled back.

Operators are those of ONNX and of the domain com.microsoft, if the configuration has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Node
from nnfuzz.operators.carriers import array
from nnfuzz.operators.families.quantized import BYTES
from nnfuzz.operators.families.shape import DataMovement
from nnfuzz.operators.motif import Misfit
from nnfuzz.operators.operator import flatten
from nnfuzz.vary.quantize.codes import Codes, Values, tensor_grid
from nnfuzz.vary.quantize.pairs import channel_axis

MOVING = ("MaxPool",)
"""Operators that select elements, in addition to those that only move them."""
REQUANTISING = {
    name: f"com.microsoft.QLinear{name}"
    for name in "Add Mul Sigmoid LeakyRelu Softmax AveragePool GlobalAveragePool Concat".split()
}
"""Operator on floats -> operator that takes codes, scales and zero points and returns codes."""
STATED = {"Softmax": {"opset": 13}}
"""Attributes of operators on codes that the operators on floats do not have."""
PRODUCTS = {"Conv": "QLinearConv", "MatMul": "QLinearMatMul", "Gemm": "com.microsoft.QGemm"}
"""Products of codes with constant weights; their bias has int32 codes."""
PER_CHANNEL = 0.4
"""Probability that the weights of a product have a scale per channel."""


def on_codes(values: Values, node: Node) -> None:
    """Add the operator on codes that replaces an operator on floats. Raises: Misfit."""
    if any(values.type(n).dtype is not DType.FLOAT32 for n in node.inputs[:1]):
        raise Misfit("codes have scales in float32")
    if node.op.name in REQUANTISING:
        return _requantised(values, node)
    if (isinstance(node.op, DataMovement) and not node.op.mixes) or node.op.name in MOVING:
        return _moved(values, node)
    if node.op.name in PRODUCTS:
        return _product(values, node)
    raise Misfit(f"{node.op.name} has no version on codes")


def _moved(values: Values, node: Node) -> None:
    """Add the operator itself, with codes in place of floats."""
    first, *rest = node.inputs
    if any(values.type(name).dtype.is_float for name in rest) or len(node.outputs) > 1:
        raise Misfit(f"{node.op.name} reads other floats")
    if any(isinstance(value, float) for value in node.op.attributes.values()):
        raise Misfit(f"{node.op.name} fills up with a float")
    codes = values.codes(first, BYTES, explicit=True)
    given = (codes.name, *map(values.floats, rest))
    (name,) = values.draft.add(node.op, given, f"{node.outputs[0]}_q")
    values.hold(node.outputs[0], codes=Codes(name, codes.scale, codes.zero, codes.grid))


def _requantised(values: Values, node: Node) -> None:
    dtype = values.width(BYTES)
    operands = [values.codes(name, (dtype,), explicit=True) for name in node.inputs]
    given = [part for codes in operands for part in (codes.name, *codes.params)]

    def call(*params: str, **own: Any) -> tuple[str, ...]:
        kind, stated = REQUANTISING[node.op.name], STATED.get(node.op.name, {})
        own |= {**node.op.attributes, **stated}
        return values.draft.call(kind, *given, *params, **own, to=dtype)

    _hold_result(values, node, dtype, call)


def _hold_result(
    values: Values, node: Node, dtype: DType, call: Callable[..., tuple[str, ...]]
) -> None:
    """Add the node that `call` makes, given scale and zero point that fit the result's values."""
    (name,) = node.outputs
    floats = [values.draft.values[values.floats(read)] for read in node.inputs]
    (y,) = flatten(node.op.torch(*floats))
    grid = tensor_grid(values.rng, y, DType.FLOAT32, dtype, explicit=True)
    scale, zero = values.parameters(grid, name)
    (found,) = call(scale, zero, stem=f"{name}_q")
    values.hold(name, codes=Codes(found, scale, zero, grid))


def _product(values: Values, node: Node) -> None:
    """Add a product of codes; its bias has int32 codes."""
    if node.op.name == "Gemm" and not _plain(node.op.attributes):
        raise Misfit("QGemm has neither factors nor a first operand that is transposed")
    left = values.codes(node.inputs[0], BYTES, explicit=True)
    right = _right(values, node)
    given = [left.name, *left.params, right.name, *right.params]
    bias = _bias(values, node, left, right)
    own = {**node.op.attributes, **_per_channel(right), "listed": 0, "sized": 0}
    dtype = values.width(BYTES)

    def call(*params: str, stem: str) -> tuple[str, ...]:
        kind = PRODUCTS[node.op.name]
        last = (*bias, *params) if node.op.name == "Gemm" else (*params, *bias)
        return values.draft.call(kind, *given, *last, stem=stem, **own)

    _hold_result(values, node, dtype, call)


def _plain(attributes: Mapping[str, Any]) -> bool:
    """Whether a Gemm computes nothing but a product plus a bias."""
    return attributes["alpha"] == attributes["beta"] == 1 and not attributes["transA"]


def _bias(values: Values, node: Node, left: Codes, right: Codes) -> list[str]:
    """The codes of the bias, if there is one; for a Gemm without a bias, zeros."""
    if len(node.inputs) > 2:
        whole, _ = values.bias(node.inputs[2], left, right)
        return [values.draft.constant(whole, f"{node.inputs[2]}_q")]
    if node.op.name != "Gemm":
        return []
    columns = values.type(node.inputs[1]).sizes[0 if node.op.attributes["transB"] else 1]
    return [values.draft.constant(np.zeros(columns, np.int32), f"{node.outputs[0]}_c")]


def _per_channel(right: Codes) -> dict[str, int]:
    """The attribute of integer products that says whether there is a scale per channel."""
    per_channel = int(right.grid.axis is not None)
    return {"columns": per_channel, "channels": per_channel}


def _right(values: Values, node: Node) -> Codes:
    """The codes of a product's second operand: constant weights, or uint8 (never saturated)."""
    name = node.inputs[1]
    if name not in values.constants:
        return values.codes(name, (DType.UINT8,), explicit=True)
    rank = values.type(name).rank
    axis = channel_axis(node, rank)
    flat = node.op.name == "MatMul" and (rank != 2 or values.type(node.inputs[0]).rank < 2)
    per_channel = not flat and values.rng.random() < PER_CHANNEL
    return values.weight(name, axis if per_channel else None, BYTES)


# -- dynamic quantisation ---------------------------------------------------------------------


def dynamically(values: Values, node: Node) -> None:
    """Add DynamicQuantizeLinear, an integer product, and the conversion of its result to floats."""
    kind = {"MatMul": "MatMulInteger", "Conv": "ConvInteger"}.get(node.op.name)
    if kind is None or values.type(node.inputs[0]).dtype is not DType.FLOAT32:
        raise Misfit(f"{node.op.name} is not quantised dynamically")
    call, (name,) = values.draft.call, node.outputs
    x, scale, zero = _dynamic(values, node.inputs[0])
    right = _right(values, node)
    right_zero = right.zero or values.draft.constant(np.zeros((), right.grid.dtype.numpy), name)
    own = {**node.op.attributes, **_per_channel(right), "listed": 0, "sized": 0}
    (y,) = call(kind, x, right.name, zero, right_zero, stem=f"{name}_i", **own)
    (y,) = call("Cast", y, stem=f"{name}_f", to=DType.FLOAT32)
    (factor,) = call("Mul", scale, _aligned(values, node, right), stem=f"{name}_s")
    (y,) = call("Mul", y, factor, stem=f"{name}_m")
    for bias in node.inputs[2:]:
        (y,) = call("Add", y, _per_map(values, node, bias), stem=f"{name}_b")
    values.hold(name, y)


def _dynamic(values: Values, name: str) -> tuple[str, ...]:
    """Codes, scale and zero point of a value, made by DynamicQuantizeLinear."""
    return values.draft.call("DynamicQuantizeLinear", values.floats(name), stem=f"{name}_d")


def _aligned(values: Values, node: Node, right: Codes) -> str:
    """The scale of the weights, reshaped to broadcast to the product."""
    per_map = node.op.name == "Conv" and right.grid.scale.ndim
    return _per_map(values, node, right.scale) if per_map else right.scale


def _per_map(values: Values, node: Node, name: str) -> str:
    """A constant vector, reshaped to broadcast to the channels of a Conv. Raises: Misfit."""
    draft = values.draft
    if name not in draft.graph.weights:
        raise Misfit(f"{name} is no constant")
    given = array(draft.values[name], draft.graph.type(name).dtype)
    sizes = (-1, *[1] * (values.type(node.inputs[0]).rank - 2))
    return draft.constant(given.reshape(sizes), f"{name}_r")
